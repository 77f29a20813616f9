// SPDX-License-Identifier: Apache-2.0
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/machine.h"
#include "apps/cli/parse.h"
#include "apps/cli/probes.h"
#include "base/text.h"
#include "base/units.h"
#include "net/tcp.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

using State = Finding::State;

constexpr std::uint64_t kLeastDisk = 2 * kGiB;  // below it the base template cannot be built
constexpr std::uint64_t kGoodDisk = 10 * kGiB;
constexpr std::uint64_t kGoodMemory = 2 * kGiB;

Finding programs() {
  std::string missing;
  for (const char* name :
       {"atoll-runner", "atoll-control", "atoll-gateway", "atoll-guestd", "atoll-template"}) {
    if (!find_daemon(name).ok()) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty())
    return {"programs", State::kOk, "runner, control, guest daemon and template builder are here", ""};
  return {"programs", State::kFailed, "missing: " + missing, "build them all, or install Atoll completely"};
}

Finding system_user(const Config& config) {
  const passwd* entry = ::getpwnam(config.user.c_str());
  if (entry == nullptr)
    return {"system user", State::kWarning, "there is no user " + config.user, "'sudo atoll up' makes it"};
  if (entry->pw_uid != 0)
    return {"system user", State::kOk, fmt::format("{} (uid {})", config.user, entry->pw_uid), ""};
  return {"system user", State::kFailed, config.user + " is root", "name an unprivileged user in atoll.toml"};
}

// Others must not be able to write where the daemons keep what they trust.
Finding owned_directory(const std::string& what, const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT)
    return {what, State::kWarning, path + " does not exist yet", "'sudo atoll up' makes it"};
  if (!S_ISDIR(info.st_mode))
    return {what, State::kFailed, path + " is no directory", "move it away, or name another in atoll.toml"};
  bool safe = info.st_uid == 0 && (info.st_mode & 0022) == 0;
  if (safe) return {what, State::kOk, path, ""};
  return {what, State::kFailed,
          fmt::format("{} is owned by uid {} with mode {:04o}", path, info.st_uid, info.st_mode & 07777),
          "'sudo atoll up' corrects it: root must own it and nobody else may write"};
}

Finding disk_space(const Config& config) {
  struct statvfs info{};
  std::string path = config.data_dir;
  while (::statvfs(path.c_str(), &info) != 0 && path.size() > 1)
    path = path.substr(0, std::max<std::size_t>(1, path.rfind('/')));
  std::uint64_t available = std::uint64_t{info.f_bavail} * info.f_frsize;
  std::string detail = fmt::format("{} free for {}", format_bytes(available), config.data_dir);
  if (available >= kGoodDisk) return {"disk space", State::kOk, detail, ""};
  return {"disk space", available < kLeastDisk ? State::kFailed : State::kWarning, detail,
          "free some, or put data_dir on a larger disk; each sandbox may use up to 4 GiB"};
}

Finding memory() {
  auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::string detail = format_bytes(pages) + " on this machine";
  if (pages >= kGoodMemory) return {"memory", State::kOk, detail, ""};
  return {"memory", State::kWarning, detail, "few sandboxes will fit: each may use up to 1 GiB"};
}

// Free, or served by our own control.
Finding listen_address(const Config& config, const std::string& address) {
  std::string name = "address " + address;
  auto state = load_state(config.run_dir);
  if (state.ok() && is_running(state->process)) return {name, State::kOk, "served by Atoll", ""};
  auto endpoint = net::parse_endpoint(address, net::AnyPort::kYes);
  if (!endpoint.ok())
    return {name, State::kFailed, endpoint.error().message(), "correct server.listen in atoll.toml"};
  async::asio::io_context loop;
  auto listener = net::listen_tcp(loop.get_executor(), *endpoint);
  if (listener.ok()) return {name, State::kOk, "free", ""};
  return {name, State::kFailed, listener.error().message(),
          "stop the program that has it, or choose another with --listen"};
}

}  // namespace

std::vector<Finding> probe_machine(const Config& config) {
  std::vector<Finding> out{programs(),
                           system_user(config),
                           owned_directory("data directory", config.data_dir),
                           owned_directory("run directory", config.run_dir),
                           disk_space(config),
                           memory()};
  for (const std::string& address : config.listen) out.push_back(listen_address(config, address));
  return out;
}

