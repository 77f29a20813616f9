// SPDX-License-Identifier: Apache-2.0
//
// Queries of DNS: an answer fits its bound, is itself never answered, and a name that was read is canonical.
#include "base/check.h"
#include "gateway/dns/wire.h"
#include "gateway/names/host.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::gateway;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto framed = dns::first_framed(bytes))
    CHECK(framed->size() + dns::kFrameHead <= size, "longer than all");
  auto in = dns::read_query(bytes);
  if (!in) return 0;
  if (in->query.name) {
    auto host = parse_host(*in->query.name);
    CHECK(host.ok() && !host->is_address() && host->name() == *in->query.name, "name '{}'", *in->query.name);
  }
  dns::Answer answer{.rcode = in->error.value_or(dns::Rcode::kNoError), .ttl_seconds = 60};
  if (!in->error) answer.address = IpAddress::v4({198, 18, 1, 1});
  auto out = dns::write_answer(in->query, answer);
  CHECK(out.size() <= dns::kMaxAnswerBytes, "{} bytes", out.size());
  CHECK(!dns::read_query(out), "an answer would be answered");
  CHECK(dns::first_framed(dns::frame(out)) == out, "frame");
  return 0;
}
