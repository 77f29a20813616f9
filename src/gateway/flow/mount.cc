// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/mount.h"

#include <string_view>

#include "gateway/upstream/answer_head.h"

namespace atl::gateway {

void remount(http::Headers& headers, const Authority& authority, bool secure, const HttpMount& mount) {
  auto location = headers.find("location");
  if (!location || judge_redirect(*location, authority, secure) != Redirect::kSameOrigin) return;
  std::string path(*location);
  if (auto scheme = path.find("://"); scheme < path.find_first_of("/?#")) {
    auto end = path.find_first_of("/?#", scheme + 3);
    path = end == std::string::npos ? "" : path.substr(end);
    if (!path.starts_with('/')) path.insert(0, "/");
  }
  if (!path.starts_with('/') || path.starts_with("//") || !path.starts_with(mount.base)) return;
  auto rest = std::string_view(path).substr(mount.base.size());
  bool whole = rest.empty() || std::string_view("/?#").find(rest[0]) != std::string_view::npos;
  if (!mount.base.empty() && !whole) return;  // of "/v1", "/v10" is no part
  headers.set("location", mount.prefix + path.substr(mount.base.size()));
}

}  // namespace atl::gateway
