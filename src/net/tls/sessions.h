// SPDX-License-Identifier: Apache-2.0
//
// TlsSessions: what peers gave us to resume a TLS session with, by host and by whose session it is.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "net/tls/openssl.h"

namespace atl::net {

using SessionPtr = std::unique_ptr<SSL_SESSION, OpensslFree<SSL_SESSION_free>>;

// Bounded in number and in age; the least recently added goes first. A session is handed out once, so that
// two connections cannot be told to be of one client by it (RFC 8446 §C.4).
class TlsSessions {
 public:
  static constexpr std::size_t kMaxSessions = 1024;
  static constexpr auto kMaxAge = std::chrono::hours(1);

  void put(const std::string& key, SessionPtr session, Steady::time_point now);
  SessionPtr take(const std::string& key, Steady::time_point now);
  std::size_t size() const { return sessions_.size(); }

  // Makes `ssl` put the sessions that it is given under `key`, as long as `sessions` exists.
  static void collect(SSL* ssl, const std::shared_ptr<TlsSessions>& sessions, std::string key);
  // Prepares a context, so that collect() works on its connections.
  static void enable(SSL_CTX* context);

 private:
  struct Entry {
    SessionPtr session;
    Steady::time_point since;
    std::list<std::string>::iterator order;
  };
  void erase(std::map<std::string, Entry>::iterator at);
  std::map<std::string, Entry> sessions_;
  std::list<std::string> order_;  // oldest first
};

}  // namespace atl::net
