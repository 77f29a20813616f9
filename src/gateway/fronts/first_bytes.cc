// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/first_bytes.h"

#include <algorithm>

namespace atl::gateway {
namespace {

using async::Task;

enum class Guess { kYes, kNo, kNeedMore };

// A method of upper-case letters, a blank, and at the line's end a version: nothing else begins so.
Guess is_http(std::string_view bytes) {
  constexpr std::size_t kLongestMethod = 20;
  std::size_t letters = 0;
  while (letters < bytes.size() && bytes[letters] >= 'A' && bytes[letters] <= 'Z') ++letters;
  if (letters > kLongestMethod) return Guess::kNo;
  if (letters == bytes.size()) return Guess::kNeedMore;
  if (letters == 0 || bytes[letters] != ' ') return Guess::kNo;
  std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return bytes.size() < kMaxRequestLine ? Guess::kNeedMore : Guess::kNo;
  std::string_view line = bytes.substr(0, end);
  std::size_t version = line.rfind(" HTTP/");
  return version != std::string_view::npos && version > letters ? Guess::kYes : Guess::kNo;
}

// True when nothing more need be read.
bool judge(FirstBytes& first) {
  HelloResult tls = read_client_hello(first.bytes);
  if (tls.state == HelloState::kParsed || tls.state == HelloState::kBroken) {
    first.kind = policy::Stream::kTls;
    first.hello = std::move(tls.hello);
    first.broken = tls.reason;
    return true;
  }
  if (tls.state == HelloState::kNeedMore) return false;
  Guess http = is_http(first.bytes);
  if (http == Guess::kYes) first.kind = policy::Stream::kHttp;
  return http != Guess::kNeedMore;
}

}  // namespace

Task<Result<FirstBytes>> read_first_bytes(net::Stream& stream) {
  FirstBytes first;
  char buffer[4096];
  auto until = Steady::now() + kSlowest;
  while (true) {
    stream.set_idle_limit(first.bytes.empty() ? Steady::duration(kSilence) : until - Steady::now());
    auto got = co_await stream.read_some(buffer);
    if (!got && got.error().code() != Code::kDeadline) co_return std::move(got).error();
    if (!got || *got == 0) {
      first.ended = got.ok();
      // It began as something that needs more, and stopped.
      bool tls = !first.bytes.empty() && first.bytes[0] == 0x16;
      if (tls) {
        first.kind = policy::Stream::kTls;
        first.broken = "the ClientHello did not come whole";
      }
      co_return first;
    }
    first.bytes.append(buffer, *got);
    if (judge(first)) co_return first;
    if (Steady::now() >= until) until = Steady::now() + std::chrono::milliseconds(1);
  }
}

}  // namespace atl::gateway
