// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/text.h"
#include "net/socket.h"
#include "net/tcp.h"

namespace atl::net {

Result<Endpoint> parse_endpoint(std::string_view text, AnyPort any) {
  auto bad = [&](std::string_view why) {
    return make_error(Code::kInvalid,
                      "'{}' is not an address with a port ({}); write 127.0.0.1:80 or [::1]:80",
                      printable(text), why);
  };
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  auto host = text.substr(0, colon);
  auto digits = text.substr(colon + 1);
  bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);

  Endpoint out{.address = std::string(host)};
  auto address = to_socket_address(out);
  if (!address.ok() || out.address.find('\0') != std::string::npos) return bad("no numeric address");
  if (bracketed != (address->storage.ss_family == AF_INET6)) return bad("IPv6 needs brackets, IPv4 none");
  auto port = parse_number<std::uint16_t>(digits);
  if (!port || (digits.size() > 1 && digits.front() == '0')) return bad("port is not 1 to 65535");
  if (*port == 0 && any == AnyPort::kNo) return bad("port is not 1 to 65535");
  out.port = *port;
  return out;
}

bool is_loopback(const Endpoint& endpoint) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, endpoint.address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, endpoint.address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace atl::net
