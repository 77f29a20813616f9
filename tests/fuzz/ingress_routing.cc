// SPDX-License-Identifier: Apache-2.0
//
// Which sandbox a request is for, from four lines: Host, E2b-Sandbox-Id, E2b-Sandbox-Port, target. What is
// passed on to the guest daemon is never one of its internal paths.
#include "base/check.h"
#include "base/text.h"
#include "ingress/target.h"

namespace {

void check_target(const atl::ingress::Target& target) {
  CHECK(target.port > 0, "port 0");
  CHECK(!target.sandbox.empty() && target.sandbox.size() <= 64, "an id of {} bytes", target.sandbox.size());
  for (char c : target.sandbox) {
    bool fine =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    CHECK(fine, "an id with byte {}", static_cast<int>(c));
  }
}

void check_guest_path(std::string_view path) {
  using namespace atl::ingress;
  if (is_internal_path(path)) return;
  auto sent = normal_guest_path(path);
  if (!sent) return;
  CHECK(sent->starts_with('/') && sent->find("//") == std::string::npos, "'{}' is not a plain path", *sent);
  CHECK(!is_internal_path(*sent), "'{}' was let through and becomes '{}'", path, *sent);
  CHECK(normal_guest_path(*sent) == *sent, "'{}' changes again", *sent);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::ingress;
  std::string text(reinterpret_cast<const char*>(data), size);
  auto lines = atl::split(text, '\n');
  lines.resize(4);
  atl::http::RequestHead request;
  request.method = "GET";
  request.authority = lines[0];
  if (!lines[1].empty()) request.headers.add("e2b-sandbox-id", std::string(lines[1]));
  if (!lines[2].empty()) request.headers.add("e2b-sandbox-port", std::string(lines[2]));
  request.target = lines[3];
  auto routing = route_request(request, "atoll.localhost");
  if (auto* target = std::get_if<Target>(&routing)) check_target(*target);
  check_guest_path(request.path());
  return 0;
}
