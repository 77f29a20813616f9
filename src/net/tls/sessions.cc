// SPDX-License-Identifier: Apache-2.0
#include "net/tls/sessions.h"

#include "base/check.h"

namespace atl::net {
namespace {
// Hangs on an SSL and goes with it.
struct Collector {
  std::weak_ptr<TlsSessions> sessions;
  std::string key;
};

void free_collector(void*, void* pointer, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Collector*>(pointer);
}

int collector_index() {
  static const int kIndex = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, free_collector);
  CHECK(kIndex >= 0, "out of memory");
  return kIndex;
}

// A copy is kept, since OpenSSL marks the session of a connection that is dropped without a farewell as
// unusable.
int on_new_session(SSL* ssl, SSL_SESSION* session) {
  auto* collector = static_cast<Collector*>(SSL_get_ex_data(ssl, collector_index()));
  auto sessions = collector != nullptr ? collector->sessions.lock() : nullptr;
  if (!sessions) return 0;
  if (SessionPtr copy(SSL_SESSION_dup(session)); copy)
    sessions->put(collector->key, std::move(copy), Steady::now());
  return 0;  // the reference stays OpenSSL's
}
}  // namespace

void TlsSessions::enable(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, on_new_session);
}

void TlsSessions::collect(SSL* ssl, const std::shared_ptr<TlsSessions>& sessions, std::string key) {
  auto collector = std::make_unique<Collector>(Collector{sessions, std::move(key)});
  if (SSL_set_ex_data(ssl, collector_index(), collector.get()) == 1) (void)collector.release();
}

void TlsSessions::erase(std::map<std::string, Entry>::iterator at) {
  order_.erase(at->second.order);
  sessions_.erase(at);
}

void TlsSessions::put(const std::string& key, SessionPtr session, Steady::time_point now) {
  if (auto old = sessions_.find(key); old != sessions_.end()) erase(old);
  while (sessions_.size() >= kMaxSessions) erase(sessions_.find(order_.front()));
  auto order = order_.insert(order_.end(), key);
  sessions_.emplace(key, Entry{std::move(session), now, order});
}

SessionPtr TlsSessions::take(const std::string& key, Steady::time_point now) {
  auto found = sessions_.find(key);
  if (found == sessions_.end()) return nullptr;
  auto session = now - found->second.since < kMaxAge ? std::move(found->second.session) : nullptr;
  erase(found);
  return session;
}

}  // namespace atl::net
