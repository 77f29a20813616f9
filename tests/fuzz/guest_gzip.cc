// SPDX-License-Identifier: Apache-2.0
//
// Compressed uploads: any bytes are inflated or refused; what we compress comes back.
#include "base/check.h"
#include "guest/gzip.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::guest;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string out(64 * 1024, '\0');
  Inflater hostile;
  std::string_view input = text;
  for (int rounds = 0; rounds < 1000; ++rounds) {
    auto got = hostile.run(input, out);
    if (!got.ok() || *got == 0) break;
  }
  std::string packed;
  Deflater deflater;
  deflater.run(text, Deflater::Last::kYes, packed);
  Inflater inflater;
  std::string back;
  std::string_view rest = packed;
  for (;;) {
    auto got = inflater.run(rest, out);
    CHECK(got.ok(), "our own output is refused");
    if (*got == 0) break;
    back.append(out, 0, *got);
  }
  CHECK(inflater.complete() && back == text, "the round trip loses bytes");
  return 0;
}
