// SPDX-License-Identifier: Apache-2.0
//
// ClientHello reader of the gateway: more bytes never change a verdict that was given, names come out
// canonical.
#include "base/check.h"
#include "gateway/names/host.h"
#include "gateway/tls/client_hello.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::gateway;
  std::string_view all(reinterpret_cast<const char*>(data), size);
  auto last = read_client_hello(all);
  CHECK((last.state == HelloState::kBroken) == !last.reason.empty(), "reason '{}'", last.reason);
  if (last.hello.sni) {
    auto host = parse_host(*last.hello.sni);
    CHECK(host.ok() && !host->is_address() && host->name() == *last.hello.sni, "name '{}'", *last.hello.sni);
  }
  for (std::size_t cut : {std::size_t{1}, size / 2, size / 3, size > 0 ? size - 1 : 0}) {
    auto part = read_client_hello(all.substr(0, cut));
    // "Something follows" and "larger than" cannot be known earlier; all else that was known stays.
    if (part.state == HelloState::kNotTls) CHECK(last.state == HelloState::kNotTls, "TLS after all");
    if (part.state == HelloState::kBroken) CHECK(last.state == HelloState::kBroken, "good after all");
    if (part.state == HelloState::kParsed)
      CHECK(last.state == HelloState::kParsed && last.hello.sni == part.hello.sni, "another hello");
  }
  return 0;
}
