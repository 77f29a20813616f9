// SPDX-License-Identifier: Apache-2.0
//
// What the filesystem service tells about one file.
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "guest/accounts.h"
#include "guest/paths.h"

namespace atl::guest {

// E2B's file metadata: extended attributes user.e2b.<key>, here without the prefix.
using Metadata = std::map<std::string, std::string>;

// One file, as read at one moment.
struct Entry {
  std::string name;
  std::string path;
  struct stat st = {};                // of the file itself, a link is not followed
  mode_t target_mode = 0;             // of what it points to; 0 for a link to nowhere
  std::optional<std::string> target;  // absolute; for links only
  Metadata metadata;
};

// Reads the entry `name` of an open directory; "" means the directory itself. `path` is what the client calls
// it.
Result<Entry> read_entry(int directory, const std::string& name, const std::string& path);
// The entry at `path`.
Result<Entry> read_entry_at(const std::string& path, Rights rights);

// The JSON of filesystem.EntryInfo.
std::string entry_json(const Entry& entry, const Accounts& accounts);

// The text of Go's FileMode: "-rw-r--r--", "drwxr-xr-x", "dtrwxrwxrwx", "Lrwxrwxrwx".
std::string go_mode_text(mode_t mode);
// RFC 3339 with nanoseconds where there are any; nullopt outside of years 1 to 9999.
std::optional<std::string> timestamp_text(const struct timespec& time);

// Keys of user.e2b.* of an open file (O_PATH works too).
Metadata read_metadata(int fd);
// Makes `metadata` the whole set of the file. kUnsupported when the file system has no user attributes and
// some are asked for.
Result<void> write_metadata(int fd, const Metadata& metadata);

}  // namespace atl::guest
