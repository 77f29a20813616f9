// SPDX-License-Identifier: Apache-2.0
//
// Bodies and queries of the control plane: what is accepted keeps the bounds that the rest relies on.
#include "api/create_request.h"
#include "api/page.h"
#include "base/check.h"

namespace {

using namespace atl;

void check_spec(const control::CreateSpec& spec) {
  CHECK(spec.timeout > Millis(0) && spec.timeout <= std::chrono::hours(24), "a timeout out of bounds");
  CHECK(spec.network.allow.size() <= model::kMaxNetworkRules, "too many rules");
  CHECK(spec.network.deny.size() <= model::kMaxNetworkRules, "too many rules");
  for (const auto& [name, value] : spec.envs) {
    CHECK(!name.empty() && name.find('=') == std::string::npos, "a bad variable name");
    CHECK(name.find('\0') == std::string::npos && value.find('\0') == std::string::npos, "NUL in a variable");
  }
  for (char c : spec.ingress.mask_request_host)
    CHECK(c > ' ' && c < 0x7f, "a host that could split a header");
  CHECK(spec.template_ref.find('@') == std::string::npos, "the isolation is still in the name");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  http::RequestHead head;
  api::Call call;
  call.head = &head;
  if (auto body = api::parse_json(text); body && body->is_object()) {
    call.body = *body;
    for (auto generation : {api::Generation::kV1, api::Generation::kV2}) {
      if (auto spec = api::read_create(std::chrono::hours(24), call, generation)) check_spec(*spec);
    }
    (void)api::read_network_update(call);
  }
  call.query.emplace_back("nextToken", std::string(text));
  if (auto page = api::read_page(call, true); page && *page) {
    auto again = api::encode_page(**page, true);
    CHECK(!again.empty(), "a page that cannot be named");
  }
  (void)model::parse_template_ref(text);
  (void)model::parse_cidr(text);
  (void)parse_rfc3339(text);
  return 0;
}
