// SPDX-License-Identifier: Apache-2.0
//
// ApiClient: calls of the control plane and of guest daemons through ingress, over one installation's port.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <boost/json/value.hpp>

#include "apps/cli/session.h"
#include "apps/cli/target.h"
#include "http/client.h"

namespace atl::cli {

namespace json = boost::json;

struct ApiReply {
  int status = 0;
  json::value body;        // null when the answer has none
  std::string next_token;  // of lists: empty at the end
};

// Use from the session's loop. Must not outlive it.
class ApiClient {
 public:
  static Result<std::shared_ptr<ApiClient>> open(Session& session, const std::string& instance);
  ApiClient(Session& session, Target target, Url api, Url sandbox);

  // One call with the user's key. A status of 400 or more becomes an Error with the server's message, word
  // and hint.
  Task<Result<ApiReply>> call(std::string method, std::string path,
                              std::optional<json::value> body = std::nullopt);
  // All pages of a list, at most `kMaxListed` items. The answers are lists, or have one under the last word
  // of `path`.
  Task<Result<json::array>> list(std::string path);

  // Starts a request to `port` of a sandbox. `headers` of the caller are kept; routing headers are added.
  Task<Result<std::unique_ptr<http::ClientExchange>>> start_in_sandbox(std::string sandbox,
                                                                       std::uint16_t port,
                                                                       http::RequestHead head);
  const Target& target() const { return target_; }
  Session& session() { return session_; }

 private:
  Task<Result<net::StreamPtr>> connect(Url url);
  http::Connector connector(Url url);

  Session& session_;
  Target target_;
  Url api_url_;
  Url sandbox_url_;
  std::shared_ptr<http::Client> api_;
  std::shared_ptr<http::Client> sandbox_;
};

inline constexpr std::size_t kMaxListed = 100'000;
inline constexpr std::size_t kMaxAnswer = 16 * 1024 * 1024;

// The error that an HTTP answer describes: {"code","message","error_code","hint"}, or just its status.
Error error_of_answer(int status, std::string_view body, std::string_view what);

// Fields of JSON objects that came from a server: absent or of another type gives the fallback.
std::string text_at(const json::value& value, std::string_view key, std::string_view fallback = "");
std::int64_t number_at(const json::value& value, std::string_view key, std::int64_t fallback = 0);
double real_at(const json::value& value, std::string_view key, double fallback = 0);
bool flag_at(const json::value& value, std::string_view key, bool fallback = false);
const json::value* find_at(const json::value& value, std::string_view key);

}  // namespace atl::cli
