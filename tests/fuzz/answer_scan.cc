// SPDX-License-Identifier: Apache-2.0
//
// Secrets in answers: whatever the patterns, the text and the cuts, none is left; and any bytes are decoded
// or refused. Input: first byte the cuts, then patterns, each with its length in a byte, ended by a zero,
// then the text.
#include "base/check.h"
#include "gateway/upstream/decoder.h"
#include "gateway/upstream/scanner.h"

namespace {

using namespace atl;

void scan(const std::vector<std::string>& texts, std::string_view in, std::size_t step) {
  std::vector<gateway::SecretPatterns::Pattern> list;
  for (const auto& text : texts) list.push_back({Secret(text), std::string(1, '\0')});
  gateway::SecretScanner scanner(std::make_shared<gateway::SecretPatterns>(list));
  std::string out;
  for (std::size_t at = 0; at < in.size(); at += step) scanner.feed(in.substr(at, step), out);
  scanner.finish(out);
  for (const auto& text : texts) {
    // A pattern that holds the placeholder itself can be put together by it.
    bool own = text.empty() || text.find('\0') != std::string::npos;
    CHECK(own || out.find(text) == std::string::npos, "a secret is left");
  }
  CHECK(out.size() <= in.size(), "the placeholder is shorter than any secret");
}

void decode(std::string_view coding, std::string_view in, std::size_t step) {
  auto decoder = gateway::make_decoder(coding);
  CHECK(decoder.ok(), "no decoder");
  std::string out(4096, '\0');
  int rounds = 0;
  for (std::size_t at = 0; at < in.size(); at += step) {
    (*decoder)->give(in.substr(at, step));
    for (;;) {
      auto count = (*decoder)->read(out);
      if (!count.ok() || ++rounds > 4096) return;
      if (*count == 0) break;
    }
  }
  (void)(*decoder)->finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  std::size_t step = 1 + data[0] % 32;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (auto coding : {"gzip", "deflate", "br", "zstd"}) decode(coding, rest, step * 16);
  std::vector<std::string> texts;
  while (!rest.empty() && rest.front() != 0 && texts.size() < 16) {
    auto length = static_cast<unsigned char>(rest.front());
    texts.emplace_back(rest.substr(1, length));
    rest.remove_prefix(std::min<std::size_t>(rest.size(), 1u + length));
  }
  scan(texts, rest, step);
  return 0;
}
