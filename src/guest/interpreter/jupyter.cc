// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/jupyter.h"

#include <algorithm>

#include <boost/json.hpp>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"

namespace atl::guest::interpreter::jupyter {
namespace json = boost::json;
namespace {

constexpr char kDelimiter[] = "<IDS|MSG>";
constexpr std::size_t kMaxDepth = 64;

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

Result<json::object> parse_object(std::string_view text, std::string_view what) {
  boost::system::error_code failure;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::value value = json::parse(json::string_view(text.data(), text.size()), failure, {}, options);
  if (failure || !value.is_object())
    return make_error(Code::kCorrupt, "the kernel sent a {} that is no JSON object", what);
  return std::move(value.get_object());
}

}  // namespace

Request make_request(std::string_view session, std::string_view type, std::string_view content,
                     std::string_view metadata) {
  Request out;
  out.id = random_uuid();
  std::string header = fmt::format(
      R"({{"msg_id":"{}","session":{},"username":"user","date":"{}","msg_type":"{}","version":"5.3"}})",
      out.id, json_quote(session), format_rfc3339(system_clock().now()), type);
  out.parts = {kDelimiter, "", std::move(header), "{}", std::string(metadata), std::string(content)};
  return out;
}

std::string execute_content(std::string_view code, bool silent) {
  return fmt::format(R"({{"code":{},"silent":{},"store_history":{},)"
                     R"("user_expressions":{{}},"allow_stdin":false,"stop_on_error":false}})",
                     json_quote(code), silent, !silent);
}

Result<Heard> parse_heard(zmtp::Message message) {
  auto& parts = message.parts;
  auto delimiter = std::find(parts.begin(), parts.end(), kDelimiter);
  // Signature, header, parent's header, metadata, content; what follows are raw buffers.
  if (parts.end() - delimiter < 6)
    return make_error(Code::kCorrupt, "the kernel sent {} parts that are no message", parts.size());
  Heard out;
  TRY(json::object header, parse_object(delimiter[2], "header"));
  TRY(json::object parent, parse_object(delimiter[3], "parent header"));
  out.type = text_of(header, "msg_type");
  out.parent = text_of(parent, "msg_id");
  out.cut = message.cut;
  if (message.cut) return out;
  auto content = parse_object(delimiter[5], "content");
  // Too deep, or none: whose it is and what it was meant to be is known all the same.
  out.cut = !content.ok();
  if (content.ok()) out.content = std::move(*content);
  return out;
}

std::string connection_file(std::string_view prefix) {
  return fmt::format(R"({{"transport":"ipc","ip":{},"shell_port":{},"iopub_port":{},"stdin_port":{},)"
                     R"("control_port":{},"hb_port":{},"key":"","signature_scheme":"hmac-sha256"}})",
                     json_quote(prefix), kShell, kIopub, kStdin, kControl, kHeartbeat);
}

}  // namespace atl::guest::interpreter::jupyter
