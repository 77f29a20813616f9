// SPDX-License-Identifier: Apache-2.0
#include "template/root_finish.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/text.h"
#include "sys/fd.h"
#include "sys/files.h"

namespace atl::templates {
namespace {

constexpr std::uint32_t kFirstUid = 1000;
constexpr std::size_t kMaxAccountFileBytes = 1 << 20;

struct Folder {
  const char* path;
  mode_t mode;
};
constexpr Folder kFolders[] = {{"dev", 0755},  {"proc", 0555},    {"sys", 0555},  {"run", 0755},
                               {"tmp", 01777}, {"etc", 0755},     {"home", 0755}, {"root", 0700},
                               {"var", 0755},  {"var/tmp", 01777}};

Error failed(std::string_view doing, std::string_view path) {
  return Error::from_errno(errno, fmt::format("{} /{} of the template", doing, path));
}

Result<sys::Fd> open_in(int root, const char* path, int flags) {
  Result<sys::Fd> fd = sys::open_beneath(root, path, flags, 0600);
  if (!fd.ok()) return std::move(fd).error().context("the template's root");
  return fd;
}

Result<void> ensure_folder(int root, const Folder& folder) {
  if (::mkdirat(root, folder.path, folder.mode) != 0) {
    if (errno != EEXIST) return failed("create folder", folder.path);
    TRY_VOID(open_in(root, folder.path, O_RDONLY | O_DIRECTORY));
    return success();
  }
  TRY(sys::Fd fd, open_in(root, folder.path, O_RDONLY | O_DIRECTORY));
  if (::fchmod(fd.get(), folder.mode) != 0) return failed("create folder", folder.path);
  return success();
}

// Empty when there is no such file.
Result<std::string> read_text(int root, const char* path) {
  Result<sys::Fd> fd = open_in(root, path, O_RDONLY | O_NONBLOCK);
  if (!fd.ok())
    return fd.error().sys_errno() == ENOENT ? Result<std::string>(std::string()) : std::move(fd).error();
  Result<std::string> text = sys::read_all(fd->get(), kMaxAccountFileBytes);
  if (!text.ok()) return std::move(text).error().context(fmt::format("/{} of the template", path));
  return text;
}

Result<void> write_text(int root, const char* path, std::string_view text, mode_t mode) {
  TRY(sys::Fd fd, open_in(root, path, O_WRONLY | O_CREAT | O_TRUNC));
  TRY_VOID(sys::write_all(fd.get(), text));
  if (::fchmod(fd.get(), mode) != 0) return failed("change the mode of", path);
  return success();
}

// True when the sandbox will find the program; links are followed as the sandbox would, within the tree.
bool has_program(int root, const char* path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  sys::Fd fd(static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof how)));
  return static_cast<bool>(fd);
}

std::string_view field(std::string_view line, std::size_t index) {
  std::vector<std::string_view> parts = split(line, ':');
  return index < parts.size() ? parts[index] : std::string_view();
}

std::set<std::uint32_t> used_ids(std::string_view text) {
  std::set<std::uint32_t> ids;
  for (std::string_view line : split(text, '\n')) {
    if (auto id = parse_number<std::uint32_t>(field(line, 2))) ids.insert(*id);
  }
  return ids;
}

void append_line(std::string& text, std::string_view line) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += line;
  text += '\n';
}

std::optional<std::uint32_t> id_of(std::string_view text, std::string_view name) {
  for (std::string_view line : split(text, '\n')) {
    std::optional<std::uint32_t> id = parse_number<std::uint32_t>(field(line, 2));
    if (field(line, 0) == name && id)
      return id;  // as the C library does, which passes over lines it cannot read
  }
  return std::nullopt;
}

Result<void> add_home(int root, std::uint32_t uid) {
  if (::mkdirat(root, "home/user", 0755) != 0)
    return errno == EEXIST ? success() : failed("create folder", "home/user");
  TRY(sys::Fd home, open_in(root, "home/user", O_RDONLY | O_DIRECTORY));
  if (::fchown(home.get(), uid, uid) != 0) return failed("change the owner of", "home/user");
  return success();
}

}  // namespace

std::uint32_t ensure_account(std::string& passwd, std::string& group, std::string_view shell) {
  if (id_of(passwd, "root") == std::nullopt)
    append_line(passwd, fmt::format("root:*:0:0:root:/root:{}", shell));
  if (id_of(group, "root") == std::nullopt) append_line(group, "root:x:0:");
  if (auto uid = id_of(passwd, kDefaultUser)) return *uid;
  std::set<std::uint32_t> used = used_ids(passwd);
  used.merge(used_ids(group));
  std::uint32_t uid = kFirstUid;
  while (used.contains(uid)) ++uid;
  // "*" and not "x": an account that points to a missing line of /etc/shadow is refused by sudo.
  append_line(passwd, fmt::format("{}:*:{}:{}::{}:{}", kDefaultUser, uid, uid, kDefaultWorkdir, shell));
  if (id_of(group, kDefaultUser) == std::nullopt)
    append_line(group, fmt::format("{}:x:{}:", kDefaultUser, uid));
  return uid;
}

Result<void> finish_root(int root) {
  for (const Folder& folder : kFolders) TRY_VOID(ensure_folder(root, folder));
  TRY(std::string passwd, read_text(root, "etc/passwd"));
  TRY(std::string group, read_text(root, "etc/group"));
  std::string_view shell = has_program(root, "bin/bash") ? "/bin/bash" : "/bin/sh";
  if (!has_program(root, "bin/sh")) {
    return make_error(Code::kInvalid, "the template has no /bin/sh, so no command could run in it")
        .with_hint("give the root folder of a whole Linux system, for example the output of 'docker export'");
  }
  std::uint32_t uid = ensure_account(passwd, group, shell);
  TRY_VOID(write_text(root, "etc/passwd", passwd, 0644));
  TRY_VOID(write_text(root, "etc/group", group, 0644));
  TRY_VOID(add_home(root, uid));
  if (has_program(root, "etc/sudoers.d")) {
    TRY_VOID(write_text(root, "etc/sudoers.d/90-atoll-user", "user ALL=(ALL:ALL) NOPASSWD:ALL\n", 0440));
  }
  // Empty, not missing: each sandbox is its own machine, machine-id(5).
  return write_text(root, "etc/machine-id", "", 0444);
}

}  // namespace atl::templates
