// SPDX-License-Identifier: Apache-2.0
//
// Envelopes cut in any way must give the same messages, or the same refusal, as all bytes at once.
#include <vector>

#include "base/check.h"
#include "http/connect_rpc.h"

namespace {

using atl::http::connect::EnvelopeReader;

struct Outcome {
  std::vector<std::string> messages;
  bool refused = false;
  bool operator==(const Outcome&) const = default;
};

Outcome read(std::string_view bytes, std::size_t step) {
  EnvelopeReader reader(4096);
  Outcome out;
  while (!bytes.empty() && !out.refused) {
    reader.feed(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    for (;;) {
      auto next = reader.next();
      out.refused = !next.ok();
      if (!next.ok() || !next->has_value()) break;
      CHECK((*next)->payload.size() <= 4096, "message beyond the limit");
      out.messages.push_back(static_cast<char>((*next)->flags) + (*next)->payload);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::size_t step = data[0] == 0 ? 1 : data[0];
  CHECK(read(bytes, step) == read(bytes, std::max<std::size_t>(bytes.size(), 1)),
        "depends on how the bytes are cut");
  return 0;
}
