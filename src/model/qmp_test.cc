// SPDX-License-Identifier: Apache-2.0
#include "model/qmp.h"

#include <gtest/gtest.h>

namespace atl::model {
namespace {

TEST(Qmp, SaysWhatALineIs) {
  auto greeting = parse_qmp(R"({"QMP": {"version": {"qemu": {"micro": 2}}, "capabilities": ["oob"]}})");
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->kind, QmpLine::Kind::kGreeting);
  auto done =
      parse_qmp(R"({"return": {"status": "completed", "ram": {"status": "other", "normal": -1.5e3}}})");
  ASSERT_TRUE(done);
  EXPECT_EQ(done->kind, QmpLine::Kind::kReturn);
  EXPECT_EQ(done->status, "completed");
  auto failed = parse_qmp(R"({"return":{"status":"failed","error-desc":"no \"room\""}})"
                          "\r");
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->reason, R"(no \"room\")");
  auto refused = parse_qmp(R"({"error": {"class": "GenericError", "desc": "no"}})");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, QmpLine::Kind::kError);
  EXPECT_EQ(refused->reason, "no");
  auto event = parse_qmp(R"({"timestamp": {"seconds": 1}, "event": "STOP", "data": [true, null, []]})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, QmpLine::Kind::kEvent);
}

TEST(Qmp, RefusesWhatIsNone) {
  for (std::string_view line :
       {"", "{}", "[]", "{\"return\"", "{\"return\":}", "{\"return\":{}}x", "{\"return\":{},\"error\":{}}",
        "{\"return\":{\"status\":\"x}}", "{\"return\":{\"a\":[1,}}"}) {
    EXPECT_FALSE(parse_qmp(line)) << line;
  }
  EXPECT_FALSE(parse_qmp("{\"return\":" + std::string(100, '[') + std::string(100, ']') + "}"));
  EXPECT_FALSE(parse_qmp("{\"return\":\"" + std::string(kMaxQmpLine, 'x') + "\"}"));
}

std::string head_of(std::uint64_t bytes, std::uint32_t version, std::uint64_t bitmap, std::uint64_t pages) {
  std::string out("QEVM\2m0", 7);
  auto add = [&out](std::uint64_t value, int size) {
    for (int i = size - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  };
  add(bytes, 8);
  add(version, 4);
  add(4096, 8);
  add(bitmap, 8);
  add(pages, 8);
  return out;
}

TEST(MappedRam, IsFoundByItsBlock) {
  auto found = find_mapped_ram(head_of(256 << 20, 1, 0x83, 1 << 20), "m0");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bitmap_offset, 0x83u);
  EXPECT_EQ(found->bitmap_bytes, 8192u);
  EXPECT_EQ(found->pages_offset, 1u << 20);
  EXPECT_EQ(found->pages_bytes, 256u << 20);
  EXPECT_FALSE(find_mapped_ram(head_of(256 << 20, 1, 0x83, 1 << 20), "m1"));
  EXPECT_FALSE(find_mapped_ram(head_of(256 << 20, 2, 0x83, 1 << 20), "m0"));
  EXPECT_FALSE(find_mapped_ram(head_of(256 << 20, 1, 0x83, 4097), "m0"));
  EXPECT_FALSE(find_mapped_ram(head_of(256 << 20, 1, 0x83, 4096), "m0")) << "the bits lie in the pages";
  EXPECT_FALSE(find_mapped_ram(head_of(~0ull << 12, 1, 0x83, 1 << 20), "m0"));
  EXPECT_FALSE(find_mapped_ram(head_of(256 << 20, 1, 0x83, 1 << 20).substr(0, 30), "m0"));
}

}  // namespace
}  // namespace atl::model