namespace {

bool holds(const json::value& host, std::string_view list, std::string_view word) {
  const json::value* found = find_at(host, list);
  if (found == nullptr || !found->is_array()) return false;
  const json::array& items = found->as_array();
  return std::any_of(items.begin(), items.end(),
                     [&](const json::value& item) { return item.is_string() && item.as_string() == word; });
}

Finding tier_finding(const json::value& host, std::string_view tier, bool is_default) {
  std::string name = fmt::format("tier {}", tier);
  if (holds(host, "isolation", tier))
    return {name, State::kOk, is_default ? "usable, the default" : "usable", ""};
  if (holds(host, "beingTested", tier)) {
    return {name, State::kSkipped, is_default ? "being tested; the default" : "being tested",
            "run 'atoll doctor' again in a moment"};
  }
  const json::value* unusable = find_at(host, "unusable");
  std::string obstacle = unusable != nullptr ? text_at(*unusable, tier) : "";
  std::string detail = "not usable on this host" + (obstacle.empty() ? "" : ": " + printable(obstacle));
  if (is_default) return {name, State::kFailed, detail, "the failed checks above say why"};
  return {name, State::kWarning, detail,
          "sandboxes that ask for it get a stronger tier or are refused; docs/guides has the remedies"};
}

}  // namespace

std::vector<Finding> host_findings(const boost::json::value& host) {
  std::string first = text_at(host, "defaultInForce", "container");
  std::vector<Finding> out{tier_finding(host, first, true)};
  const json::value* unusable = find_at(host, "unusable");
  for (const char* tier : {"container", "gvisor", "microvm"}) {
    bool looked_for = unusable != nullptr && !text_at(*unusable, tier).empty();
    bool known = looked_for || holds(host, "isolation", tier) || holds(host, "beingTested", tier);
    if (tier != first && known) out.push_back(tier_finding(host, tier, false));
  }
  if (flag_at(host, "degraded")) {
    out.push_back({"default isolation", State::kWarning,
                   "auto, and gvisor is not usable: sandboxes for which nobody asks share this host's kernel",
                   "make gvisor usable, or set default_isolation in atoll.toml to what you want"});
  }
  const json::value* missing = find_at(host, "missingLayers");
  if (missing == nullptr || !missing->is_array()) return out;
  for (const json::value& layer : missing->as_array()) {
    if (!layer.is_string()) continue;
    bool gateway = layer.as_string() == "gateway";
    out.push_back({"layer of defence", State::kWarning, "missing: " + std::string(layer.as_string()),
                   gateway ? "addresses alone are judged; 'atoll up' without --no-gateway has it"
                           : "see SECURITY.md for what it gives"});
  }
  if (missing->as_array().empty()) out.push_back({"layers of defence", State::kOk, "all in force", ""});
  return out;
}

void merge_posture(std::vector<Finding>& findings, const boost::json::value& posture,
                   model::Tier default_tier) {
  const json::value* list = find_at(posture, "features");
  if (list == nullptr || !list->is_array()) return;
  for (const json::value& item : list->as_array()) {
    std::string name = text_at(item, "name");
    std::span<const model::FeatureInfo> table = model::features();
    auto row = std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.name == name; });
    if (row == table.end()) continue;
    bool present = flag_at(item, "present");
    auto own = std::find_if(findings.begin(), findings.end(),
                            [&](const Finding& each) { return each.name == name; });
    // Which programs count is what the runner was told.
    bool is_program = row->feature == model::Feature::kRunsc || row->feature == model::Feature::kQemu;
    if (own != findings.end() && is_program && present) {
      *own = feature_finding(*row, 0, default_tier);
    } else if (own != findings.end() && own->state == State::kSkipped) {
      std::uint8_t error = present ? 0 : model::kNotTried;
      Finding told = feature_finding(*row, error, default_tier);
      if (!present) told.detail = fmt::format("{}: {}", row->title, printable(text_at(item, "error")));
      *own = std::move(told);
    } else if (own != findings.end() && own->state == State::kOk && !present) {
      bool fatal = (row->needed & model::tiers_of(default_tier)) != 0;
      *own = {name, fatal ? State::kFailed : State::kWarning,
              fmt::format("{}: the runner did not find it when it started: {}", row->title,
                          printable(text_at(item, "error"))),
              "it works now: restart the runner"};
    }
  }
}

}  // namespace atl::cli
