// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include "guest/download.h"
#include "guest/files_api.h"
#include "guest/gzip.h"
#include "guest/limits.h"
#include "guest/paths.h"

namespace atl::guest {
namespace {

// A file opened for download, with its first bytes.
struct Source {
  Fd fd;
  std::string name;
  struct stat st = {};
  bool sized = true;           // false: st_size says nothing (files of /proc)
  bool at_end = false;         // `buffer` holds everything
  std::uint64_t position = 0;  // of the byte after `buffer`
  std::string buffer;
};

Result<Fd> open_source(const User& user, const std::string& path) {
  auto fd = with_rights(user, [&](Rights rights) { return open_path(path, O_RDONLY, rights); });
  if (fd.ok()) return fd;
  int number = fd.error().sys_errno();
  if (number == ENOENT || number == ENOTDIR)
    return make_error(Code::kNotFound, "path '{}' does not exist", path);
  if (number == ENXIO) return make_error(Code::kInvalid, "path is not a regular file: {}", path);
  return std::move(fd).error().context(fmt::format("path '{}'", path));
}

// Reads the next buffer of the file. A file that has shrunk meanwhile ends early.
Result<void> read_next(Source& source, std::uint64_t limit) {
  std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(kFileBuffer, limit));
  source.buffer.resize(size);
  TRY(std::size_t got, read_full(source.fd.get(), source.buffer, static_cast<std::int64_t>(source.position)));
  source.buffer.resize(got);
  source.position += got;
  source.at_end = got < size;
  return success();
}

// Opens and sizes the file; reads the first bytes when it is read from its start.
Result<Source> open_download(Guest& guest, const Query& query, const std::string& default_user,
                             const std::string& workdir, bool whole) {
  TRY(User user, find_user(guest, http::query_value(query, "username").value_or(""), default_user));
  std::string given = http::query_value(query, "path").value_or("");
  TRY(std::string path, normal_path(given, user.account.home, workdir));
  Source source;
  TRY(source.fd, open_source(user, path));
  TRY(source.st, stat_at(source.fd.get(), ""));
  if (S_ISDIR(source.st.st_mode)) return make_error(Code::kInvalid, "path '{}' is a directory", path);
  if (!S_ISREG(source.st.st_mode)) return make_error(Code::kInvalid, "path is not a regular file: {}", path);
  source.name = std::string(base_name(path));
  source.sized = !on_kernel_file_system(source.fd.get());
  if (!whole && source.sized) return source;
  source.buffer.reserve(std::min<std::size_t>(kFileBuffer, static_cast<std::size_t>(source.st.st_size) + 1));
  std::uint64_t first = source.sized ? static_cast<std::uint64_t>(source.st.st_size) + 1 : kFileBuffer;
  auto read = read_next(source, first);
  if (!read.ok()) return std::move(read).error().context(fmt::format("path '{}'", path));
  return source;
}

http::ResponseHead base_head(const Source& source) {
  http::ResponseHead head;
  head.headers.add("content-type", std::string(media_type_of(source.name)));
  head.headers.add("content-disposition", content_disposition(source.name));
  head.headers.add("last-modified", http_date(source.st.st_mtim.tv_sec));
  head.headers.add("accept-ranges", source.sized ? "bytes" : "none");
  head.headers.add("vary", "Accept-Encoding");
  head.headers.add("x-content-type-options", "nosniff");
  return head;
}

// Sends `length` bytes from the source's position on, after what its buffer holds already.
Task<Result<void>> send_plain(Guest& guest, Exchange& exchange, Source& source, std::uint64_t length) {
  std::uint64_t left = length;
  for (;;) {
    if (source.buffer.size() > left) source.buffer.resize(left);
    if (!source.buffer.empty()) CO_TRY_VOID(co_await exchange.write(source.buffer));
    left -= source.buffer.size();
    if (left == 0 || source.at_end) break;
    auto read = co_await guest.file_workers.run([&] { return read_next(source, left); });
    CO_TRY_VOID(std::move(read));
    if (source.buffer.empty()) break;
  }
  // A file that has become shorter cannot fill the length that was promised: the client must see that it is
  // cut.
  if (left > 0 && length != UINT64_MAX)
    co_return Error(Code::kConflict, "the file became shorter while it was sent");
  co_return success();
}

Task<Result<void>> send_gzip(Guest& guest, Exchange& exchange, Source& source) {
  Deflater deflater;
  std::string packed;
  for (;;) {
    auto last = source.at_end ? Deflater::Last::kYes : Deflater::Last::kNo;
    auto compress = [&] {
      packed.clear();
      deflater.run(source.buffer, last, packed);
      return true;
    };
    co_await guest.file_workers.run(compress);
    if (!packed.empty()) CO_TRY_VOID(co_await exchange.write(packed));
    if (last == Deflater::Last::kYes) co_return success();
    auto read = co_await guest.file_workers.run([&source] { return read_next(source, kFileBuffer); });
    CO_TRY_VOID(std::move(read));
  }
}

// Compressing pays when the first buffer shrinks by an eighth.
bool shrinks(std::string_view sample) {
  Deflater trial;
  std::string packed;
  trial.run(sample.substr(0, 16 * kKiB), Deflater::Last::kYes, packed);
  std::size_t size = std::min<std::size_t>(sample.size(), 16 * kKiB);
  return packed.size() < size - size / 8 || size < 512;
}

Task<> send_range(Guest& guest, Exchange& exchange, Source& source, RangeChoice choice) {
  auto size = static_cast<std::uint64_t>(source.st.st_size);
  http::ResponseHead head = base_head(source);
  if (choice.kind == RangeKind::kUnsatisfiable) {
    head = {};
    head.status = 416;
    head.headers.add("content-range", fmt::format("bytes */{}", size));
    co_await respond(exchange, std::move(head), "");
    co_return;
  }
  head.status = 206;
  head.headers.add("content-range", fmt::format("bytes {}-{}/{}", choice.range.first,
                                                choice.range.first + choice.range.length - 1, size));
  head.headers.add("content-length", std::to_string(choice.range.length));
  source.position = choice.range.first;
  source.buffer.clear();
  source.at_end = false;
  auto sent = co_await exchange.send_head(std::move(head));
  if (sent.ok() && exchange.request().method != "HEAD")
    sent = co_await send_plain(guest, exchange, source, choice.range.length);
  if (sent.ok()) co_await finish(exchange);
}

Task<> send_file(Guest& guest, Exchange& exchange, Source& source, Encoding encoding) {
  http::ResponseHead head = base_head(source);
  if (source.at_end && source.buffer.empty()) {
    co_await respond(exchange, std::move(head),
                     "");  // Content-Length: 0, which clients need for an empty file
    co_return;
  }
  bool small = !source.sized || static_cast<std::uint64_t>(source.st.st_size) <= kMaxGzipSource;
  if (encoding == Encoding::kGzip && small && shrinks(source.buffer)) {
    head.headers.add("content-encoding", "gzip");
    auto sent = co_await exchange.send_head(std::move(head));
    if (sent.ok()) sent = co_await send_gzip(guest, exchange, source);
    if (sent.ok()) co_await finish(exchange);
    co_return;
  }
  if (source.at_end) {
    co_await respond(exchange, std::move(head), std::move(source.buffer));
    co_return;
  }
  std::uint64_t length = source.sized ? static_cast<std::uint64_t>(source.st.st_size) : UINT64_MAX;
  if (source.sized) head.headers.add("content-length", std::to_string(length));
  auto sent = co_await exchange.send_head(std::move(head));
  if (sent.ok() && exchange.request().method != "HEAD")
    sent = co_await send_plain(guest, exchange, source, length);
  if (sent.ok()) co_await finish(exchange);
}

}  // namespace

