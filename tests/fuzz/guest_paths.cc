// SPDX-License-Identifier: Apache-2.0
//
// Paths of clients: a normal path is absolute, has no dots, and is its own normal form.
#include "base/bytes.h"
#include "base/check.h"
#include "base/text.h"
#include "guest/download.h"
#include "guest/limits.h"
#include "guest/paths.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::guest;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto path = normal_path(text, "/home/user", "/work");
  if (path.ok()) {
    CHECK(path->front() == '/' && path->size() < kMaxPath, "not an absolute path: {}", *path);
    CHECK(*path == "/" || path->back() != '/', "trailing slash: {}", *path);
    CHECK(path->find('\0') == std::string::npos && atl::valid_utf8(*path), "bytes that no path may have");
    for (std::string_view part : atl::split(std::string_view(*path).substr(1), '/'))
      CHECK(*path == "/" || (!part.empty() && part != "." && part != ".."), "part '{}' in {}", part, *path);
    CHECK(*normal_path(*path, "/home/user", "/work") == *path, "not its own normal form: {}", *path);
    if (*path != "/")
      CHECK(join_path(parent_path(*path), base_name(*path)) == *path, "parts do not join: {}", *path);
  }
  std::uint64_t length = size * 31;
  auto choice = choose_range(text, length);
  if (choice.kind == RangeKind::kPart) {
    CHECK(choice.range.length > 0 && choice.range.first < length, "range outside of the file");
    CHECK(choice.range.length <= length - choice.range.first, "range beyond the end");
  }
  std::string disposition = content_disposition(text);
  CHECK(disposition.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos,
        "a header could be split");
  return 0;
}
