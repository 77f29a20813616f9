// SPDX-License-Identifier: Apache-2.0
#include "sys/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "sys/files.h"

namespace atl::sys {
namespace {

// The distribution's headers are older than the kernels Atoll runs on; layout and values as in Linux 6.12.
struct RulesetAttr {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};
constexpr std::uint64_t kScopeAbstractUnixSocket = 1 << 0;
constexpr std::uint64_t kScopeSignal = 1 << 1;
constexpr std::uint64_t kTruncate = 1 << 14;  // ABI 3

constexpr std::uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kFileOnly =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr std::uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr std::uint64_t kDevices = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;

// KERNEL: older ABIs refuse a longer struct only when the extra bytes are not zero
// (landlock_create_ruleset(2)).
Result<Fd> create_ruleset(const RulesetAttr& attr) {
  long fd = ::syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
  if (fd < 0) return Error::from_errno(errno, "make a Landlock ruleset");
  return Fd(static_cast<int>(fd));
}

Result<void> allow(int ruleset, const std::string& path, std::uint64_t access) {
  TRY(Fd fd, open_file(path, O_PATH));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Error::from_errno(errno, fmt::format("stat {}", path));
  landlock_path_beneath_attr rule{};
  rule.allowed_access = S_ISDIR(info.st_mode) ? access : access & kFileOnly;
  rule.parent_fd = fd.get();
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return Error::from_errno(errno, fmt::format("allow {} by Landlock", path));
  }
  return success();
}

}  // namespace

int landlock_abi() {
  long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

Result<Fd> landlock_sandbox_ruleset() {
  int abi = landlock_abi();
  // ABI 1 cannot grant moving files between directories, which every program needs.
  if (abi < 2) return make_error(Code::kUnsupported, "Landlock ABI {} is too old", abi);
  RulesetAttr attr{};
  attr.handled_access_fs = kDevices;
  if (abi >= 6) attr.scoped = kScopeAbstractUnixSocket | kScopeSignal;
  attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
  return create_ruleset(attr);
}

Result<void> landlock_restrict_files(const std::vector<LandlockPath>& paths) {
  int abi = landlock_abi();
  if (abi == 0) return make_error(Code::kUnsupported, "this kernel has no Landlock");
  std::uint64_t write = kWrite | (abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) | (abi >= 3 ? kTruncate : 0);
  RulesetAttr attr{};
  attr.handled_access_fs = kRead | write | kDevices;
  TRY(Fd ruleset, create_ruleset(attr));
  for (const LandlockPath& item : paths) {
    TRY_VOID(allow(ruleset.get(), item.path, item.writable ? kRead | write : kRead));
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    return Error::from_errno(errno, "restrict this process by Landlock");
  }
  return success();
}

}  // namespace atl::sys
