// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/text.h"
#include "guest/files_api.h"
#include "guest/gzip.h"
#include "guest/limits.h"
#include "guest/multipart.h"
#include "guest/upload.h"

namespace atl::guest {
namespace {

constexpr std::size_t kFirstRead = 16 * kKiB;

// The request's body, decompressed when it is sent compressed.
class Body {
 public:
  static Result<Body> of(Exchange& exchange) {
    auto encoding = to_lower(trim(exchange.request().headers.find("content-encoding").value_or("identity")));
    if (encoding != "identity" && encoding != "gzip")
      return make_error(Code::kInvalid, "unsupported Content-Encoding: {}, supported: gzip",
                        printable(encoding));
    return Body(exchange, encoding == "gzip");
  }

  // Fills `out` as far as the body goes; less than its size only at the end.
  Task<Result<std::size_t>> fill(std::span<char> out) {
    std::size_t used = 0;
    while (used < out.size()) {
      CO_TRY(std::size_t got, co_await read(out.subspan(used)));
      if (got == 0) break;
      used += got;
    }
    co_return used;
  }

 private:
  Body(Exchange& exchange, bool gzip) : exchange_(&exchange) {
    if (!gzip) return;
    inflater_.emplace();
    packed_.resize(64 * kKiB);
  }

  Task<Result<std::size_t>> read(std::span<char> out) {
    if (!inflater_) co_return co_await exchange_->read_body(out);
    for (;;) {
      CO_TRY(std::size_t got, inflater_->run(rest_, out));
      if (got > 0) co_return got;
      if (ended_) break;
      CO_TRY(std::size_t received, co_await exchange_->read_body(packed_));
      ended_ = received == 0;
      rest_ = std::string_view(packed_).substr(0, received);
    }
    if (!inflater_->complete())
      co_return Error(Code::kInvalid, "the body is not valid gzip: it ends too early");
    co_return std::size_t{0};
  }

  Exchange* exchange_;
  std::optional<Inflater> inflater_;
  std::string packed_;
  std::string_view rest_;
  bool ended_ = false;
};

// Gathers the bytes of one file into whole buffers and writes them on a worker.
class Sink {
 public:
  Sink(Workers& workers, Upload upload) : workers_(workers), upload_(std::move(upload)) {}

  Task<Result<void>> add(std::string_view data) {
    while (!data.empty()) {
      std::size_t take = std::min(data.size(), kFileBuffer - pending_.size());
      pending_.append(data.substr(0, take));
      data.remove_prefix(take);
      if (pending_.size() == kFileBuffer) CO_TRY_VOID(co_await flush());
    }
    co_return success();
  }

  // For a caller that fills whole buffers itself.
  std::string& buffer() { return pending_; }
  Task<Result<void>> flush() {
    auto written = co_await workers_.run([this] { return upload_.append(pending_); });
    pending_.clear();
    co_return written;
  }

  Task<Result<void>> finish() {
    co_return co_await workers_.run([this]() -> Result<void> {
      if (!upload_.staged()) return upload_.write_whole(pending_);
      if (!pending_.empty()) TRY_VOID(upload_.append(pending_));
      return upload_.commit();
    });
  }

  const Upload& upload() const { return upload_; }

