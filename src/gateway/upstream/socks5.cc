// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/socks5.h"

#include <array>

namespace atl::gateway {
namespace {
constexpr char kVersion = 5;
constexpr char kLoginVersion = 1;
constexpr char kNoLogin = 0, kLogin = 2;
constexpr char kConnect = 1;
constexpr char kIpv4 = 1, kName = 3, kIpv6 = 4;
constexpr std::size_t kMaxText = 255;

Error failed(std::string_view what) {
  return make_error(Code::kUnavailable, "the egress proxy {}", what).with_word("proxy_failed");
}

Task<Result<void>> read_exactly(net::Stream& stream, std::span<char> out) {
  while (!out.empty()) {
    CO_TRY(std::size_t count, co_await stream.read_some(out));
    if (count == 0) co_return failed("closed the connection");
    out = out.subspan(count);
  }
  co_return success();
}

std::string_view reason(char code) {
  switch (code) {
    case 1: return "general failure";
    case 2: return "not allowed by its rules";
    case 3: return "network unreachable";
    case 4: return "host unreachable";
    case 5: return "connection refused";
    case 6: return "time to live expired";
    case 7: return "command not supported";
    case 8: return "kind of address not supported";
    default: return "unknown reason";
  }
}

Task<Result<void>> log_in(net::Stream& stream, const Proxy& proxy) {
  std::string hello{kVersion, 1, proxy.user.empty() ? kNoLogin : kLogin};
  CO_TRY_VOID(co_await stream.write_all(hello));
  std::array<char, 2> choice{};
  CO_TRY_VOID(co_await read_exactly(stream, choice));
  if (choice[0] != kVersion) co_return failed("does not speak SOCKS5");
  if (choice[1] != hello[2]) co_return failed("offers no way to log in that we have");
  if (proxy.user.empty()) co_return success();
  std::string login{kLoginVersion, static_cast<char>(proxy.user.size())};
  login += proxy.user;
  login += static_cast<char>(proxy.password.reveal().size());
  // A Secret of its own, so that the copy is wiped.
  Secret whole(login + proxy.password.reveal());
  CO_TRY_VOID(co_await stream.write_all(whole.reveal()));
  std::array<char, 2> verdict{};
  CO_TRY_VOID(co_await read_exactly(stream, verdict));
  if (verdict[0] != kLoginVersion || verdict[1] != 0)
    co_return failed("does not accept the user and password");
  co_return success();
}

std::string connect_request(const Authority& target) {
  std::string out{kVersion, kConnect, 0};
  if (target.host.is_address()) {
    const auto& address = target.host.address();
    out += address.is_v4() ? kIpv4 : kIpv6;
    out.append(reinterpret_cast<const char*>(address.bytes().data()), address.is_v4() ? 4 : 16);
  } else {
    out += kName;
    out += static_cast<char>(target.host.name().size());
    out += target.host.name();
  }
  out += static_cast<char>(target.port >> 8);
  out += static_cast<char>(target.port & 0xff);
  return out;
}
}  // namespace

Result<void> check_proxy(const Proxy& proxy) {
  if (proxy.user.size() <= kMaxText && proxy.password.reveal().size() <= kMaxText) return success();
  return make_error(Code::kInvalid, "user and password of an egress proxy may have 255 bytes each");
}

Task<Result<void>> socks5_connect(net::Stream& stream, const Proxy& proxy, Authority target) {
  CO_TRY_VOID(check_proxy(proxy));
  CO_TRY_VOID(co_await log_in(stream, proxy));
  auto request = connect_request(target);
  CO_TRY_VOID(co_await stream.write_all(request));
  std::array<char, 4> head{};
  CO_TRY_VOID(co_await read_exactly(stream, head));
  if (head[0] != kVersion) co_return failed("does not speak SOCKS5");
  if (head[1] != 0) {
    co_return make_error(Code::kUnavailable, "the egress proxy did not connect to {}: {}", target.text(),
                         reason(head[1]))
        .with_word("proxy_refused");
  }
  // The address that the proxy has bound, which says nothing to us.
  std::size_t size = 0;
  if (head[3] == kIpv4) size = 4;
  if (head[3] == kIpv6) size = 16;
  if (head[3] == kName) {
    std::array<char, 1> length{};
    CO_TRY_VOID(co_await read_exactly(stream, length));
    size = static_cast<unsigned char>(length[0]);
  }
  if (size == 0) co_return failed("sent an answer that is none");
  std::string rest(size + 2, '\0');
  co_return co_await read_exactly(stream, rest);
}

}  // namespace atl::gateway
