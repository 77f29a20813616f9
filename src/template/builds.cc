// SPDX-License-Identifier: Apache-2.0
#include "template/builds.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/bytes.h"
#include "base/log.h"
#include "base/random.h"
#include "template/jail.h"

namespace atl::templates {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kWorkPrefix = ".build-";
constexpr std::string_view kNewPrefix = ".new-";

Error failed(std::string_view doing, const std::string& path) {
  Error error = Error::from_errno(errno, fmt::format("{} {}", doing, path));
  if (error.sys_errno() != ENOSPC) return error;
  return std::move(error).with_code(Code::kNoSpace).with_hint("free space on the disk of the data directory");
}

// Held while work folders are made, renamed or swept, so that no sweep meets a folder between its creation
// and its lock.
Result<sys::Fd> lock_all(const std::string& folder) {
  std::string path = folder + "/.lock";
  sys::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd || ::flock(fd.get(), LOCK_EX) != 0) return failed("lock", path);
  return fd;
}

// Takes the lock of a work folder; an empty descriptor when a living build holds it.
Result<sys::Fd> lock_folder(const std::string& path) {
  sys::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failed("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return sys::Fd();
  return fd;
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    log::warn("cannot remove an unfinished template build", {{"path", path}, {"error", error.message()}});
}

void sweep(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& item : fs::directory_iterator(folder, error)) {
    std::string name = item.path().filename();
    if (!name.starts_with(kWorkPrefix) && !name.starts_with(kNewPrefix)) continue;
    Result<sys::Fd> lock = lock_folder(item.path());
    if (lock.ok() && *lock) remove_tree(item.path());
  }
}

Result<void> sync_path(const std::string& path) {
  sys::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return failed("sync", path);
  return success();
}

Result<void> write_synced(const std::string& path, const std::string& text) {
  sys::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0) {
    return failed("write", path);
  }
  return success();
}

Result<void> move_into_place(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename", from + " to " + to);
  return success();
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failed("create folder", path);
  return success();
}

}  // namespace

Result<SealedImage> seal_image(const std::string& path) {
  sys::Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failed("open", path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return failed("look at", path);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_size == 0) {
    return make_error(Code::kCorrupt, "{} is not a plain file", path);
  }
  if (::fchown(fd.get(), 0, 0) != 0 || ::fchmod(fd.get(), 0644) != 0 || ::fsync(fd.get()) != 0)
    return failed("seal", path);
  auto size = static_cast<std::size_t>(status.st_size);
  void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (bytes == MAP_FAILED) return failed("map", path);
  SealedImage sealed{hex_encode(sha256({static_cast<const char*>(bytes), size})), size};
  ::munmap(bytes, size);
  return sealed;
}

Workspace::~Workspace() {
  if (lock_) remove_tree(path_);
}

Result<Builds> Builds::open(const std::string& data_dir) {
  TRY_VOID(make_folder(data_dir));
  std::string folder = fs::absolute(data_dir).lexically_normal() / "templates";
  TRY_VOID(make_folder(folder));
  TRY(sys::Fd all, lock_all(folder));
  sweep(folder);
  return Builds(folder);
}

Result<Workspace> Builds::start() const {
  std::string build = random_uuid();
  std::string path = fmt::format("{}/{}{}", folder_, kWorkPrefix, build);
  TRY(sys::Fd all, lock_all(folder_));
  if (::mkdir(path.c_str(), 0700) != 0) return failed("create folder", path);
  TRY(sys::Fd lock, lock_folder(path));
  if (!lock) return make_error(Code::kInternal, "the new folder {} is already locked", path);
  Workspace work(build, path, std::move(lock));
  for (const std::string& inner : {path + "/tree", path + "/source"}) {
    if (::mkdir(inner.c_str(), 0755) != 0 || ::chown(inner.c_str(), kJailUidBase, kJailUidBase) != 0) {
      return failed("create folder", inner);
    }
  }
  if (::chown(path.c_str(), kJailUidBase, kJailUidBase) != 0) return failed("change the owner of", path);
  return work;
}

Result<Manifest> Builds::publish(Workspace& work, Manifest manifest) const {
  manifest.build = work.build();
  TRY(SealedImage sealed, seal_image(work.path() + "/root.erofs"));
  manifest.sha256 = sealed.sha256;
  manifest.size_bytes = sealed.size_bytes;
  std::string fresh = fmt::format("{}/{}{}", folder_, kNewPrefix, work.build());
  TRY(sys::Fd all, lock_all(folder_));
  TRY_VOID(make_folder(fresh));
  TRY_VOID(move_into_place(work.path() + "/root.erofs", fresh + "/root.erofs"));
  TRY_VOID(write_synced(fresh + "/manifest.json", format_manifest(manifest)));
  TRY_VOID(sync_path(fresh));
  TRY_VOID(move_into_place(fresh, folder_ + "/" + work.build()));
  TRY_VOID(sync_path(folder_));
  return manifest;
}

std::vector<Manifest> Builds::list() const {
  std::vector<Manifest> found;
  std::error_code error;
  for (const fs::directory_entry& item : fs::directory_iterator(folder_, error)) {
    if (!valid_build_id(item.path().filename().string())) continue;
    std::ifstream file(item.path() / "manifest.json", std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    Result<Manifest> manifest = parse_manifest(text);
    bool whole = manifest.ok() && manifest->build == item.path().filename() &&
                 fs::file_size(item.path() / "root.erofs", error) == manifest->size_bytes;
    if (whole) found.push_back(std::move(*manifest));
  }
  std::sort(found.begin(), found.end(),
            [](const Manifest& a, const Manifest& b) { return a.created > b.created; });
  return found;
}

Result<void> Builds::remove(const std::string& build) const {
  std::string path = folder_ + "/" + build;
  if (!valid_build_id(build) || !fs::exists(path))
    return make_error(Code::kNotFound, "no template build '{}'", build);
  TRY(sys::Fd all, lock_all(folder_));
  // Renamed first: a reader sees the build whole or not at all, and a crash half-way leaves something to
  // sweep.
  std::string doomed = fmt::format("{}/{}{}", folder_, kNewPrefix, build);
  TRY_VOID(move_into_place(path, doomed));
  remove_tree(doomed);
  return sync_path(folder_);
}

}  // namespace atl::templates
