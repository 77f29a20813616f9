// SPDX-License-Identifier: Apache-2.0
//
// The small texts around templates: paths of entries, manifests, account files, apt's answers.
#include "base/check.h"
#include "template/base_recipe.h"
#include "template/entry.h"
#include "template/manifest.h"
#include "template/root_finish.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::templates;
  std::string text(reinterpret_cast<const char*>(data), size);
  auto path = clean_path(text);
  if (path.ok() && !path->empty()) {
    CHECK(path->front() != '/' && path->back() != '/', "not relative: {}", *path);
    CHECK(("/" + *path + "/").find("/../") == std::string::npos, "leads up: {}", *path);
    CHECK(clean_path(*path).value() == *path, "cleaning twice differs");
  }
  auto manifest = parse_manifest(text);
  if (manifest.ok()) CHECK(parse_manifest(format_manifest(*manifest)).ok(), "a manifest does not round-trip");
  std::string passwd = text, group;
  std::uint32_t uid = ensure_account(passwd, group, "/bin/sh");
  std::string again = passwd;
  CHECK(ensure_account(again, group, "/bin/sh") == uid && again == passwd, "the account is added twice");
  for (const std::string& line : mirror_lines(text, "bookworm")) {
    CHECK(line.find('\n') == std::string::npos, "a line of sources.list holds a line break");
  }
  for (const std::string& line : download_options(text)) CHECK(line.ends_with("\";"), "half an option");
  return 0;
}
