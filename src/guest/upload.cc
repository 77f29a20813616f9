// SPDX-License-Identifier: Apache-2.0
#include "guest/upload.h"

#include <linux/fs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>

#include "base/random.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::string_view kStagePrefix = ".atoll-upload-";
constexpr std::size_t kStageRandom = 16;

Error no_space_words(Error error) {
  if (error.code() == Code::kNoSpace) return Error(Code::kNoSpace, "not enough disk space available");
  return error;
}

Error on_target(Error error, const std::string& path) {
  if (error.code() == Code::kNoSpace) return no_space_words(std::move(error));
  if (error.sys_errno() == 0) return error;
  if (error.sys_errno() == EROFS)
    return make_error(Code::kDenied, "path '{}' is on a read-only file system", path);
  if (error.sys_errno() == ETXTBSY)
    return make_error(Code::kConflict, "path '{}' is a program that is running", path);
  if (error.sys_errno() == ENOTDIR)
    return make_error(Code::kInvalid, "path '{}': a part of it is not a directory", path);
  return std::move(error).context(fmt::format("path '{}'", path));
}

Error not_regular(const std::string& path) {
  return make_error(Code::kInvalid, "path is not a regular file: {}", path);
}

// Only plain files on real file systems are written: a file of /proc is an interface of the kernel, and a
// FIFO or a device would hand the bytes to whoever planted it.
Result<void> check_regular(const Fd& fd, const std::string& path) {
  TRY(struct stat st, stat_at(fd.get(), ""));
  if (S_ISDIR(st.st_mode)) return make_error(Code::kInvalid, "path is a directory: {}", path);
  if (!S_ISREG(st.st_mode) || on_kernel_file_system(fd.get())) return not_regular(path);
  return success();
}

// Copies everything of `from` to the current position of `to`, inside the kernel where it can.
Result<void> copy_all(int from, int to) {
  off_t position = 0;
  for (;;) {
    ssize_t moved = ::copy_file_range(from, &position, to, nullptr, 64 * kMiB, 0);
    if (moved == 0 && position > 0) return success();
    if (moved > 0) continue;
    // KERNEL: EXDEV, EINVAL, EOPNOTSUPP between file systems that cannot; 0 at once for files without a size
    // (/proc).
    if (moved < 0 && errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
      return Error::from_errno(errno, "copy");
    break;
  }
  std::string buffer(kFileBuffer, '\0');
  for (;;) {
    TRY(std::size_t got, read_full(from, buffer, position));
    TRY_VOID(write_full(to, std::string_view(buffer).substr(0, got)));
    position += static_cast<off_t>(got);
    if (got < buffer.size()) return success();
  }
}

// Two uploads that replace the same file take turns, so that the result is one of them and not a mixture.
std::mutex& turn_for(const struct stat& st) {
  static std::array<std::mutex, 16> turns;
  return turns[st.st_ino % turns.size()];
}

// Claims the blocks beyond the present end, so that a full disk shows before the old content is touched.
Result<void> reserve(int fd, std::uint64_t size) {
  TRY(struct stat st, stat_at(fd, ""));
  if (size <= static_cast<std::uint64_t>(st.st_size)) return success();
  off_t missing = static_cast<off_t>(size) - st.st_size;
  if (::fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, missing) == 0) return success();
  if (errno == ENOSPC || errno == EDQUOT) return Error::from_errno(errno, "reserve space");
  return success();  // this file system cannot reserve; the write will tell
}

}  // namespace

bool is_staging_name(std::string_view name) {
  return name.starts_with(kStagePrefix) && name.size() == kStagePrefix.size() + 2 * kStageRandom;
}

Upload::~Upload() {
  if (stage_name_.empty() || !parent_) return;
  with_same_rights([&] { return ::unlinkat(parent_.get(), stage_name_.c_str(), 0); });
}

Result<Upload> Upload::begin(const User& user, std::string path, Metadata metadata) {
  if (path == "/") return make_error(Code::kInvalid, "path is a directory: {}", path);
  Upload upload(user, std::move(path), std::move(metadata));
  auto opened = with_rights(user, [&](Rights rights) { return upload.open_target(rights); });
  if (!opened.ok()) return on_target(std::move(opened).error(), upload.path_);
  return upload;
}

