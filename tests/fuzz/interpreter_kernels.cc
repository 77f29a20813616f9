// SPDX-License-Identifier: Apache-2.0
//
// What a kernel of the code interpreter sends: ZeroMQ's frames, and Jupyter's messages in them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guest/interpreter/jupyter.h"
#include "guest/interpreter/lines.h"
#include "guest/interpreter/zmtp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace atl::guest::interpreter;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  zmtp::Reader reader(4096);
  std::size_t step = size == 0 ? 1 : 1 + data[0] % 64;
  Utf8Pieces pieces;
  for (std::size_t at = 0; at < input.size(); at += step) {
    output_line("stdout", pieces.take(input.substr(at, step)));
    reader.feed(input.substr(at, step));
    for (;;) {
      auto message = reader.next();
      if (!message.ok()) return 0;
      if (!*message) break;
      std::size_t bytes = 0;
      for (const std::string& part : (*message)->parts) bytes += part.size();
      if (bytes > 4096) std::abort();
      auto heard = jupyter::parse_heard(std::move(**message));
      if (heard.ok()) result_line(heard->content, false);
    }
  }
  return 0;
}