 private:
  Workers& workers_;
  Upload upload_;
  std::string pending_;
};

// What all files of one request share.
struct UploadCall {
  User user;
  std::string workdir;
  std::optional<std::string> path;  // of the query
  Metadata metadata;
};

// X-Metadata-<key>: value. Keys are stored in lower case.
Result<Metadata> metadata_of(const http::Headers& headers) {
  constexpr std::string_view kPrefix = "x-metadata-";
  Metadata out;
  for (const http::Header& header : headers) {
    if (!header.name.starts_with(kPrefix) || header.name.size() == kPrefix.size()) continue;
    std::string key = header.name.substr(kPrefix.size());
    if (key.size() > kMaxName - 9 || header.value.size() > kMaxMetadataValue)
      return make_error(Code::kInvalid, "header X-Metadata-{}: the name or value is too long", key);
    if (!valid_utf8(header.value))
      return make_error(Code::kInvalid, "header X-Metadata-{}: the value is not UTF-8", key);
    if (!out.emplace(key, header.value).second)
      return make_error(Code::kInvalid, "header X-Metadata-{}: is sent twice", key);
    if (out.size() > kMaxMetadata)
      return make_error(Code::kInvalid, "more than {} X-Metadata headers", kMaxMetadata);
  }
  return out;
}

Result<Upload> begin_upload(const UploadCall& call, const std::string& given) {
  TRY(std::string path, normal_path(given, call.user.account.home, call.workdir));
  return Upload::begin(call.user, std::move(path), call.metadata);
}

std::string file_json(const Upload& upload) {
  ObjectWriter out;
  out.text("path", upload.path()).text("name", base_name(upload.path())).text("type", "file");
  if (!upload.metadata().empty()) out.text_map("metadata", upload.metadata());
  return std::move(out).finish();
}

Task<Result<std::string>> take_octets(Guest& guest, const UploadCall& call, Body body) {
  std::string path = call.path.value_or("");
  if (path.empty())
    co_return Error(Code::kInvalid, "the query parameter 'path' is required for this content-type");
  auto upload = co_await guest.file_workers.run([&] { return begin_upload(call, path); });
  if (!upload.ok()) co_return std::move(upload).error();
  Sink sink(guest.file_workers, std::move(*upload));
  std::string& buffer = sink.buffer();
  for (;;) {
    // Most files are small: the whole buffer is made only when the first bytes show that it is needed.
    buffer.resize(kFirstRead);
    CO_TRY(std::size_t got, co_await body.fill(buffer));
    if (got == kFirstRead) {
      buffer.resize(kFileBuffer);
      CO_TRY(std::size_t more, co_await body.fill(std::span(buffer).subspan(got)));
      got += more;
    }
    buffer.resize(got);
    if (got < kFileBuffer) break;
    CO_TRY_VOID(co_await sink.flush());
  }
  CO_TRY_VOID(co_await sink.finish());
  co_return fmt::format("[{}]", file_json(sink.upload()));
}

// One multipart request: parts named "file" become files, others are read and left.
class MultipartUpload {
 public:
  MultipartUpload(Guest& guest, const UploadCall& call, std::string boundary)
      : guest_(guest), call_(call), parser_(std::move(boundary)) {}

  Task<Result<std::string>> run(Body body) {
    std::string buffer(64 * kKiB, '\0');
    for (;;) {
      CO_TRY(std::size_t got, co_await body.fill(buffer));
      parser_.feed(std::string_view(buffer).substr(0, got));
      CO_TRY_VOID(co_await take_events());
      if (got < buffer.size()) break;
    }
    if (!parser_.ended()) co_return Error(Code::kInvalid, "multipart body: it ends before its last boundary");
    if (answer_.empty()) co_return Error(Code::kInvalid, "multipart body: it has no part named 'file'");
    co_return "[" + answer_ + "]";
  }

 private:
  Task<Result<void>> take_events() {
    for (;;) {
      CO_TRY(auto event, parser_.next());
      if (event == MultipartParser::Event::kNeedMore || event == MultipartParser::Event::kEnd)
        co_return success();
      if (event == MultipartParser::Event::kPart) CO_TRY_VOID(co_await begin_part());
      if (event == MultipartParser::Event::kData && sink_) CO_TRY_VOID(co_await sink_->add(parser_.data()));
      if (event == MultipartParser::Event::kPartEnd && sink_) CO_TRY_VOID(co_await end_part());
    }
  }

  Task<Result<void>> begin_part() {
    const PartHead& head = parser_.head();
    if (head.name != "file") co_return success();
    std::string given = call_.path.value_or(head.filename.value_or(""));
    if (given.empty())
      co_return Error(Code::kInvalid, "a part 'file' has no filename, and the query has no 'path'");
    auto upload = co_await guest_.file_workers.run([&]() -> Result<Upload> {
      TRY(std::string path, normal_path(given, call_.user.account.home, call_.workdir));
      if (!targets_.insert(path).second)
        return make_error(Code::kInvalid,
                          "you cannot upload multiple files to the same path '{}' in one upload request",
                          path);
      return Upload::begin(call_.user, std::move(path), call_.metadata);
    });
    if (!upload.ok()) co_return std::move(upload).error();
    sink_.emplace(guest_.file_workers, std::move(*upload));
    co_return success();
  }