Result<void> Upload::open_target(Rights rights) {
  rights_ = rights;
  name_ = std::string(base_name(path_));
  target_.reset();
  TRY(parent_, ensure_directories(std::string(parent_path(path_)), user_, rights));
  auto looked = open_path(path_, O_PATH, rights);
  if (!looked.ok()) {
    if (looked.error().sys_errno() != ENOENT) return std::move(looked).error();
    auto link = stat_at(parent_.get(), name_);
    if (link.ok()) return make_error(Code::kInvalid, "path '{}' is a link to nowhere", path_);
    // Whether a file can be made here is found out now and not after the body: access(2) for the thread's
    // identity.
    if (::faccessat(parent_.get(), ".", W_OK, AT_EACCESS) != 0)
      return Error::from_errno(errno, "write to the directory");
    return success();
  }
  TRY_VOID(check_regular(*looked, path_));
  TRY(target_, open_path(path_, O_WRONLY, rights));
  TRY_VOID(check_regular(target_, path_));
  TRY(struct stat st, stat_at(target_.get(), ""));
  // As root, a second name could belong to a file that the user could not reach by its first.
  if (rights == Rights::kTrusted && st.st_nlink > 1)
    return Error::from_errno(EACCES, "write to a file with several names");
  return success();
}

Result<Fd> Upload::create_target() {
  return with_same_rights([&]() -> Result<Fd> {
    TRY(Fd made, open_at(parent_.get(), name_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
    if (rights_ == Rights::kTrusted && ::fchown(made.get(), user_.identity.uid, user_.identity.gid) != 0)
      return Error::from_errno(errno, "chown");
    return made;
  });
}

Result<void> Upload::write_whole(std::string_view body) {
  if (!target_) {
    auto made = create_target();
    if (made.ok()) {
      auto written = write_full(made->get(), body);
      if (written.ok()) written = finish(made->get());
      if (written.ok()) return written;
      with_same_rights([&] { return ::unlinkat(parent_.get(), name_.c_str(), 0); });
      return on_target(std::move(written).error(), path_);
    }
    if (made.error().sys_errno() != EEXIST) return on_target(std::move(made).error(), path_);
    auto opened = with_rights(user_, [&](Rights rights) { return open_target(rights); });
    if (!opened.ok()) return on_target(std::move(opened).error(), path_);
    if (!target_) return make_error(Code::kConflict, "path '{}' changes while it is written", path_);
  }
  auto written = replace_content(body.size(), [&] { return write_full(target_.get(), body); });
  if (!written.ok()) return on_target(std::move(written).error(), path_);
  return written;
}

Result<void> Upload::append(std::string_view part) {
  TRY(int fd, staging());
  auto written = write_full(fd, part);
  if (!written.ok()) return on_target(std::move(written).error(), path_);
  return written;
}

Result<int> Upload::staging() {
  if (!stage_) {
    auto opened = open_stage();
    if (!opened.ok()) return on_target(std::move(opened).error(), path_);
  }
  return stage_.get();
}

Result<void> Upload::open_stage() {
  auto nameless = with_same_rights([&] { return open_at(parent_.get(), ".", O_RDWR | O_TMPFILE, 0644); });
  // The target may be writable where its directory is not. Nothing in the directory changes, so root may do
  // it.
  if (!nameless.ok() && target_ && nameless.error().sys_errno() == EACCES) {
    ActAs root{Identity{}};
    nameless = open_at(parent_.get(), ".", O_RDWR | O_TMPFILE, 0600);
  }
  if (nameless.ok()) {
    stage_ = std::move(*nameless);
  } else {
    // KERNEL: EOPNOTSUPP, or EISDIR and ENOENT from file systems that do not know the flag (open(2)).
    int number = nameless.error().sys_errno();
    if (number != EOPNOTSUPP && number != EISDIR && number != ENOENT) return std::move(nameless).error();
    TRY_VOID(open_named_stage());
  }
  if (rights_ == Rights::kTrusted && !target_ &&
      ::fchown(stage_.get(), user_.identity.uid, user_.identity.gid) != 0)
    return Error::from_errno(errno, "chown");
  return success();
}

Result<void> Upload::open_named_stage() {
  std::string name = std::string(kStagePrefix) + random_hex(kStageRandom);
  TRY(stage_, with_same_rights([&] {
        return open_at(parent_.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
      }));
  stage_name_ = std::move(name);
  return success();
}

Result<void> Upload::commit() {
  auto done = target_ ? replace_with_stage() : link_stage();
  if (!done.ok()) return on_target(std::move(done).error(), path_);
  return done;
}

// Gives the stage its name. Somebody may have made the target meanwhile; then its content is replaced.
Result<void> Upload::link_stage() {
  TRY_VOID(finish(stage_.get()));
  auto named = with_same_rights([&] { return name_stage(); });
  if (named.ok()) return touch_last_byte();
  if (named.error().sys_errno() != EEXIST) return named;
  TRY_VOID(with_rights(user_, [&](Rights rights) { return open_target(rights); }));
  if (!target_) return make_error(Code::kConflict, "path '{}' changes while it is written", path_);
  return replace_with_stage();
}

Result<void> Upload::name_stage() {
  if (stage_name_.empty()) {
    if (::linkat(AT_FDCWD, descriptor_path(stage_.get()).c_str(), parent_.get(), name_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0)
      return Error::from_errno(errno, "name the file");
    return success();
  }
  if (::renameat2(parent_.get(), stage_name_.c_str(), parent_.get(), name_.c_str(), RENAME_NOREPLACE) == 0) {
    stage_name_.clear();
    return success();
  }
  if (errno != EINVAL) return Error::from_errno(errno, "name the file");
  // This file system cannot rename without replacing; the destructor removes the first name.
  if (::linkat(parent_.get(), stage_name_.c_str(), parent_.get(), name_.c_str(), 0) != 0)
    return Error::from_errno(errno, "name the file");
  return success();
}

// Watchers expect a write after the creation, as a plain writer would cause it. Writing the last byte once
// more under its name makes the kernel tell them; content and size stay.
Result<void> Upload::touch_last_byte() {
  struct stat staged = {};
  char last = 0;
  if (::fstat(stage_.get(), &staged) != 0 || staged.st_size == 0) return success();
  if (::pread(stage_.get(), &last, 1, staged.st_size - 1) != 1) return success();
  auto named = with_same_rights([&] { return open_at(parent_.get(), name_, O_WRONLY | O_NOFOLLOW); });
  if (!named.ok()) return success();
  auto st = stat_at(named->get(), "");
  bool same = st.ok() && st->st_ino == staged.st_ino && st->st_dev == staged.st_dev;
  if (same && ::pwrite(named->get(), &last, 1, staged.st_size - 1) != 1) return success();
  return success();
}

Result<void> Upload::replace_with_stage() {
  TRY(struct stat staged, stat_at(stage_.get(), ""));
  return replace_content(static_cast<std::uint64_t>(staged.st_size),
                         [&] { return copy_all(stage_.get(), target_.get()); });
}

Result<void> Upload::replace_content(std::uint64_t size, const std::function<Result<void>()>& write) {
  TRY(struct stat st, stat_at(target_.get(), ""));
  std::lock_guard turn(turn_for(st));
  TRY_VOID(reserve(target_.get(), size));
  TRY_VOID(write());
  if (::ftruncate(target_.get(), static_cast<off_t>(size)) != 0) return Error::from_errno(errno, "truncate");
  return finish(target_.get());
}

// Attributes of the finished file: the metadata that was sent, and no set-user-id bit that a former file had.
Result<void> Upload::finish(int fd) {
  return with_same_rights([&]() -> Result<void> {
    TRY(struct stat st, stat_at(fd, ""));
    if ((st.st_mode & (S_ISUID | S_ISGID)) != 0 && ::fchmod(fd, st.st_mode & 01777) != 0)
      return Error::from_errno(errno, "clear set-user-id");
    return write_metadata(fd, metadata_);
  });
}

Result<void> compose_files(const User& user, const std::vector<std::string>& sources,
                           const std::string& destination) {
  std::vector<Fd> files;
  for (const std::string& source : sources) {
    if (source == destination)
      return make_error(Code::kInvalid, "source path '{}' cannot be the same as destination", source);
    auto file = with_rights(user, [&](Rights rights) { return open_path(source, O_RDONLY, rights); });
    if (!file.ok() && file.error().sys_errno() == ENOENT)
      return make_error(Code::kNotFound, "source file not found: {}", source);
    if (!file.ok()) return on_target(std::move(file).error(), source);
    TRY(struct stat st, stat_at(file->get(), ""));
    if (!S_ISREG(st.st_mode))
      return make_error(Code::kInvalid, "source path is not a regular file: {}", source);
    files.push_back(std::move(*file));
  }
  TRY(Upload upload, Upload::begin(user, destination, {}));
  TRY(int stage, upload.staging());
  for (const Fd& file : files) {
    auto copied = copy_all(file.get(), stage);
    if (!copied.ok()) return on_target(std::move(copied).error(), destination);
  }
  TRY_VOID(upload.commit());
  for (const std::string& source : sources) {
    // As E2B: the parts are gone afterwards; one that cannot be removed does not spoil the result.
    auto removed = with_rights(user, [&](Rights rights) -> Result<void> {
      TRY(Fd parent, open_path(std::string(parent_path(source)), O_PATH | O_DIRECTORY, rights));
      if (::unlinkat(parent.get(), std::string(base_name(source)).c_str(), 0) != 0)
        return Error::from_errno(errno, "remove");
      return success();
    });
    (void)removed;
  }
  return success();
}

}  // namespace atl::guest
