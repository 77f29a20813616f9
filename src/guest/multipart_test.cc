// SPDX-License-Identifier: Apache-2.0
#include "guest/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "guest/limits.h"

namespace atl::guest {
namespace {

struct Part {
  PartHead head;
  std::string body;
  bool complete = false;
};

struct Outcome {
  std::vector<Part> parts;
  bool ended = false;
  std::string error;
};

// Parses `text` in pieces of `step` bytes.
Outcome parse(std::string_view text, std::size_t step, std::string boundary = "b") {
  MultipartParser parser(std::move(boundary));
  Outcome out;
  while (!text.empty()) {
    parser.feed(text.substr(0, step));
    text.remove_prefix(std::min(step, text.size()));
    for (;;) {
      auto event = parser.next();
      if (!event.ok()) {
        out.error = event.error().message();
        return out;
      }
      if (*event == MultipartParser::Event::kNeedMore || *event == MultipartParser::Event::kEnd) break;
      if (*event == MultipartParser::Event::kPart) out.parts.push_back({parser.head(), {}});
      if (*event == MultipartParser::Event::kData) out.parts.back().body += parser.data();
      if (*event == MultipartParser::Event::kPartEnd) out.parts.back().complete = true;
    }
  }
  out.ended = parser.ended();
  return out;
}

constexpr std::string_view kTwo =
    "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/x/\xc3\xbc "
    "%22q%22.txt\"\r\n"
    "Content-Type: text/plain\r\n\r\nline\r\n--not\r\n\r\r\n--b\r\n"
    "content-disposition: form-data; name=file; filename=\"b\\\\c\"\r\n\r\n\r\n--b--\r\nepilogue";

TEST(Multipart, GivesTheSamePartsHoweverTheBytesArrive) {
  for (std::size_t step = 1; step <= kTwo.size(); ++step) {
    Outcome out = parse(kTwo, step);
    ASSERT_EQ(out.error, "") << step;
    ASSERT_EQ(out.parts.size(), 2u) << step;
    EXPECT_EQ(out.parts[0].head.filename, "/x/\xc3\xbc \"q\".txt");
    EXPECT_EQ(out.parts[0].body, "line\r\n--not\r\n\r") << step;
    EXPECT_EQ(out.parts[1].head.filename, "b\\c");
    EXPECT_EQ(out.parts[1].body, "") << step;
    EXPECT_TRUE(out.parts[1].complete);
    EXPECT_TRUE(out.ended);
  }
}

TEST(Multipart, CutAtEachByteIsNeverComplete) {
  std::size_t end = kTwo.find("--b--") + 5;
  for (std::size_t size = 0; size < end; ++size) EXPECT_FALSE(parse(kTwo.substr(0, size), 7).ended) << size;
}

TEST(Multipart, APartNeedsNoFilename) {
  Outcome out = parse("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ntext\r\n--b--", 100);
  ASSERT_EQ(out.parts.size(), 1u);
  EXPECT_EQ(out.parts[0].head.filename, std::nullopt);
  EXPECT_EQ(out.parts[0].body, "text");
}

TEST(Multipart, PercentSignsOtherThanThreeStayAsTheyAre) {
  auto head = parse_part_head("Content-Disposition: form-data; name=\"file\"; filename=\"50%25%0a%2f\"");
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->filename, "50%25\n%2f");
}

TEST(Multipart, RefusesHeadersThatCouldMeanTwoThings) {
  for (const char* bad :
       {"Content-Disposition: form-data; name=\"a\"; filename=\"x\"; filename=\"y\"",
        "Content-Disposition: form-data; name=\"a\"; filename*=utf-8''x",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"b\"",
        "Content-Disposition: form-data; filename=\"x\"", "Content-Disposition: attachment; name=\"a\"",
        "Content-Disposition: form-data; name=\"a", "Content-Disposition form-data", " folded: x",
        "Content-Disposition: form-data; name=\"a\"\nX: y", "X: y", ""})
    EXPECT_FALSE(parse_part_head(bad).ok()) << bad;
}

TEST(Multipart, BoundsEverything) {
  std::string head = "Content-Disposition: form-data; name=\"file\"\r\n";
  EXPECT_NE(parse("--b\r\n" + head + "X: " + std::string(kMaxPartHead, 'x'), 4096).error, "");
  std::string many = "--b\r\n" + head;
  for (std::size_t i = 0; i < kMaxPartHeaders; ++i) many += "X: y\r\n";
  EXPECT_NE(parse(many + "\r\n", 4096).error, "");
  EXPECT_NE(parse(std::string(kMaxPartHead + 10, 'p'), 4096).error, "");
  std::string parts;
  for (std::size_t i = 0; i <= kMaxParts; ++i) parts += "--b\r\n" + head + "\r\n\r\n";
  EXPECT_NE(parse(parts, 64 * 1024).error, "");
  EXPECT_NE(parse("--b" + std::string(kMaxBoundary + 1, ' ') + "\r\n", 4096).error, "");
  EXPECT_NE(parse("--bx\r\n", 4096).error, "");
}

TEST(Multipart, ReadsTheBoundary) {
  EXPECT_EQ(*multipart_boundary("multipart/form-data; boundary=----x"), "----x");
  EXPECT_EQ(*multipart_boundary("Multipart/Form-Data; charset=utf-8; boundary=\"a b\""), "a b");
  for (const char* bad : {"multipart/form-data", "multipart/mixed; boundary=x",
                          "multipart/form-data; boundary=", "multipart/form-data; boundary=\"x \"",
                          "multipart/form-data; boundary=a; boundary=b",
                          "multipart/form-data; boundary=\"\x01\"", "text/plain"})
    EXPECT_FALSE(multipart_boundary(bad).ok()) << bad;
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(300, 'x')).ok());
}

}  // namespace
}  // namespace atl::guest
