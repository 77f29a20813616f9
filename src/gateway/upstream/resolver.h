// SPDX-License-Identifier: Apache-2.0
//
// Resolver: addresses of names, by the DNS servers that the host uses. What it gives is what the DNS says,
// not what may be dialled: that is checked afterwards, address by address.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "gateway/names/ip_address.h"

namespace atl::gateway {

using async::Task;

// Use from one loop.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // `name` is canonical (Host::name()). At least one address; IPv4 and IPv6 take turns, IPv4 first.
  // kNotFound, word "name_not_found", when the name does not exist or has no address; kDeadline or
  // kUnavailable, word "name_unresolved", when the servers do not tell. kExhausted, word "too_many_names",
  // when `asker`, whoever that is, has his share of questions under way.
  virtual Task<Result<std::vector<IpAddress>>> resolve(std::string name, std::string asker) = 0;
};

// Answers are kept as long as they say, within these bounds.
struct ResolverOptions {
  std::vector<std::string> servers;  // "127.0.0.1:53"; empty: those of resolv.conf
  bool hosts_file = true;
  Steady::duration least =
      std::chrono::seconds(5);  // keeps an answer of zero seconds from changing per request
  Steady::duration most = std::chrono::minutes(5);
  Steady::duration failure = std::chrono::seconds(2);  // how long a failure is an answer
  Steady::duration limit = std::chrono::seconds(5);    // of one question
};
inline constexpr std::size_t kMaxQuestions = 512;         // under way, of all
inline constexpr std::size_t kMaxQuestionsPerAsker = 64;  // and of one
inline constexpr std::size_t kMaxAddressesPerName = 16;   // more are left out

// On c-ares. Runs on the loop of `executor`, where it must also be destroyed. kInternal when it cannot start.
Result<std::shared_ptr<Resolver>> make_resolver(async::Executor executor, ResolverOptions options = {});

}  // namespace atl::gateway
