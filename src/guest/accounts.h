// SPDX-License-Identifier: Apache-2.0
//
// Users and groups of the sandbox, from /etc/passwd and /etc/group. The workload may write both files, so
// they are parsed here, strictly and within bounds, and no name service of the C library takes part.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::guest {

// One line of /etc/passwd.
struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
  std::string shell;
};

// One line of /etc/group.
struct Group {
  std::string name;
  gid_t gid = 0;
  std::vector<std::string> members;
};

// Bad lines are left out: one broken line must not lock everybody out.
std::vector<Account> parse_passwd(std::string_view text);
std::vector<Group> parse_group(std::string_view text);

// Whose rights an operation has.
struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  bool root() const { return uid == 0; }
  bool operator==(const Identity&) const = default;
};

// A user as the API means it.
struct User {
  Account account;
  Identity identity;
};

// One reading of both files. Blocks on the disk.
class Accounts {
 public:
  static Accounts load(const std::string& passwd = "/etc/passwd", const std::string& group = "/etc/group");
  Accounts(std::vector<Account> accounts, std::vector<Group> groups);

  std::optional<User> find(std::string_view name) const;
  // The number as text when the user has no name.
  std::string user_name(uid_t uid) const;
  std::string group_name(gid_t gid) const;

 private:
  std::vector<Account> accounts_;
  std::vector<Group> groups_;
  std::map<uid_t, std::string> user_names_;
  std::map<gid_t, std::string> group_names_;
};

// The accounts of the sandbox, read again when the files have changed. Thread safe; blocks on the disk.
class AccountCache {
 public:
  std::shared_ptr<const Accounts> get();

 private:
  using Stamp = std::array<std::int64_t, 8>;
  static Stamp stamp();
  std::mutex mutex_;  // guards what follows
  Stamp seen_{};
  std::shared_ptr<const Accounts> accounts_;
};

}  // namespace atl::guest
