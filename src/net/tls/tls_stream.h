// SPDX-License-Identifier: Apache-2.0
//
// TlsStream: Stream inside TLS on top of another Stream.
#pragma once

#include "async/event.h"
#include "net/stream.h"
#include "net/tls/openssl.h"

namespace atl::net {

class TlsStream final : public Stream {
 public:
  // `ssl` is set to its role already; `prefix` holds bytes already read from `inner`.
  TlsStream(async::Executor executor, StreamPtr inner, SslPtr ssl, std::string_view prefix);

  Task<Result<void>> handshake(Steady::duration limit);
  std::string protocol() const;  // what ALPN agreed on, empty when nothing
  long verify_result() const { return SSL_get_verify_result(ssl_.get()); }  // X509_V_OK or why not
  bool resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

  Task<Result<std::size_t>> read_some(std::span<char> out) override;
  Task<Result<void>> wait_readable() override;
  Task<Result<void>> write_all(std::string_view data) override;
  Task<Result<void>> write_all(std::string_view first, std::string_view second) override;
  Task<Result<void>> write_all(std::string_view first, std::string_view second,
                               std::string_view third) override;
  Task<Result<void>> shutdown_write() override;
  void close(Close how) override { inner_->close(how); }
  void set_idle_limit(Steady::duration limit) override { inner_->set_idle_limit(limit); }
  Task<> wait_closed() override;
  Task<bool> refused(Steady::duration limit) override { return inner_->refused(limit); }
  bool quiet() const override;
  std::string peer() const override { return inner_->peer(); }
  // Memory of the buffers for encrypted bytes, without OpenSSL's own. None while the connection waits.
  std::size_t buffered() const;

 private:
  static int bio_read(BIO* bio, char* out, int size);
  static int bio_write(BIO* bio, const char* data, int size);
  static long bio_control(BIO* bio, int command, long number, void* pointer);
  static BIO_METHOD* bio_method();

  void make_receive_buffer(std::size_t capacity);
  // By how much the last read brought, how much the next one asks for.
  void choose_step();

  // Fetches encrypted bytes from the peer; false when it has finished.
  Task<Result<bool>> receive();
  // Sends what OpenSSL has produced.
  Task<Result<void>> flush();
  void drop_large_buffers();
  // A connection that waits holds no buffers, but for bytes that are in them.
  void rest();
  Result<void> encrypt(std::string_view data);
  Error failure(std::string_view what) const;

  StreamPtr inner_;
  SslPtr ssl_;
  // Encrypted bytes: [used_, filled_) is received and not yet decrypted.
  std::unique_ptr<char[]> received_;
  std::size_t capacity_ = 0;
  std::size_t step_;  // what the next read asks for
  std::size_t used_ = 0;
  std::size_t filled_ = 0;
  std::string outgoing_;    // encrypted, not yet sent
  std::string on_its_way_;  // what flush() is sending
  bool sending_ = false;
  bool receiving_ = false;
  async::Event sent_;
};

}  // namespace atl::net