  Task<Result<void>> end_part() {
    CO_TRY_VOID(co_await sink_->finish());
    if (!answer_.empty()) answer_ += ',';
    answer_ += file_json(sink_->upload());
    sink_.reset();
    co_return success();
  }

  Guest& guest_;
  const UploadCall& call_;
  MultipartParser parser_;
  std::optional<Sink> sink_;
  std::set<std::string> targets_;
  std::string answer_;
};

Task<Result<std::string>> take_upload(Guest& guest, Exchange& exchange, const Query& query) {
  const http::Headers& headers = exchange.request().headers;
  UploadCall call;
  call.workdir = guest.settings.workdir;
  call.path = http::query_value(query, "path");
  if (call.path && call.path->empty()) call.path.reset();
  CO_TRY(call.metadata, metadata_of(headers));
  CO_TRY(Body body, Body::of(exchange));
  std::string name = http::query_value(query, "username").value_or(""),
              default_user = guest.settings.default_user;
  auto user = co_await guest.file_workers.run([&] { return find_user(guest, name, default_user); });
  if (!user.ok()) co_return std::move(user).error();
  call.user = std::move(*user);
  std::string type(headers.find("content-type").value_or(""));
  if (equals_ignore_case(trim(std::string_view(type).substr(0, type.find(';'))), "application/octet-stream"))
    co_return co_await take_octets(guest, call, std::move(body));
  CO_TRY(std::string boundary, multipart_boundary(type));
  MultipartUpload upload(guest, call, std::move(boundary));
  co_return co_await upload.run(std::move(body));
}

struct Compose {
  std::vector<std::string> sources;
  std::string destination;
  std::string user;
};

Result<Compose> parse_compose(std::string_view text) {
  TRY(auto message, parse_message(text));
  Fields fields(message);
  Compose out;
  out.sources = fields.texts("sourcePaths", kMaxComposeSources);
  out.destination = fields.text("destination");
  out.user = fields.text("username");
  if (fields.failure()) return *fields.failure();
  if (out.sources.empty()) return Error(Code::kInvalid, "source_paths must not be empty");
  if (out.destination.empty()) return Error(Code::kInvalid, "destination is required");
  return out;
}

Result<std::string> compose(Guest& guest, const Compose& request, const std::string& default_user,
                            const std::string& workdir) {
  TRY(User user, find_user(guest, request.user, default_user));
  TRY(std::string destination, normal_path(request.destination, user.account.home, workdir));
  std::vector<std::string> sources;
  for (const std::string& source : request.sources) {
    TRY(std::string path, normal_path(source, user.account.home, workdir));
    sources.push_back(std::move(path));
  }
  TRY_VOID(compose_files(user, sources, destination));
  ObjectWriter out;
  out.text("path", destination).text("name", base_name(destination)).text("type", "file");
  return std::move(out).finish();
}

}  // namespace

Task<> serve_upload(Guest& guest, Exchange& exchange, Query query) {
  auto answer = co_await take_upload(guest, exchange, query);
  if (answer.ok()) {
    co_await respond_json(exchange, 200, std::move(*answer));
  } else if (answer.error().code() != Code::kCancelled) {
    co_await respond_error(exchange, answer.error());
  }
}

Task<> serve_compose(Guest& guest, Exchange& exchange) {
  std::string default_user = guest.settings.default_user, workdir = guest.settings.workdir;
  auto text = co_await exchange.read_all(kMaxMessage);
  Result<Compose> request = text.ok() ? parse_compose(*text) : Result<Compose>(text.error());
  if (!request.ok()) {
    co_await respond_error(exchange, request.error());
    co_return;
  }
  auto answer =
      co_await guest.file_workers.run([&] { return compose(guest, *request, default_user, workdir); });
  if (answer.ok())
    co_await respond_json(exchange, 200, std::move(*answer));
  else
    co_await respond_error(exchange, answer.error());
}

}  // namespace atl::guest
