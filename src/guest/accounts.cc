// SPDX-License-Identifier: Apache-2.0
#include "guest/accounts.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/text.h"
#include "guest/limits.h"
#include "guest/posix.h"

namespace atl::guest {
namespace {

// Home directories and shells must be clean absolute paths, since they become cwd and HOME.
bool sane_path(std::string_view path) {
  return !path.empty() && path.front() == '/' && path.size() < kMaxPath;
}

template <class Take>
void for_each_line(std::string_view text, Take take) {
  for (std::string_view line : split(text, '\n')) {
    if (line.empty() || line.front() == '#' || line.find('\0') != std::string_view::npos) continue;
    take(split(line, ':'));
  }
}

}  // namespace

std::vector<Account> parse_passwd(std::string_view text) {
  std::vector<Account> out;
  for_each_line(text, [&](const std::vector<std::string_view>& field) {
    if (field.size() != 7 || field[0].empty()) return;
    auto uid = parse_number<uid_t>(field[2]);
    auto gid = parse_number<gid_t>(field[3]);
    // (uid_t)-1 means "leave it" to the kernel's set*id calls, never a user.
    if (!uid || !gid || *uid == static_cast<uid_t>(-1) || *gid == static_cast<gid_t>(-1)) return;
    Account account{std::string(field[0]), *uid, *gid, std::string(field[5]), std::string(field[6])};
    if (!sane_path(account.home)) account.home = "/";
    if (!sane_path(account.shell)) account.shell = "/bin/sh";
    out.push_back(std::move(account));
  });
  return out;
}

std::vector<Group> parse_group(std::string_view text) {
  std::vector<Group> out;
  for_each_line(text, [&](const std::vector<std::string_view>& field) {
    if (field.size() != 4 || field[0].empty()) return;
    auto gid = parse_number<gid_t>(field[2]);
    if (!gid || *gid == static_cast<gid_t>(-1)) return;
    Group group{std::string(field[0]), *gid, {}};
    for (std::string_view member : split(field[3], ',')) {
      if (!member.empty()) group.members.emplace_back(member);
    }
    out.push_back(std::move(group));
  });
  return out;
}

Accounts Accounts::load(const std::string& passwd, const std::string& group) {
  auto users = read_small_file(passwd, kMaxAccountFile);
  auto groups = read_small_file(group, kMaxAccountFile);
  return Accounts(parse_passwd(std::move(users).value_or("")), parse_group(std::move(groups).value_or("")));
}

Accounts::Accounts(std::vector<Account> accounts, std::vector<Group> groups)
    : accounts_(std::move(accounts)), groups_(std::move(groups)) {
  bool has_root =
      std::any_of(accounts_.begin(), accounts_.end(), [](const Account& a) { return a.name == "root"; });
  if (!has_root) accounts_.push_back({"root", 0, 0, "/root", "/bin/sh"});
  for (const Account& account : accounts_) user_names_.emplace(account.uid, account.name);
  for (const Group& group : groups_) group_names_.emplace(group.gid, group.name);
}

std::optional<User> Accounts::find(std::string_view name) const {
  for (const Account& account : accounts_) {
    if (account.name != name) continue;
    User user{account, {account.uid, account.gid, {account.gid}}};
    auto& groups = user.identity.groups;
    for (const Group& group : groups_) {
      bool member = std::find(group.members.begin(), group.members.end(), name) != group.members.end();
      if (member && group.gid != account.gid && groups.size() < kMaxGroups) groups.push_back(group.gid);
    }
    return user;
  }
  return std::nullopt;
}

std::string Accounts::user_name(uid_t uid) const {
  auto found = user_names_.find(uid);
  return found == user_names_.end() ? std::to_string(uid) : found->second;
}

std::string Accounts::group_name(gid_t gid) const {
  auto found = group_names_.find(gid);
  return found == group_names_.end() ? std::to_string(gid) : found->second;
}

namespace {
constexpr std::array<const char*, 2> kAccountFiles = {"/etc/passwd", "/etc/group"};
}

AccountCache::Stamp AccountCache::stamp() {
  Stamp out{};
  std::size_t at = 0;
  for (const char* path : kAccountFiles) {
    struct stat st = {};
    if (::stat(path, &st) != 0) st = {};
    for (std::int64_t part :
         {static_cast<std::int64_t>(st.st_ino), static_cast<std::int64_t>(st.st_size),
          static_cast<std::int64_t>(st.st_ctim.tv_sec), static_cast<std::int64_t>(st.st_ctim.tv_nsec)})
      out[at++] = part;
  }
  return out;
}

std::shared_ptr<const Accounts> AccountCache::get() {
  std::lock_guard lock(mutex_);
  Stamp now = stamp();
  if (!accounts_ || now != seen_) {
    accounts_ = std::make_shared<const Accounts>(Accounts::load(kAccountFiles[0], kAccountFiles[1]));
    seen_ = now;
  }
  return accounts_;
}

}  // namespace atl::guest
