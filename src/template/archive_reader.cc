// SPDX-License-Identifier: Apache-2.0
#include "template/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>

#include "base/text.h"

namespace atl::templates {
namespace {

struct Closer {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using Reader = std::unique_ptr<archive, Closer>;

constexpr std::size_t kBlockBytes = 256 * 1024;

Error damaged(archive* reader, std::string_view where) {
  const char* text = archive_error_string(reader);
  return make_error(Code::kInvalid, "the archive is damaged near {}: {}", where,
                    printable(text ? text : "unknown"))
      .with_word("template_archive_damaged");
}

// Stage one: the bytes of the archive with the compression taken off. Counts them and holds them against the
// bound, which is what stops a small file that unpacks to petabytes.
class Unpacked {
 public:
  explicit Unpacked(std::uint64_t max_bytes) : reader_(archive_read_new()), max_bytes_(max_bytes) {}

  Result<void> open(int fd) {
    archive_read_support_format_raw(reader_.get());
    archive_read_support_filter_gzip(reader_.get());
    archive_read_support_filter_bzip2(reader_.get());
    archive_read_support_filter_xz(reader_.get());
    archive_read_support_filter_zstd(reader_.get());
    archive_entry* entry = nullptr;
    if (archive_read_open_fd(reader_.get(), fd, kBlockBytes) != ARCHIVE_OK ||
        archive_read_next_header(reader_.get(), &entry) != ARCHIVE_OK) {
      return make_error(Code::kInvalid, "this is not a tar archive: {}", message());
    }
    return success();
  }

  // archive_read_callback: the next block, 0 at the end, -1 when something is wrong.
  static la_ssize_t next(archive* outer, void* self, const void** block) {
    std::span<const char> bytes;
    auto* unpacked = static_cast<Unpacked*>(self);
    if (!unpacked->next_block(bytes)) {
      archive_set_error(outer, EIO, "%s", unpacked->failure_.c_str());
      return -1;
    }
    *block = bytes.data();
    return static_cast<la_ssize_t>(bytes.size());
  }

  bool next_block(std::span<const char>& bytes) {
    bytes = {};
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    int status = archive_read_data_block(reader_.get(), &data, &size, &offset);
    if (status == ARCHIVE_EOF) return true;
    if (status != ARCHIVE_OK) return fail(message());
    total_ += size;
    if (total_ > max_bytes_) return fail(fmt::format("it unpacks to more than {} MiB", max_bytes_ >> 20));
    bytes = {static_cast<const char*>(data), size};
    last_ = bytes;
    return true;
  }

  // After the end mark, at `consumed` bytes, there may be padding and nothing else: data there is what
  // another reader would still extract.
  Result<void> expect_only_zeros(std::uint64_t consumed) {
    // The end mark lies in the last block that was handed out, or just before its end.
    std::uint64_t unread = std::min<std::uint64_t>(total_ - std::min(total_, consumed), last_.size());
    std::span<const char> bytes = last_.last(unread);
    while (true) {
      if (std::any_of(bytes.begin(), bytes.end(), [](char byte) { return byte != 0; })) {
        return make_error(Code::kInvalid, "the archive goes on behind its end mark")
            .with_word("template_archive_damaged");
      }
      if (!next_block(bytes))
        return make_error(Code::kInvalid, "the archive is damaged after its end: {}", failure_);
      if (bytes.empty()) return success();
    }
  }

 private:
  bool fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }
  std::string message() {
    const char* text = archive_error_string(reader_.get());
    return printable(text ? text : "unknown");
  }

