// SPDX-License-Identifier: Apache-2.0
#include "guest/batch_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include <boost/json.hpp>

#include "base/bytes.h"
#include "base/log.h"
#include "guest/json.h"
#include "guest/limits.h"
#include "guest/posix.h"
#include "sys/files.h"

namespace atl::guest {
namespace {

namespace json = boost::json;

constexpr int kVersion = 1;
constexpr std::size_t kNameDigits = 32;
// Names of records that have ended: with all that was said, or without what the steps put out.
constexpr std::string_view kWhole = ".whole", kShort = ".short";

std::optional<json::object> parse_line(std::string_view line) {
  boost::system::error_code failure;
  json::parse_options options;
  options.max_depth = kMaxRecordDepth;
  json::value value = json::parse(json::string_view(line.data(), line.size()), failure, {}, options);
  if (failure || !value.is_object()) return std::nullopt;
  return std::move(value.get_object());
}

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains({name.data(), name.size()});
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::string first_line(const std::string& key, const std::string& digest) {
  ObjectWriter out;
  out.number("batch", kVersion).text("key", key).text("digest", digest);
  return std::move(out).finish() + "\n";
}

// Calls `take` with each whole line, its end included.
template <class Take>
void for_each_line(std::string_view text, Take take) {
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string_view::npos; at = end + 1)
    take(text.substr(at, end + 1 - at));
}

bool take_first(const json::object& line, std::string_view key, RecordedBatch& out) {
  const json::value* version = line.if_contains("batch");
  bool known = version != nullptr && version->is_int64() && version->get_int64() == kVersion;
  if (!known || text_of(line, "key") != key) return false;
  out.digest = text_of(line, "digest");
  return !out.digest.empty();
}

struct Found {
  std::string path;
  std::size_t bytes = 0;
  struct timespec changed{};
  bool ended = false;
  bool whole = false;
};

bool older(const Found& left, const Found& right) {
  return std::pair(left.changed.tv_sec, left.changed.tv_nsec) <
         std::pair(right.changed.tv_sec, right.changed.tv_nsec);
}

// Oldest first.
std::vector<Found> find_records(const std::string& directory) {
  std::vector<Found> out;
  for (const std::string& name : sys::list_directory(directory).value_or({})) {
    struct stat info{};
    Found found;
    found.path = directory + "/" + name;
    if (::lstat(found.path.c_str(), &info) != 0) continue;
    found.bytes = static_cast<std::size_t>(info.st_size);
    found.changed = info.st_mtim;
    found.whole = name.ends_with(kWhole);
    found.ended = found.whole || name.ends_with(kShort);
    out.push_back(std::move(found));
  }
  std::sort(out.begin(), out.end(), older);
  return out;
}

// Gives the bytes that it has now. What cannot be made shorter is removed.
std::size_t shorten(const Found& record) {
  std::string path = record.path.substr(0, record.path.size() - kWhole.size());
  auto text = read_small_file(record.path, kMaxBatchRecord);
  std::size_t bytes = 0;
  if (text.ok()) {
    std::string rest = shortened_record(*text);
    std::string target = path + std::string(kShort);
    if (sys::replace_file(target, rest, 0600, sys::Durable::kYes).ok()) bytes = rest.size();
    // Its age stays.
    const struct timespec times[2] = {record.changed, record.changed};
    ::utimensat(AT_FDCWD, target.c_str(), times, AT_SYMLINK_NOFOLLOW);
  }
  ::unlink(record.path.c_str());
  return bytes;
}

Result<sys::Fd> open_record(const std::string& path, int flags) {
  sys::Fd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600));
  if (!fd) return Error::from_errno(errno, "open the record of a batch");
  return fd;
}

}  // namespace

std::string begun_line(std::string_view step) {
  ObjectWriter out;
  out.text("begun", step);
  return std::move(out).finish() + "\n";
}

RecordedBatch parse_record(std::string_view text, std::string_view key) {
  RecordedBatch out;
  bool first = true;
  for_each_line(text, [&](std::string_view line) {
    if (out.damaged) return;
    auto object = parse_line(line);
    if (!object || (first && !take_first(*object, key, out))) {
      out.damaged = true;
    } else if (!first && object->contains("begun")) {
      out.begun.insert(text_of(*object, "begun"));
    } else if (!first) {
      out.lines.emplace_back(line);
    }
    first = false;
  });
  if (first) out.damaged = true;
  return out;
}

