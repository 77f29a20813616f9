// SPDX-License-Identifier: Apache-2.0
//
// Which installation the command talks to, and with which key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/secret.h"

namespace atl::cli {

struct Target {
  std::string api_url = "http://127.0.0.1:7400";
  std::string sandbox_url = "http://127.0.0.1:7400";
  Secret api_key;
  std::string ca_file;  // PEM of the authority to trust for https; empty: the system's
  std::string domain;   // names of sandboxes, with the port: "atoll.localhost:7400"
  std::string run_dir;  // of an installation on this machine; empty: elsewhere
  std::string data_dir;
};

// "http://127.0.0.1:7400": scheme http or https, no user, no query. The port defaults by scheme.
struct Url {
  bool tls = false;
  std::string host;  // without brackets
  std::uint16_t port = 0;
  std::string path;  // without a slash at the end, mostly empty
  std::string authority() const;
};
Result<Url> parse_url(std::string_view text);
// Where sandboxes are reached by headers, when nothing else is said: at the API's own address, and below the
// name `sandbox.` where the API has a name, since there a bare name means the API.
Url sandbox_url_of(const Url& api);

// What `atoll up` leaves for a user: one target per instance, mode 0600.
struct Credentials {
  std::string current;
  std::map<std::string, Target> instances;
};
std::string credentials_json(const Credentials& credentials);
Result<Credentials> parse_credentials(std::string_view text);

// "<home>/.config/atoll/credentials.json", or below $XDG_CONFIG_HOME when `xdg` is not empty.
std::string credentials_path(const std::string& home, const std::string& xdg);
// Of the user who runs the command.
std::string own_credentials_path();
Result<Credentials> load_credentials(const std::string& path);  // kNotFound when there is no file

// Order: ATOLL_API_URL or E2B_API_URL with its key (an E2B key alone is ignored: it may belong to another
// service); then the credentials file: `instance`, else $ATOLL_INSTANCE, else its current one.
Result<Target> find_target(const std::string& instance);

}  // namespace atl::cli
