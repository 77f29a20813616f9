// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/first_bytes.h"

#include <algorithm>

#include "http/syntax.h"

namespace atl::gateway {
namespace {

using async::Task;

enum class Guess { kYes, kNo, kNeedMore };

// A token, a blank, and at the line's end a version: nothing else begins so. Servers pass over empty lines
// before it.
Guess is_http(std::string_view bytes) {
  constexpr std::size_t kLongestMethod = 64;
  std::size_t start = bytes.find_first_not_of("\r\n\t ");
  if (start == std::string_view::npos) return Guess::kNeedMore;
  std::string_view text = bytes.substr(start);
  std::size_t blank = text.find(' ');
  std::string_view method = text.substr(0, blank);
  if (method.empty() || !http::is_token(method) || method.size() > kLongestMethod) return Guess::kNo;
  std::size_t end = text.find('\n');
  if (blank == std::string_view::npos || end == std::string_view::npos) return Guess::kNeedMore;
  std::string_view line = text.substr(0, end);
  std::size_t version = line.rfind(" HTTP/");
  return version != std::string_view::npos && version >= blank ? Guess::kYes : Guess::kNo;
}

// It began as something that needs more, and stopped, or grew beyond what that may be.
void give_up(FirstBytes& first) {
  if (first.bytes.empty()) return;
  if (first.bytes[0] == 0x16) {
    first.kind = policy::Stream::kTls;
    first.broken = "the ClientHello did not come whole";
  } else if (is_http(first.bytes) == Guess::kNeedMore) {
    first.kind = policy::Stream::kHttp;
    first.broken = "the request line did not come whole";
  }
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

Task<Result<FirstBytes>> read_first_bytes(net::Stream& stream, Steady::duration silence,
                                          Steady::duration slowest) {
  FirstBytes first;
  char buffer[4096];
  auto until = Steady::now() + silence + slowest;
  while (true) {
    auto left = std::max<Steady::duration>(until - Steady::now(), std::chrono::milliseconds(1));
    stream.set_idle_limit(first.bytes.empty() ? silence : left);
    auto got = co_await stream.read_some(buffer);
    if (!got && got.error().code() != Code::kDeadline) co_return std::move(got).error();
    if (!got || *got == 0) {
      first.ended = got.ok();
      give_up(first);
      co_return first;
    }
    first.bytes.append(buffer, *got);
    if (judge(first)) co_return first;
    if (first.bytes.size() >= kMaxRequestLine || Steady::now() >= until) {
      give_up(first);
      co_return first;
    }
  }
}

}  // namespace atl::gateway
