// SPDX-License-Identifier: Apache-2.0
//
// bench_list --port N --key K --rows N
//
// Every page of the list, and single pages one after the other, with many rows in the store.
#include <cstdio>

#include "client.h"

namespace {

std::size_t rows_in(const std::string& body) {
  std::size_t rows = 0;
  for (std::size_t at = body.find("\"sandboxID\""); at != std::string::npos;
       at = body.find("\"sandboxID\"", at + 1))
    ++rows;
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  bench::Client client(options.number("port", 0), options.text("key"));
  bench::Samples page;
  for (int i = 0; i < 500; ++i) {
    auto start = bench::Clock::now();
    if (client.get("/v2/sandboxes?limit=100").status != 200) bench::fail("list failed");
    page.add(bench::Clock::now() - start);
  }
  std::size_t rows = 0;
  auto start = bench::Clock::now();
  for (std::string token;;) {
    bench::Response response =
        client.get("/v2/sandboxes?limit=100" + (token.empty() ? "" : "&nextToken=" + token));
    if (response.status != 200) bench::fail("list: " + response.body);
    rows += rows_in(response.body);
    token = bench::header(response.head, "x-next-token");
    if (token.empty()) break;
  }
  double whole = bench::seconds_since(start);
  if (rows < static_cast<std::size_t>(options.number("rows", 0)))
    bench::fail("only " + std::to_string(rows) + " rows");
  std::printf("{\"figure\":\"list, first page of 100\",%s,\"rows\":%zu,\"all_pages_s\":%.3f}\n",
              page.json().c_str(), rows, whole);
  return 0;
}