Task<> serve_download(Guest& guest, Exchange& exchange, Query query) {
  const http::Headers& headers = exchange.request().headers;
  Encoding encoding = choose_encoding(headers);
  auto range = headers.find("range");
  if (headers.find("if-range")) range.reset();  // we give no validators that it could name
  if (encoding == Encoding::kNone && !range) {
    co_await respond_error(exchange, 406, "no acceptable encoding found, supported: gzip, identity");
    co_return;
  }
  std::string default_user = guest.settings.default_user, workdir = guest.settings.workdir;
  bool whole = !range.has_value();
  auto source = co_await guest.file_workers.run(
      [&] { return open_download(guest, query, default_user, workdir, whole); });
  if (!source.ok()) {
    co_await respond_error(exchange, source.error());
    co_return;
  }
  RangeChoice choice;
  if (range && source->sized) choice = choose_range(*range, static_cast<std::uint64_t>(source->st.st_size));
  if (choice.kind != RangeKind::kWhole) {
    co_await send_range(guest, exchange, *source, choice);
    co_return;
  }
  if (range && source->sized) {
    // The range was none that we serve; the whole file follows.
    auto read = co_await guest.file_workers.run([&source] { return read_next(*source, kFileBuffer); });
    if (!read.ok()) {
      co_await respond_error(exchange, read.error());
      co_return;
    }
  }
  co_await send_file(guest, exchange, *source, encoding);
}

}  // namespace atl::guest
