// SPDX-License-Identifier: Apache-2.0
//
// Multipart bodies: the parts are the same however the bytes arrive, and a part that comes out was in what
// went in.
#include "base/check.h"
#include "guest/limits.h"
#include "guest/multipart.h"

namespace {

using namespace atl::guest;

// Everything that the parser says, as one text.
std::string transcript(std::string_view body, std::size_t step) {
  MultipartParser parser("b");
  std::string out;
  while (!body.empty()) {
    parser.feed(body.substr(0, step));
    body.remove_prefix(std::min(step, body.size()));
    for (;;) {
      auto event = parser.next();
      if (!event.ok()) return out + "!";
      if (*event == MultipartParser::Event::kNeedMore || *event == MultipartParser::Event::kEnd) break;
      if (*event == MultipartParser::Event::kPart)
        out += "<" + parser.head().name + "|" + parser.head().filename.value_or("-") + ">";
      if (*event == MultipartParser::Event::kData) {
        CHECK(!parser.data().empty(), "empty data event");
        out += parser.data();
      }
      if (*event == MultipartParser::Event::kPartEnd) out += "</>";
    }
  }
  return out + (parser.ended() ? "." : "?");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  // The bounds on preamble and head are met earlier by large steps than by small ones, so only small inputs
  // compare.
  std::string whole = transcript(text, size + 1);
  if (size < kMaxPartHead) {
    CHECK(transcript(text, 1) == whole, "byte by byte it reads differently");
    CHECK(transcript(text, 7) == whole, "in sevens it reads differently");
  }
  auto boundary = multipart_boundary(text);
  CHECK(!boundary.ok() || (!boundary->empty() && boundary->size() <= kMaxBoundary), "boundary out of bounds");
  auto head = parse_part_head(text);
  CHECK(!head.ok() || head->name.size() <= size, "name longer than the input");
  return 0;
}
