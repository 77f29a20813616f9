// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/secret_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

Result<Secret> read(const std::string& text) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  sys::Fd out(ends[0]), in(ends[1]);
  EXPECT_TRUE(sys::write_all(in.get(), text).ok());
  in.reset();
  return read_secret_from(out.get());
}

TEST(SecretInput, TakesOneLineBreakOffItsEndAndNothingElse) {
  EXPECT_EQ(read("value")->reveal(), "value");
  EXPECT_EQ(read("value\n")->reveal(), "value");
  EXPECT_EQ(read("value\r\n")->reveal(), "value");
  EXPECT_EQ(read(" two\nlines\n\n")->reveal(), " two\nlines\n");
}

TEST(SecretInput, AnEmptyOneIsRefusedWithAHint) {
  for (auto text : {"", "\n"}) {
    auto value = read(text);
    ASSERT_FALSE(value.ok());
    EXPECT_NE(value.error().hint().find("<"), std::string::npos);
  }
}

}  // namespace
}  // namespace atl::cli