  Reader reader_;
  std::uint64_t max_bytes_;
  std::uint64_t total_ = 0;
  std::span<const char> last_;  // the latest block; valid until the next is read
  std::string failure_;
};

Result<EntryKind> kind_of(archive_entry* raw, std::string_view path) {
  if (archive_entry_hardlink(raw) != nullptr) return EntryKind::kHardlink;
  switch (archive_entry_filetype(raw)) {
    case AE_IFREG: return EntryKind::kFile;
    case AE_IFDIR: return EntryKind::kDirectory;
    case AE_IFLNK: return EntryKind::kSymlink;
    case AE_IFCHR:
    case AE_IFBLK: return EntryKind::kDevice;
    case AE_IFIFO: return EntryKind::kFifo;
    case AE_IFSOCK: return EntryKind::kSocket;
    default: return make_error(Code::kInvalid, "{} is of an unknown kind", describe(path));
  }
}

Result<Entry> convert(archive_entry* raw) {
  const char* name = archive_entry_pathname(raw);
  if (name == nullptr) return make_error(Code::kInvalid, "an entry's name is not readable text");
  Entry entry;
  TRY(entry.kind, kind_of(raw, name));
  TRY(entry.path, clean_path(name));
  entry.mode = archive_entry_perm(raw);
  entry.uid = static_cast<std::uint64_t>(archive_entry_uid(raw));
  entry.gid = static_cast<std::uint64_t>(archive_entry_gid(raw));
  entry.mtime_s = archive_entry_mtime(raw);
  entry.size = static_cast<std::uint64_t>(std::max<la_int64_t>(archive_entry_size(raw), 0));
  if (entry.kind == EntryKind::kSymlink) {
    const char* target = archive_entry_symlink(raw);
    entry.target = target ? target : "";
  } else if (entry.kind == EntryKind::kHardlink) {
    Result<std::string> target = clean_path(archive_entry_hardlink(raw));
    if (!target.ok())
      return std::move(target).error().context(describe(entry.path) + " is a hard link whose target");
    entry.target = *target;
  }
  return entry;
}

// Delivers an entry's data without the holes of sparse files: those become zeros, and count as bytes.
class EntryData {
 public:
  explicit EntryData(archive* reader, std::string path)
      : reader_(reader), path_(std::move(path)), buffer_(kBlockBytes) {}

  Result<std::span<const char>> next() {
    la_ssize_t size = archive_read_data(reader_, buffer_.data(), buffer_.size());
    if (size < 0) return damaged(reader_, describe(path_));
    return std::span<const char>(buffer_.data(), static_cast<std::size_t>(size));
  }

 private:
  archive* reader_;
  std::string path_;
  std::vector<char> buffer_;
};

Result<void> read_entries(archive* reader, TreeWriter& tree) {
  std::string last = "its start";
  while (true) {
    archive_entry* raw = nullptr;
    int status = archive_read_next_header(reader, &raw);
    if (status == ARCHIVE_EOF) return success();
    // A warning means that libarchive repaired something. Strict: what needs repair is refused.
    if (status != ARCHIVE_OK) return damaged(reader, last);
    TRY(Entry entry, convert(raw));
    EntryData data(reader, entry.path);
    TRY_VOID(tree.add(entry, [&data] { return data.next(); }));
    last = describe(entry.path);
  }
}

}  // namespace

Result<void> read_archive(int fd, TreeWriter& tree, const TreeLimits& limits) {
  Unpacked unpacked(limits.stream_bytes);
  TRY_VOID(unpacked.open(fd));
  Reader reader(archive_read_new());
  archive_read_support_format_tar(reader.get());
  if (archive_read_open(reader.get(), &unpacked, nullptr, &Unpacked::next, nullptr) != ARCHIVE_OK) {
    return damaged(reader.get(), "its start");
  }
  TRY_VOID(read_entries(reader.get(), tree));
  if (archive_format(reader.get()) == ARCHIVE_FORMAT_EMPTY || tree.totals().entries == 0) {
    return make_error(Code::kInvalid, "the archive is empty");
  }
  auto consumed = static_cast<std::uint64_t>(std::max<la_int64_t>(archive_filter_bytes(reader.get(), 0), 0));
  TRY_VOID(unpacked.expect_only_zeros(consumed));
  return tree.finish();
}

}  // namespace atl::templates
