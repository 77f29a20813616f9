// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/caller.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "apps/cli/env_lines.h"
#include "apps/cli/files.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"

namespace atl::cli {
namespace {
constexpr char kSystemBundle[] = "/etc/ssl/certs/ca-certificates.crt";
}  // namespace

Result<Caller> find_caller() {
  uid_t uid = ::getuid();
  const char* sudo_uid = std::getenv("SUDO_UID");
  bool by_sudo = uid == 0 && sudo_uid != nullptr;
  if (by_sudo) {
    auto number = parse_number<uid_t>(sudo_uid);
    if (!number)
      return make_error(Code::kInvalid, "SUDO_UID is '{}', which is no number", printable(sudo_uid));
    uid = *number;
  }
  const passwd* entry = ::getpwuid(uid);
  if (entry == nullptr) return make_error(Code::kNotFound, "there is no user with uid {}", uid);
  Caller caller{uid, entry->pw_gid, entry->pw_name, ""};
  // With sudo the environment is root's; the user's own home is in the user database.
  caller.credentials = by_sudo && uid != 0 ? credentials_path(entry->pw_dir, "") : own_credentials_path();
  return caller;
}

Result<void> store_target(const Caller& caller, const std::string& instance, Target target,
                          const std::string& ca_pem) {
  auto credentials = load_credentials(caller.credentials);
  if (!credentials.ok() && credentials.error().code() != Code::kNotFound)
    return std::move(credentials).error();
  Credentials all = credentials.ok() ? std::move(*credentials) : Credentials{};
  std::string directory = caller.credentials.substr(0, caller.credentials.rfind('/'));
  target.ca_file = directory + "/" + instance + "-ca.pem";
  auto system = sys::read_file(kSystemBundle, 8 * kMiB);
  std::string bundle = (system.ok() ? *system + "\n" : "") + ca_pem;
  TRY_VOID(replace_file_as(caller.uid, caller.gid, target.ca_file, ca_pem, 0600));
  TRY_VOID(replace_file_as(caller.uid, caller.gid, bundle_path(target.ca_file), bundle, 0600));
  all.current = instance;
  all.instances.insert_or_assign(instance, std::move(target));
  return replace_file_as(caller.uid, caller.gid, caller.credentials, credentials_json(all), 0600);
}

}  // namespace atl::cli
