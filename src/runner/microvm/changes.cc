// SPDX-License-Identifier: Apache-2.0
//
// QEMU has `whole` open and may be in hostile hands: it may change or cut the file off at any time. So it is
// read, never mapped, and what is read is compared and copied from one buffer.
#include "runner/microvm/changes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace atl::runner::microvm {
namespace {

constexpr std::size_t kStep = 64 * kPageBytes;

// Reads a sparse file forwards, and no block of it that is a hole.
class Reader {
 public:
  Reader(int file, std::uint64_t begin) : file_(file), begin_(begin), bytes_(kStep) {}

  // `size` bytes at `at`; null where all of them are a hole, and so zeros.
  Result<const std::byte*> read(std::uint64_t at, std::size_t size) {
    TRY(bool data, has_data(begin_ + at, size));
    if (!data) return static_cast<const std::byte*>(nullptr);
    for (std::size_t done = 0; done < size;) {
      ssize_t n = ::pread(file_, bytes_.data() + done, size - done, static_cast<off_t>(begin_ + at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error::from_errno(errno, "read stored memory");
      if (n == 0) return make_error(Code::kCorrupt, "stored memory is cut off");
      done += static_cast<std::size_t>(n);
    }
    return static_cast<const std::byte*>(bytes_.data());
  }

 private:
  // KERNEL: reading a hole would fill the page cache with zeros; SEEK_DATA passes over it (lseek(2)).
  Result<bool> has_data(std::uint64_t at, std::size_t size) {
    if (at + size <= data_) return false;
    if (at < data_) return true;
    off_t found = ::lseek(file_, static_cast<off_t>(at), SEEK_DATA);
    if (found < 0 && errno != ENXIO) return Error::from_errno(errno, "find data in stored memory");
    data_ = found < 0 ? UINT64_MAX : static_cast<std::uint64_t>(found);
    return at + size > data_;
  }

  const int file_;
  const std::uint64_t begin_;
  std::vector<std::byte> bytes_;
  std::uint64_t data_ = 0;  // there is none between the last look and here
};

Result<void> write_at(int file, const std::byte* bytes, std::size_t size, std::uint64_t at) {
  while (size > 0) {
    ssize_t n = ::pwrite(file, bytes, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int error = errno;
      Error failed = Error::from_errno(error, "store memory");
      if (error != ENOSPC && error != EDQUOT) return failed;
      return std::move(failed).with_code(Code::kNoSpace).with_word("disk_full");
    }
    bytes += n;
    at += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return success();
}

// Devices, and memory that is not the guest's.
Result<void> copy_rest(int from, std::uint64_t begin, std::uint64_t end, int to) {
  Reader reader(from, 0);
  for (std::uint64_t at = begin; at < end; at += kStep) {
    std::size_t size = std::min<std::uint64_t>(kStep, end - at);
    TRY(const std::byte* bytes, reader.read(at, size));
    if (bytes != nullptr) TRY_VOID(write_at(to, bytes, size, at));
  }
  return success();
}

// The pages that differ, and their bits.
class Changes {
 public:
  Changes(const MemoryPlace& place, int out, std::uint64_t most)
      : place_(place), out_(out), left_(most / kPageBytes), bits_((place.pages_bytes / kPageBytes + 7) / 8) {}

  // False where they are too many.
  Result<bool> take(std::uint64_t at, std::size_t size, const std::byte* now, const std::byte* before) {
    static constexpr std::byte kZeros[kPageBytes] = {};
    for (std::size_t page = 0; page < size; page += kPageBytes) {
      const std::byte* is = now == nullptr ? kZeros : now + page;
      const std::byte* was = before == nullptr ? kZeros : before + page;
      if (std::memcmp(is, was, kPageBytes) == 0) continue;
      if (left_-- == 0) return false;
      std::uint64_t number = (at + page) / kPageBytes;
      bits_[number / 8] |= static_cast<std::byte>(1u << (number % 8));
      // A hole is read as zeros.
      if (std::memcmp(is, kZeros, kPageBytes) != 0)
        TRY_VOID(write_at(out_, is, kPageBytes, place_.pages_offset + at + page));
    }
    return true;
  }

  Result<void> write_bits() const { return write_at(out_, bits_.data(), bits_.size(), place_.bitmap_offset); }

 private:
  const MemoryPlace& place_;
  const int out_;
  std::uint64_t left_;
  std::vector<std::byte> bits_;
};

}  // namespace

Result<bool> store_changes(int whole, const MemoryPlace& place, int base, std::uint64_t base_offset, int out,
                           std::uint64_t most) {
  struct stat info{};
  if (::fstat(whole, &info) != 0) return Error::from_errno(errno, "look at stored memory");
  auto size = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t end = place.pages_offset + place.pages_bytes;
  if (place.pages_bytes % kPageBytes != 0 || end < place.pages_offset || end > size ||
      place.bitmap_offset > place.pages_offset ||
      (place.pages_bytes / kPageBytes + 7) / 8 > place.pages_offset - place.bitmap_offset)
    return make_error(Code::kCorrupt, "stored memory is cut off");
  if (::ftruncate(out, info.st_size) != 0) return Error::from_errno(errno, "size stored memory");
  Reader now(whole, place.pages_offset), before(base, base_offset);
  Changes changes(place, out, most);
  for (std::uint64_t at = 0; at < place.pages_bytes; at += kStep) {
    std::size_t step = std::min<std::uint64_t>(kStep, place.pages_bytes - at);
    TRY(const std::byte* is, now.read(at, step));
    TRY(const std::byte* was, before.read(at, step));
    if (is == nullptr && was == nullptr) continue;
    TRY(bool few, changes.take(at, step, is, was));
    if (!few) return false;
  }
  TRY_VOID(copy_rest(whole, 0, place.pages_offset, out));
  TRY_VOID(copy_rest(whole, end, size, out));
  TRY_VOID(changes.write_bits());
  return true;
}

}  // namespace atl::runner::microvm
