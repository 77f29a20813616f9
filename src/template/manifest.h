// SPDX-License-Identifier: Apache-2.0
//
// manifest.json: what a template build is. Written once, beside root.erofs, and never changed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace atl::templates {

inline constexpr int kManifestVersion = 1;

struct Manifest {
  std::string build;   // UUID, the name of the build's folder
  std::string name;    // what the operator called it, for example "base"
  std::string source;  // "debian", "tarball" or "folder"
  std::string suite;   // of Debian, empty for others
  std::string recipe;  // for "debian": version of the recipe; a build with another one is out of date
  WallTime created;
  std::string default_user;  // runs commands that name no user
  std::string workdir;
  std::uint32_t cpu_count = 2;
  std::uint32_t memory_mb = 1024;
  std::uint32_t disk_mb = 4096;
  std::uint64_t size_bytes = 0;  // of root.erofs
  std::string sha256;            // of root.erofs, hex
};

// The JSON text that parse_manifest() reads back.
std::string format_manifest(const Manifest& manifest);
// Strict about what must be there and of which type; ignores fields that it does not know. Errors have
// Code::kCorrupt.
Result<Manifest> parse_manifest(std::string_view text);

// A template name: 1 to 64 of [a-z0-9_-], the first a letter or digit.
bool valid_template_name(std::string_view name);
bool valid_build_id(std::string_view id);  // UUID in lower case

}  // namespace atl::templates
