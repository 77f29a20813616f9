// SPDX-License-Identifier: Apache-2.0
// judged as src/model/sample_test.cc
// good
TEST(A, B) { EXPECT_TRUE(wait_for_end(fd, kLimit)); }
// bad banned
TEST(A, B) { std::this_thread::sleep_for(std::chrono::seconds(1)); }
// bad banned
TEST(A, B) { ::usleep(10); }
