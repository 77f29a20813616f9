// SPDX-License-Identifier: Apache-2.0
//
// The calls about sandboxes that several subcommands share.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/cli/guest_client.h"

namespace CLI {
class App;
}

namespace atl::cli {

struct CreateOptions {
  std::string template_name = "base";
  std::chrono::seconds lifetime{300};
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> metadata;
  bool internet = true;
  std::string risk, isolation;                       // empty: nothing is asked for
  std::optional<std::chrono::seconds> idle_timeout;  // without it as the template says; 0: none
};
// Declares --risk and --isolation.
void add_isolation_options(CLI::App& app, std::string& risk, std::string& isolation);

// Why a sandbox is awake or asleep, in a few words, from its JSON; "-" when that says nothing.
std::string describe_activity(const json::value& sandbox, WallTime now);

// Creates a sandbox and gives the client of its guest daemon.
Task<Result<std::shared_ptr<GuestClient>>> create_sandbox(std::shared_ptr<ApiClient> api,
                                                          CreateOptions options, std::string user);
// Kills it. kNotFound when there is none.
Task<Result<void>> kill_sandbox(std::shared_ptr<ApiClient> api, std::string sandbox);
// Sets the deadline to now + lifetime.
Task<Result<void>> set_lifetime(std::shared_ptr<ApiClient> api, std::string sandbox,
                                std::chrono::seconds lifetime);

}  // namespace atl::cli
