// SPDX-License-Identifier: Apache-2.0
//
// The first message of a TLS client, read without answering it: whom it is for, and what it offers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::gateway {

// All bytes up to the end of the ClientHello, record headers too. With post-quantum key shares it is some 2
// KiB.
inline constexpr std::size_t kMaxHelloBytes = 16 * 1024;

// What a client offers.
struct ClientHello {
  std::optional<std::string> sni;       // canonical: lower case, no trailing dot; absent when none was sent
  std::vector<std::string> alpn;        // in the client's order
  std::vector<std::uint16_t> versions;  // 0x0304 is TLS 1.3; placeholders of RFC 8701 are left out
  // An encrypted_client_hello is there. Browsers send one always, mostly filled with noise, so that nobody
  // can tell whether the name in `sni` is the real one. Whoever passes such a stream on trusts the server
  // behind `sni`.
  bool ech = false;
};

// How far reading came.
enum class HelloState : std::uint8_t {
  kNeedMore,  // all fine so far
  kNotTls,    // this is something else
  kParsed,
  kBroken,  // TLS, and wrong, or larger than kMaxHelloBytes: to be refused
};

// What reading found.
struct HelloResult {
  HelloState state = HelloState::kNeedMore;
  ClientHello hello;        // when kParsed
  std::string_view reason;  // when kBroken, a constant sentence
};

// Reads everything received so far, from the first byte of the connection on; call it again with more when it
// says kNeedMore. The message may be cut into records anywhere. Strict: it is the only message of its last
// record, no extension comes twice, and the server name is one DNS name of letters, digits, hyphens and dots.
// What follows the record of the hello (early data) is not looked at. The work of a call is bounded by
// kMaxHelloBytes.
HelloResult read_client_hello(std::string_view received);

}  // namespace atl::gateway
