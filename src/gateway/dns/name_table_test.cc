// SPDX-License-Identifier: Apache-2.0
#include "gateway/dns/name_table.h"

#include <gtest/gtest.h>

#include <set>

#include "gateway/names/address_class.h"

namespace atl::gateway::dns {
namespace {

constexpr NameTable::Key kKey = {1, 2, 3};

std::string name(int number) { return fmt::format("n{}.example", number); }

TEST(NameTable, ANameKeepsItsAddress) {
  NameTable table(kKey);
  auto first = table.assign("acme", "a.example", "sandbox");
  EXPECT_TRUE(first.fresh);
  auto again = table.assign("acme", "a.example", "sandbox");
  EXPECT_FALSE(again.fresh);
  EXPECT_EQ(again.address, first.address);
  EXPECT_EQ(table.name_of("acme", first.address, "sandbox"), "a.example");
  EXPECT_FALSE(table.name_of("acme", IpAddress::v4({198, 18, 0, 1}), "sandbox"));
  EXPECT_FALSE(table.name_of("acme", IpAddress::v6({}), "sandbox"));
}

TEST(NameTable, TenantsKnowNothingOfEachOther) {
  NameTable table(kKey);
  auto address = table.assign("acme", "secret.example", "sandbox").address;
  EXPECT_FALSE(table.name_of("other", address, "sandbox"));
  EXPECT_NE(table.assign("other", "secret.example", "sandbox").address, address);
  EXPECT_EQ(table.size("acme"), 1u);
  table.forget("acme");
  EXPECT_FALSE(table.name_of("acme", address, "sandbox"));
  EXPECT_EQ(table.size("other"), 1u);
}

TEST(NameTable, AddressesAreSyntheticDistinctAndOutOfOrder) {
  NameTable table(kKey);
  std::set<IpAddress> seen;
  int rising = 0;
  IpAddress last;
  for (int i = 0; i < 5000; ++i) {
    auto address = table.assign("acme", name(i), std::to_string(i % 8)).address;
    ASSERT_TRUE(seen.insert(address).second) << address.text();
    ASSERT_EQ(classify(address), AddressClass::kBenchmark);
    ASSERT_TRUE(address.bytes()[3] != 0 && address.bytes()[3] != 255);
    ASSERT_GE(address, IpAddress::v4({198, 18, 1, 1}));
    rising += address > last ? 1 : 0;
    last = address;
  }
  EXPECT_GT(rising, 2000);
  EXPECT_LT(rising, 3000);
  EXPECT_NE(NameTable(NameTable::Key{9}).assign("acme", name(0), "sandbox").address,
            NameTable(kKey).assign("acme", name(0), "sandbox").address);
}

TEST(NameTable, TheLongestUnusedMakesRoom) {
  NameTable table(kKey, 3);
  auto assign = [&](std::string_view name) { return table.assign("acme", name, name); };  // one sandbox each
  auto a = assign("a.example").address;
  auto b = assign("b.example").address;
  auto c = assign("c.example").address;
  EXPECT_EQ(table.name_of("acme", a, "sandbox"), "a.example");  // used, so b is now the oldest
  auto d = assign("d.example");
  ASSERT_TRUE(d.dropped);
  EXPECT_EQ(*d.dropped, (NameRow{"acme", "b.example", b}));
  EXPECT_FALSE(table.name_of("acme", b, "sandbox"));
  EXPECT_EQ(table.name_of("acme", c, "sandbox"), "c.example");
  EXPECT_EQ(table.size("acme"), 3u);
  EXPECT_EQ(assign("b.example").address, b);  // back where it was
  EXPECT_FALSE(table.assign("other", "b.example", "sandbox").dropped);
}

TEST(NameTable, OneSandboxLosesItsOwnNamesAndNotThoseOfOthers) {
  NameTable table(kKey, 64);
  auto theirs = table.assign("acme", "theirs.example", "quiet").address;
  auto shared = table.assign("acme", "shared.example", "greedy").address;
  EXPECT_EQ(table.name_of("acme", shared, "quiet"), "shared.example");
  for (int i = 0; i < 1000; ++i) {
    auto made = table.assign("acme", name(i), "greedy");
    if (i >= 4) ASSERT_TRUE(made.dropped && made.dropped->name == name(i - 4)) << i;
  }
  EXPECT_EQ(table.size("acme"), 64 / NameTable::kSandboxPart + 2);
  EXPECT_EQ(table.name_of("acme", theirs, "quiet"), "theirs.example");
  EXPECT_EQ(table.name_of("acme", shared, "quiet"), "shared.example");
}

TEST(NameTable, OfItsOwnASandboxLosesTheLongestUnused) {
  NameTable table(kKey, 32);
  auto a = table.assign("acme", "a.example", "s").address;
  table.assign("acme", "b.example", "s");
  table.name_of("acme", a, "s");
  EXPECT_EQ(table.assign("acme", "c.example", "s").dropped->name, "b.example");
}

TEST(NameTable, RowsBringEverythingBack) {
  NameTable table(kKey, 1000);
  for (int i = 0; i < 50; ++i) table.assign(i % 2 ? "acme" : "other", name(i), "sandbox");
  table.assign("acme", name(1), "sandbox");
  NameTable copy(kKey, 1000);
  for (const NameRow& row : table.rows()) EXPECT_TRUE(copy.restore(row));
  for (int i = 0; i < 50; ++i)
    EXPECT_FALSE(copy.assign(i % 2 ? "acme" : "other", name(i), "sandbox").fresh) << i;
  NameTable again(kKey, 1000);
  for (const NameRow& row : table.rows()) again.restore(row);
  EXPECT_EQ(std::set<std::string>({again.rows().front().tenant}).size(), 1u);
  auto of = [](const NameTable& from) {
    std::vector<std::string> names;
    for (const NameRow& row : from.rows())
      if (row.tenant == "acme") names.push_back(row.name);
    return names;
  };
  EXPECT_EQ(of(again), of(table));  // and in the same order of use
}

TEST(NameTable, RowsThatCannotBeAreLeftOut) {
  NameTable table(kKey, 2);
  IpAddress good = IpAddress::v4({198, 18, 1, 1});
  EXPECT_TRUE(table.restore({"acme", "a.example", good}));
  EXPECT_FALSE(table.restore({"acme", "b.example", good}));
  EXPECT_FALSE(table.restore({"acme", "a.example", IpAddress::v4({198, 18, 1, 2})}));
  for (IpAddress address :
       {IpAddress::v4({198, 18, 0, 7}), IpAddress::v4({198, 17, 255, 254}), IpAddress::v4({198, 20, 0, 1}),
        IpAddress::v4({198, 18, 2, 0}), IpAddress::v4({198, 18, 2, 255}), parse_ip("::1").value()})
    EXPECT_FALSE(table.restore({"acme", "c.example", address})) << address.text();
  for (const char* wrong : {"", "C.example", "c.example.", "1.2.3.4", "c_d.example"})
    EXPECT_FALSE(table.restore({"acme", wrong, IpAddress::v4({198, 18, 1, 2})})) << wrong;
  EXPECT_FALSE(table.restore({"", "c.example", IpAddress::v4({198, 18, 1, 2})}));
  EXPECT_TRUE(table.restore({"acme", "c.example", IpAddress::v4({198, 18, 1, 2})}));
  EXPECT_FALSE(table.restore({"acme", "d.example", IpAddress::v4({198, 18, 1, 3})}));  // one too many
}

}  // namespace
}  // namespace atl::gateway::dns
