// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/changes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "sys/fd.h"

namespace atl::runner::microvm {
namespace {

// As QEMU lays a file out: a head with the bits, 300 pages, and devices behind them.
constexpr std::uint64_t kPages = 300;
constexpr MemoryPlace kPlace{100, 1 << 20, kPages* kPageBytes};
constexpr std::uint64_t kEnd = kPlace.pages_offset + kPlace.pages_bytes;
constexpr std::uint64_t kBaseOffset = 2 << 20;

class Changes : public testing::Test {
 protected:
  Changes() : whole(make()), base(make()), out(make()) {
    resize(whole, kEnd + 5);
    resize(base, kBaseOffset + kPlace.pages_bytes);
    write(whole, 0, "head");
    write(whole, kEnd, "state");
    for (std::uint64_t page : {0u, 7u, 64u, 65u, 299u}) {
      put(whole, kPlace.pages_offset, page, 'x');
      put(base, kBaseOffset, page, 'x');
    }
  }
  static sys::Fd make() { return sys::Fd(::memfd_create("changes", MFD_CLOEXEC)); }
  static void resize(const sys::Fd& file, std::uint64_t size) {
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
  }
  static void write(const sys::Fd& file, std::uint64_t at, const std::string& bytes) {
    ASSERT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }
  static void put(const sys::Fd& file, std::uint64_t begin, std::uint64_t page, char letter) {
    write(file, begin + page * kPageBytes, std::string(kPageBytes, letter));
  }
  static std::string read(const sys::Fd& file, std::uint64_t at, std::size_t size) {
    std::string bytes(size, '\0');
    EXPECT_EQ(::pread(file.get(), bytes.data(), size, static_cast<off_t>(at)), static_cast<ssize_t>(size));
    return bytes;
  }
  Result<bool> store(std::uint64_t most = kMostChangedBytes) const {
    return store_changes(whole.get(), kPlace, base.get(), kBaseOffset, out.get(), most);
  }
  // The pages that the bits name.
  std::string named() const {
    std::string bits = read(out, kPlace.bitmap_offset, (kPages + 7) / 8), list;
    for (std::uint64_t page = 0; page < kPages; ++page) {
      if ((static_cast<unsigned char>(bits[page / 8]) >> (page % 8) & 1) != 0)
        list += std::to_string(page) + " ";
    }
    return list;
  }
  std::uint64_t stored() const {
    struct stat info{};
    EXPECT_EQ(::fstat(out.get(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  const sys::Fd whole, base, out;
};

TEST_F(Changes, NothingButDevicesIsStoredOfAMachineThatChangedNothing) {
  Result<bool> few = store();
  ASSERT_TRUE(few.ok()) << few.error().message();
  EXPECT_TRUE(*few);
  EXPECT_EQ(named(), "");
  EXPECT_EQ(read(out, 0, 4), "head");
  EXPECT_EQ(read(out, kEnd, 5), "state");
  EXPECT_LE(stored(), 1u << 19);
}

TEST_F(Changes, EveryPageThatIsAnotherIsNamedAndStored) {
  put(whole, kPlace.pages_offset, 7, 'y');                       // another
  put(whole, kPlace.pages_offset, 100, 'n');                     // where there was none
  put(base, kBaseOffset, 200, 'g');                              // gone
  write(whole, kPlace.pages_offset + 66 * kPageBytes - 1, "z");  // by its last byte
  Result<bool> few = store();
  ASSERT_TRUE(few.ok()) << few.error().message();
  EXPECT_TRUE(*few);
  EXPECT_EQ(named(), "7 65 100 200 ");
  EXPECT_EQ(read(out, kPlace.pages_offset + 7 * kPageBytes, kPageBytes), std::string(kPageBytes, 'y'));
  EXPECT_EQ(read(out, kPlace.pages_offset + 100 * kPageBytes, kPageBytes), std::string(kPageBytes, 'n'));
  EXPECT_EQ(read(out, kPlace.pages_offset + 200 * kPageBytes, kPageBytes), std::string(kPageBytes, '\0'));
  EXPECT_EQ(read(out, kPlace.pages_offset + 66 * kPageBytes - 1, 1), "z");
}

TEST_F(Changes, ABitOfAnEarlierTimeIsNotKept) {
  write(whole, kPlace.bitmap_offset, "\xff\xff");
  ASSERT_TRUE(store().ok());
  EXPECT_EQ(named(), "");
}

TEST_F(Changes, WhereTheyAreTooManyItSaysSo) {
  for (std::uint64_t page = 10; page < 20; ++page) put(whole, kPlace.pages_offset, page, 'y');
  EXPECT_TRUE(store(10 * kPageBytes).value());
  ASSERT_EQ(::ftruncate(out.get(), 0), 0);
  EXPECT_FALSE(store(9 * kPageBytes).value());
}

// QEMU has the file, and said where things are.
TEST_F(Changes, AFileThatIsNotAsItWasSaidIsRefused) {
  resize(whole, kEnd - 1);
  EXPECT_FALSE(store().ok());
  for (MemoryPlace place : {MemoryPlace{1 << 20, 1 << 20, kPageBytes},
                            MemoryPlace{2 << 20, 1 << 20, kPageBytes}, MemoryPlace{0, ~0ull, kPageBytes},
                            MemoryPlace{0, 1 << 20, ~0ull << 12}, MemoryPlace{0, 1 << 20, 100}}) {
    EXPECT_FALSE(store_changes(whole.get(), place, base.get(), kBaseOffset, out.get()).ok());
  }
}

}  // namespace
}  // namespace atl::runner::microvm
