// SPDX-License-Identifier: Apache-2.0
#include "template/entry.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace atl::templates {
namespace {

constexpr std::size_t kMaxShownBytes = 200;

// Directories that the runner or this builder opens by name. A link here would lead that privileged open
// elsewhere (CVE-2023-28642, CVE-2026-41579).
constexpr std::array<std::string_view, 11> kMustBeDirectory = {
    "dev", "proc", "sys", "run", "tmp", "etc", "home", "root", "home/user", "etc/sudoers.d", "var"};
constexpr std::array<std::string_view, 4> kMustBeFile = {"etc/passwd", "etc/group", "etc/shadow",
                                                         "etc/hosts"};

bool contains(auto& list, std::string_view path) {
  return std::find(list.begin(), list.end(), path) != list.end();
}

bool below_mount(std::string_view path) {
  return path.starts_with("dev/") || path.starts_with("proc/") || path.starts_with("sys/");
}

Error refuse(std::string_view path, std::string_view why) {
  return make_error(Code::kInvalid, "{} {}", describe(path), why).with_word("template_entry_refused");
}

Result<void> check_part(std::string_view raw, std::string_view part) {
  if (part.empty()) return refuse(raw, "has an empty part in its path");
  if (part == ".") return refuse(raw, "has '.' inside its path");
  if (part == "..") return refuse(raw, "has '..' in its path, which may lead out of the tree");
  if (part.size() > kMaxNameBytes) return refuse(raw, "has a name longer than 255 bytes");
  if (part.starts_with(".wh.")) {
    return refuse(
        raw, "is a whiteout of an image layer; give a whole file system (for example of 'docker export')");
  }
  return success();
}

}  // namespace

std::string describe(std::string_view path) {
  std::string_view shown = path.substr(0, kMaxShownBytes);
  return fmt::format("entry '{}{}'", printable(shown), shown.size() < path.size() ? "..." : "");
}

Result<std::string> clean_path(std::string_view raw) {
  if (raw.empty())
    return make_error(Code::kInvalid, "an entry has an empty name").with_word("template_entry_refused");
  if (raw.size() > kMaxPathBytes) return refuse(raw, "has a path longer than 4095 bytes");
  if (raw.find('\0') != std::string_view::npos) return refuse(raw, "has a NUL in its path");
  if (raw.front() == '/') return refuse(raw, "has an absolute path; make the archive with 'tar -C FOLDER .'");
  std::string_view path = raw;
  if (path == ".") return std::string();
  while (path.starts_with("./")) path.remove_prefix(2);
  if (path.ends_with('/')) path.remove_suffix(1);
  if (path.empty()) return std::string();
  std::size_t depth = 0;
  for (std::string_view part : split(path, '/')) {
    TRY_VOID(check_part(raw, part));
    if (++depth > kMaxDepth) return refuse(raw, "is nested deeper than 128 directories");
  }
  return std::string(path);
}

Result<Verdict> judge(const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kDevice:
      return refuse(entry.path, "is a device; leave devices out ('tar --exclude=./dev/*')");
    case EntryKind::kFifo: return refuse(entry.path, "is a FIFO");
    case EntryKind::kSocket: return refuse(entry.path, "is a socket");
    default: break;
  }
  if (entry.uid >= kUidCount || entry.gid >= kUidCount) {
    return refuse(entry.path, "has an owner id above 65535, which does not exist in a sandbox");
  }
  if (entry.path.empty() && entry.kind != EntryKind::kDirectory)
    return refuse("/", "is the root but not a directory");
  if (contains(kMustBeDirectory, entry.path) && entry.kind != EntryKind::kDirectory) {
    return refuse(entry.path, "must be a directory, because the sandbox mounts or opens it by name");
  }
  if (contains(kMustBeFile, entry.path) && entry.kind != EntryKind::kFile) {
    return refuse(entry.path, "must be a plain file");
  }
  if (!below_mount(entry.path)) return Verdict::kTake;
  if (entry.kind == EntryKind::kSymlink || entry.kind == EntryKind::kHardlink) {
    return refuse(entry.path, "is a link inside a directory that the sandbox mounts over");
  }
  return Verdict::kSkip;
}

}  // namespace atl::templates
