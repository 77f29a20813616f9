// SPDX-License-Identifier: Apache-2.0
//
// Upload: writes one file so that a transfer that breaks never harms what was there. Everything here blocks
// on the disk: use from a worker, one call at a time.
//
// A body of at most one buffer is written at once. A longer one is first collected in a file without a name
// (O_TMPFILE), which the kernel removes by itself whatever happens. At the end it gets its name, or, when the
// target exists, its bytes are copied into the target: inode, owner, mode, links and open readers of the
// target stay.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "guest/accounts.h"
#include "guest/entry.h"
#include "guest/paths.h"

namespace atl::guest {

class Upload {
 public:
  // Checks the target and makes its parents. kInvalid for directories and everything else that is not a
  // regular file.
  static Result<Upload> begin(const User& user, std::string path, Metadata metadata);

  // The whole body at once, for bodies that fit one buffer.
  Result<void> write_whole(std::string_view body);
  // The next part of a longer body, then commit().
  Result<void> append(std::string_view part);
  // The descriptor that append() fills, for kernel-side copying.
  Result<int> staging();
  Result<void> commit();

  const std::string& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  bool staged() const { return static_cast<bool>(stage_); }

  ~Upload();
  Upload(Upload&&) noexcept = default;
  Upload& operator=(Upload&&) noexcept = delete;

 private:
  Upload(User user, std::string path, Metadata metadata)
      : user_(std::move(user)), path_(std::move(path)), metadata_(std::move(metadata)) {}
  Result<void> open_target(Rights rights);
  Result<Fd> create_target();
  Result<void> open_stage();
  Result<void> open_named_stage();
  Result<void> link_stage();
  Result<void> name_stage();
  Result<void> touch_last_byte();
  Result<void> replace_with_stage();
  // Gives the target `size` bytes that `write` puts at its start.
  Result<void> replace_content(std::uint64_t size, const std::function<Result<void>()>& write);
  Result<void> finish(int fd);
  // Runs `step` with the rights under which the target was opened.
  template <class Step>
  auto with_same_rights(Step step) {
    ActAs as(rights_ == Rights::kUser ? user_.identity : Identity{});
    return step();
  }

  User user_;
  std::string path_;
  Metadata metadata_;
  Rights rights_ = Rights::kUser;
  Fd parent_;
  std::string name_;
  Fd target_;  // when it existed
  Fd stage_;
  std::string stage_name_;  // only where O_TMPFILE is not supported
};

// A name that open_named_stage gives; watchers do not report it.
bool is_staging_name(std::string_view name);

// Concatenates regular files into `destination` and removes them afterwards. Blocks.
Result<void> compose_files(const User& user, const std::vector<std::string>& sources,
                           const std::string& destination);

}  // namespace atl::guest
