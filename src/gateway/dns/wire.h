// SPDX-License-Identifier: Apache-2.0
//
// DNS messages as far as the gateway speaks them: it reads one question, and writes at most one address (RFC
// 1035, 6891).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/names/ip_address.h"

namespace atl::gateway::dns {

// A name of 255 bytes and a good deal of options. Longer queries are not answered.
inline constexpr std::size_t kMaxQueryBytes = 1232;
// No answer of ours is longer: head, question, one address, OPT.
inline constexpr std::size_t kMaxAnswerBytes = 512;

enum class Rcode : std::uint8_t {
  kNoError = 0,
  kFormErr = 1,
  kServFail = 2,
  kNxDomain = 3,
  kNotImp = 4,
  kRefused = 5,
  kBadVersion = 16,  // of EDNS
};

inline constexpr std::uint16_t kTypeA = 1, kTypeAaaa = 28, kTypeHttps = 65, kTypeOpt = 41;

// A question that somebody asked.
struct Query {
  std::uint16_t id = 0;
  bool recursion_desired = false;
  bool checking_disabled = false;
  std::string question;  // its bytes, to be sent back as they are: some resolvers compare the case of letters
  std::optional<std::string>
      name;  // canonical; absent when it is no host name ("_dmarc.a.example", "1.2.3.4", the root)
  std::uint16_t type = 0;
  bool edns = false;
  std::uint16_t udp_bytes = 512;  // that the asker takes in one datagram
};

// What came in. `error` is set when the query can be answered with that only; then `query` holds what could
// be read.
struct Incoming {
  Query query;
  std::optional<Rcode> error;
};

// Reads one message. nullopt when it must not be answered at all: shorter than a head, too long, or an answer
// itself. Strict: one question of class IN, no other records but one OPT, no compression (a question has
// nothing to point to), nothing behind the end.
std::optional<Incoming> read_query(std::string_view message);

// What to say. An address is told to questions of type A only; other types of a name that exists get an empty
// answer.
struct Answer {
  Rcode rcode = Rcode::kNoError;
  std::optional<IpAddress> address;  // IPv4
  std::uint32_t ttl_seconds = 0;
  bool truncated = false;  // "ask again over TCP"
};

// The bytes of an answer, at most kMaxAnswerBytes.
std::string write_answer(const Query& query, const Answer& answer);

// Over TCP a message stands behind its length in two bytes.
std::string frame(std::string_view message);
// The first message in what was received so far, without its length, which is `kFrameHead` bytes; nullopt:
// not all there yet.
inline constexpr std::size_t kFrameHead = 2;
std::optional<std::string_view> first_framed(std::string_view received);

}  // namespace atl::gateway::dns
