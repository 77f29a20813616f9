// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/guest_client.h"

#include <boost/json.hpp>

#include "base/bytes.h"
#include "base/text.h"
#include "model/guest_boot.h"
#include "model/sandbox.h"

namespace atl::cli {
namespace {

constexpr std::size_t kBlock = 256 * 1024;
constexpr Steady::duration kTransferIdle = std::chrono::seconds(60);

std::string file_target(const std::string& path, const std::string& user) {
  std::string target = "/files?path=" + http::percent_encode(path);
  if (!user.empty()) target += "&username=" + http::percent_encode(user);
  return target;
}

RemoteEntry entry_of(const json::value& value) {
  RemoteEntry entry;
  entry.name = text_at(value, "name");
  entry.path = text_at(value, "path");
  entry.owner = text_at(value, "owner");
  entry.group = text_at(value, "group");
  entry.permissions = text_at(value, "permissions");
  entry.modified = text_at(value, "modifiedTime");
  entry.link_target = text_at(value, "symlinkTarget");
  entry.directory = text_at(value, "type") == "FILE_TYPE_DIRECTORY";
  entry.size = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_at(value, "size")));
  entry.mode = static_cast<unsigned>(number_at(value, "mode")) & 07777;
  return entry;
}

// Reads an answer's body and turns a failure status into an Error.
Task<Result<std::string>> read_answer(http::ClientExchange& exchange, std::string what) {
  CO_TRY(http::ResponseHead head, co_await exchange.read_head());
  CO_TRY(std::string body, co_await exchange.read_all(kMaxAnswer));
  if (head.status >= 400) co_return error_of_answer(head.status, body, what);
  co_return body;
}

}  // namespace

std::string_view how_name(ProcessEnd::How how) {
  switch (how) {
    case ProcessEnd::How::kExited: return "exited";
    case ProcessEnd::How::kSignalled: return "signalled";
    case ProcessEnd::How::kTimedOut: return "timed_out";
    case ProcessEnd::How::kOutOfMemory: return "out_of_memory";
    case ProcessEnd::How::kKilled: return "killed";
    case ProcessEnd::How::kLost: return "lost";
  }
  return "lost";
}

Task<Result<std::shared_ptr<GuestClient>>> GuestClient::open(std::shared_ptr<ApiClient> api,
                                                             std::string sandbox, std::string user) {
  if (!model::valid_sandbox_id(sandbox)) {
    co_return make_error(Code::kInvalid, "'{}' is not a sandbox id", printable(sandbox))
        .with_hint("list ids with 'atoll ps'");
  }
  std::string path = "/sandboxes/" + sandbox;
  auto reply = co_await api->call("GET", path);
  if (!reply.ok()) {
    if (reply.error().code() != Code::kNotFound) co_return std::move(reply).error();
    co_return make_error(Code::kNotFound, "there is no sandbox {}", sandbox)
        .with_hint("list them with 'atoll ps'");
  }
  std::string token = text_at(reply->body, "envdAccessToken");
  co_return std::make_shared<GuestClient>(std::move(api), std::move(sandbox), std::move(token),
                                          std::move(user));
}

http::RequestHead GuestClient::request(std::string method, std::string target) const {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  if (!token_.empty()) head.headers.add("x-access-token", token_);
  if (!user_.empty()) head.headers.add("authorization", "Basic " + base64_encode(user_ + ":"));
  return head;
}

Task<Result<std::unique_ptr<http::ClientExchange>>> GuestClient::post(http::RequestHead head,
                                                                      std::string body) {
  head.content_length = body.size();
  head.has_body = true;
  head.headers.add("connect-protocol-version", "1");
  auto exchange = co_await api_->start_in_sandbox(sandbox_, model::kGuestPort, std::move(head));
  if (!exchange.ok()) co_return std::move(exchange).error();
  CO_TRY_VOID(co_await (*exchange)->write_body(body));
  CO_TRY_VOID(co_await (*exchange)->finish_body());
  co_return std::move(*exchange);
}

Task<Result<json::value>> GuestClient::unary(std::string method, json::value body) {
  http::RequestHead head = request("POST", "/" + method);
  head.headers.add("content-type", "application/json");
  auto exchange = co_await post(std::move(head), json::serialize(body));
  if (!exchange.ok()) co_return std::move(exchange).error();
  CO_TRY(std::string text, co_await read_answer(**exchange, method));
  boost::system::error_code failure;
  json::value value = json::parse(text, failure);
  if (failure) co_return make_error(Code::kCorrupt, "{}: the sandbox's answer is not JSON", method);
  co_return value;
}

