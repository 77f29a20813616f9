// SPDX-License-Identifier: Apache-2.0
//
// Percent-decoding and query strings: decoding undoes encoding, and nothing decodes to NUL.
#include "base/check.h"
#include "http/message.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::http;
  std::string text(reinterpret_cast<const char*>(data), size);
  auto decoded = percent_decode(text);
  CHECK(!decoded || decoded->find('\0') == std::string::npos, "NUL came out");
  if (text.find('\0') == std::string::npos) {
    CHECK(percent_decode(percent_encode(text)) == text, "encoding is not undone by decoding");
  }
  auto query = parse_query(text);
  if (query.ok()) {
    CHECK(query->size() <= size + 1, "more pairs than bytes");
    for (const auto& [key, value] : *query)
      CHECK(query_value(*query, key).has_value(), "key '{}' is lost", key);
  }
  RequestHead head;
  head.target = text;
  CHECK(head.path().size() + head.query().size() <= size, "parts larger than the whole");
  return 0;
}
