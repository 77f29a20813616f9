// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/path_spec.h"

#include "base/text.h"
#include "model/sandbox.h"

namespace atl::cli {

Result<PathSpec> parse_path_spec(std::string_view text) {
  if (text.empty())
    return make_error(Code::kInvalid, "an operand is empty; give a path, ID:PATH, or - for a pipe");
  if (text.find('\0') != std::string_view::npos) return make_error(Code::kInvalid, "a path holds a NUL byte");
  if (text == "-") return PathSpec{PathSpec::Kind::kStdio, "", ""};
  std::size_t colon = text.find(':');
  std::size_t slash = text.find('/');
  bool local = colon == std::string_view::npos || (slash != std::string_view::npos && slash < colon);
  if (local) return PathSpec{PathSpec::Kind::kLocal, "", std::string(text)};
  std::string id(text.substr(0, colon));
  if (!model::valid_sandbox_id(id)) {
    return make_error(Code::kInvalid, "'{}' before the colon is not a sandbox id", printable(id))
        .with_hint("list ids with 'atoll ps'; write a local name that holds a colon as './name'");
  }
  std::string path(text.substr(colon + 1));
  if (path.empty()) path = "~";
  return PathSpec{PathSpec::Kind::kSandbox, std::move(id), std::move(path)};
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path == "." || path == ".." || path == "~") return {};
  return std::string(path);
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.empty() && out.back() != '/') out += '/';
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  return out.append(name);
}

bool safe_relative_path(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  for (std::string_view part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

}  // namespace atl::cli
