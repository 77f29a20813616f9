// SPDX-License-Identifier: Apache-2.0
//
// Archives for templates: whatever the bytes are, nothing is written outside the tree, and the totals hold.
// Runs the reader without its jail, so that the inner wall alone has to hold.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "sys/files.h"
#include "template/archive_reader.h"

namespace fs = std::filesystem;

namespace {

// One folder for the whole run: outside/ must stay as it is, tree/ is made anew for each input.
const fs::path& top() {
  static const fs::path path = [] {
    std::string pattern = (fs::temp_directory_path() / "atoll-fuzz-XXXXXX").string();
    CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    fs::create_directory(fs::path(pattern) / "outside");
    static const fs::path made = pattern;
    std::atexit([] { fs::remove_all(made); });
    return fs::path(pattern);
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl;
  fs::remove_all(top() / "tree");
  fs::create_directory(top() / "tree");
  sys::Fd file(::memfd_create("archive", MFD_CLOEXEC));
  CHECK(sys::write_all(file.get(), {reinterpret_cast<const char*>(data), size}).ok(), "no memory file");
  ::lseek(file.get(), 0, SEEK_SET);
  auto root = sys::open_file((top() / "tree").string(), O_RDONLY | O_DIRECTORY);
  CHECK(root.ok(), "the tree is gone");
  templates::TreeLimits limits{.entries = 200, .bytes = 1 << 20, .stream_bytes = 4 << 20};
  templates::TreeWriter tree(root->get(), limits);
  auto read = templates::read_archive(file.get(), tree, limits);
  CHECK(!read.ok() || tree.totals().entries > 0, "an empty archive was taken");
  CHECK(fs::is_empty(top() / "outside"), "something was written outside the tree");
  CHECK(std::distance(fs::directory_iterator(top()), {}) == 2, "something was written beside the tree");
  return 0;
}