std::string shortened_record(std::string_view text) {
  std::string out;
  std::set<std::string> cut;
  for_each_line(text, [&](std::string_view line) {
    auto object = parse_line(line);
    std::string step = object ? text_of(*object, "step") : std::string();
    const json::value* done = object ? object->if_contains("done") : nullptr;
    bool large = line.size() > kShortBatchLine;
    if (object && (object->contains("event") || object->contains("cut") || (done != nullptr && large))) {
      if (cut.insert(step).second) {
        ObjectWriter mark;
        mark.text("step", step).boolean("cut", true);
        out += std::move(mark).finish() + "\n";
      }
      if (done == nullptr || !done->is_object()) return;
      ObjectWriter end, outer;
      const json::value* ok = done->get_object().if_contains("ok");
      end.boolean("ok", ok != nullptr && ok->is_bool() && ok->get_bool());
      outer.text("step", step).raw("done", std::move(end).finish());
      out += std::move(outer).finish() + "\n";
      return;
    }
    out += line;
  });
  return out;
}

std::string BatchRecords::path(const std::string& key) const {
  return fmt::format("{}/{}", directory_, hex_encode(sha256(key)).substr(0, kNameDigits));
}

std::optional<RecordedBatch> BatchRecords::load(const std::string& key) const {
  for (std::string_view ending : {std::string_view(), kWhole, kShort}) {
    std::string name = path(key) + std::string(ending);
    struct stat info{};
    if (::lstat(name.c_str(), &info) != 0) {
      if (errno == ENOENT) continue;
      return RecordedBatch{{}, {}, {}, true};
    }
    auto text = read_small_file(name, kMaxBatchRecord);
    // Whatever ended the sandbox did so before its first line was on the disk, so nothing has begun.
    bool empty = text.ok() && text->find('\n') == std::string::npos;
    if (empty && ::unlink(name.c_str()) == 0) return std::nullopt;
    if (text.ok()) return parse_record(*text, key);
    log::warn("the record of a batch cannot be read", {{"why", text.error().message()}});
    return RecordedBatch{{}, {}, {}, true};
  }
  return std::nullopt;
}

Result<sys::Fd> BatchRecords::create(const std::string& key, const std::string& digest,
                                     const std::set<std::string>& running) const {
  TRY_VOID(sys::ensure_directory(directory_, 0700));
  make_room(running);
  TRY(sys::Fd fd, open_record(path(key), O_CREAT | O_EXCL));
  Result<void> written = append_record(fd.get(), first_line(key, digest));
  if (written.ok()) written = sys::sync_path(directory_);
  if (written.ok()) return fd;
  ::unlink(path(key).c_str());
  return std::move(written).error();
}

Result<sys::Fd> BatchRecords::reopen(const std::string& key) const {
  TRY(std::string text, read_small_file(path(key), kMaxBatchRecord));
  TRY(sys::Fd fd, open_record(path(key), 0));
  // What comes next must not become one line with what was being written.
  auto whole = static_cast<off_t>(text.rfind('\n') + 1);
  if (::ftruncate(fd.get(), whole) != 0) return Error::from_errno(errno, "cut the record of a batch");
  return fd;
}

Result<void> BatchRecords::end(const std::string& key) const {
  std::string name = path(key);
  if (::rename(name.c_str(), (name + std::string(kWhole)).c_str()) != 0)
    return Error::from_errno(errno, "end the record of a batch");
  return success();
}

void BatchRecords::make_room(const std::set<std::string>& running) const {
  std::set<std::string> kept;
  for (const std::string& key : running) kept.insert(path(key));
  std::vector<Found> records = find_records(directory_);
  std::size_t bytes = 0, count = records.size();
  for (const Found& record : records) bytes += record.bytes;
  for (Found& record : records) {
    if (bytes <= kBatchRecordsBytes) break;
    if (!record.whole) continue;
    bytes -= record.bytes;
    record.bytes = shorten(record);
    bytes += record.bytes;
    record.whole = false;
    record.path.replace(record.path.size() - kWhole.size(), kWhole.size(), kShort);
  }
  // Those that did not end, because the sandbox ended first, go last.
  for (bool ended : {true, false}) {
    for (const Found& record : records) {
      if (bytes <= kBatchRecordsBytes && count < kMaxBatchRecords) return;
      if (record.ended != ended || kept.contains(record.path)) continue;
      ::unlink(record.path.c_str());
      bytes -= record.bytes;
      --count;
    }
  }
}

Result<void> append_record(int fd, std::string_view text) {
  TRY_VOID(write_full(fd, text));
  if (::fdatasync(fd) != 0) return Error::from_errno(errno, "write out the record of a batch");
  return success();
}

}  // namespace atl::guest