Task<Result<RemoteEntry>> GuestClient::stat(std::string path) {
  json::value body = json::object({{"path", path}});
  CO_TRY(json::value answer, co_await unary("filesystem.Filesystem/Stat", std::move(body)));
  const json::value* entry = find_at(answer, "entry");
  if (entry == nullptr)
    co_return make_error(Code::kCorrupt, "Stat {}: no entry in the answer", printable(path));
  co_return entry_of(*entry);
}

Task<Result<std::vector<RemoteEntry>>> GuestClient::list(std::string path, unsigned depth) {
  json::value body = json::object({{"path", path}, {"depth", depth}});
  CO_TRY(json::value answer, co_await unary("filesystem.Filesystem/ListDir", std::move(body)));
  std::vector<RemoteEntry> out;
  const json::value* entries = find_at(answer, "entries");
  if (entries == nullptr || !entries->is_array()) co_return out;  // proto3 leaves an empty list out
  for (const json::value& item : entries->as_array()) out.push_back(entry_of(item));
  co_return out;
}

Task<Result<void>> GuestClient::upload(std::string path, std::optional<std::uint64_t> size, Source source) {
  http::RequestHead head = request("POST", file_target(path, user_));
  head.headers.add("content-type", "application/octet-stream");
  head.content_length = size;
  head.has_body = true;
  auto exchange = co_await api_->start_in_sandbox(sandbox_, model::kGuestPort, std::move(head));
  if (!exchange.ok()) co_return std::move(exchange).error();
  (*exchange)->set_idle_limit(kTransferIdle);
  for (;;) {
    CO_TRY(std::string block, co_await source());
    if (block.empty()) break;
    auto sent = co_await (*exchange)->write_body(block);
    if (!sent.ok()) {
      // The daemon may have answered early (no space, not a file): its words are better than "broken pipe".
      auto answer = co_await read_answer(**exchange, "write " + printable(path));
      co_return answer.ok() ? std::move(sent).error() : std::move(answer).error();
    }
  }
  CO_TRY_VOID(co_await (*exchange)->finish_body());
  CO_TRY(std::string body, co_await read_answer(**exchange, "write " + printable(path)));
  co_return success();
}

Task<Result<void>> GuestClient::download(std::string path, std::function<void(std::uint64_t)> on_size,
                                         Sink sink) {
  http::RequestHead head = request("GET", file_target(path, user_));
  head.headers.add("accept-encoding", "identity");
  auto exchange = co_await api_->start_in_sandbox(sandbox_, model::kGuestPort, std::move(head));
  if (!exchange.ok()) co_return std::move(exchange).error();
  (*exchange)->set_idle_limit(kTransferIdle);
  CO_TRY(http::ResponseHead answer, co_await (*exchange)->read_head());
  if (answer.status >= 400) {
    CO_TRY(std::string body, co_await (*exchange)->read_all(kMaxAnswer));
    co_return error_of_answer(answer.status, body, "read " + printable(path));
  }
  auto length = answer.headers.find("content-length");
  on_size(length ? parse_number<std::uint64_t>(*length).value_or(0) : 0);
  std::vector<char> block(kBlock);
  for (;;) {
    CO_TRY(std::size_t n, co_await (*exchange)->read_body(block));
    if (n == 0) co_return success();
    CO_TRY_VOID(co_await sink(std::string_view(block.data(), n)));
  }
}

Task<Result<std::shared_ptr<ProcessStream>>> GuestClient::start(ProcessSpec spec) {
  auto stream = std::make_shared<ProcessStream>(shared_from_this(), std::move(spec));
  CO_TRY(ProcessEvent first, co_await stream->next());
  if (first.kind != ProcessEvent::Kind::kStarted) {
    co_return make_error(Code::kCorrupt, "the sandbox did not say that the process has started");
  }
  co_return stream;
}

Task<Result<std::pair<ProcessEnd, std::string>>> GuestClient::capture(ProcessSpec spec, std::size_t limit) {
  CO_TRY(std::shared_ptr<ProcessStream> stream, co_await start(std::move(spec)));
  std::string output;
  for (;;) {
    CO_TRY(ProcessEvent event, co_await stream->next());
    if (event.kind == ProcessEvent::Kind::kEnded) co_return std::pair(event.end, output);
    if (event.kind != ProcessEvent::Kind::kStdout) continue;
    output += event.data;
    if (output.size() > limit)
      co_return make_error(Code::kTooLarge, "a command in the sandbox wrote more than {} bytes", limit);
  }
}

}  // namespace atl::cli
