// SPDX-License-Identifier: Apache-2.0
//
// Writing what comes out of a sandbox to the local disk. Names are hostile: nothing is ever made outside the
// chosen directory, no symbolic link below it is followed, and a file appears whole or not at all.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::cli {

// A file that is being written under a temporary name. Destroyed without commit(), it leaves nothing.
class LocalFile {
 public:
  LocalFile(LocalFile&&) noexcept = default;
  LocalFile& operator=(LocalFile&&) = delete;
  ~LocalFile();
  Result<void> write(std::string_view data);
  // Gives the file its mode (0777 at most, less the umask) and its name.
  Result<void> commit(mode_t mode);

 private:
  friend class LocalTree;
  LocalFile(sys::Fd directory, sys::Fd file, std::string temporary, std::string name)
      : directory_(std::move(directory)),
        file_(std::move(file)),
        temporary_(std::move(temporary)),
        name_(std::move(name)) {}
  sys::Fd directory_;
  sys::Fd file_;
  std::string temporary_;
  std::string name_;
};

class LocalTree {
 public:
  // Opens `path`, and makes it first when it does not exist.
  static Result<LocalTree> open(const std::string& path);
  // `relative` must pass safe_relative_path(); parents are made.
  Result<void> make_directory(std::string_view relative, mode_t mode);
  Result<LocalFile> create(std::string_view relative);

 private:
  LocalTree(sys::Fd root, std::string path) : root_(std::move(root)), path_(std::move(path)) {}
  Result<sys::Fd> directory(std::string_view relative);
  sys::Fd root_;
  std::string path_;  // for messages
};

}  // namespace atl::cli
