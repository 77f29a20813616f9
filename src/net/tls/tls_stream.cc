// SPDX-License-Identifier: Apache-2.0
#include "net/tls/tls_stream.h"

#include <openssl/err.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/memory.h"

namespace atl::net {
namespace {
// An idle connection waits with a small buffer; one that fills it gets a large one.
constexpr std::size_t kSmallReceive = 4 * 1024;
constexpr std::size_t kLargeReceive = 64 * 1024;
// Plain bytes encrypted before they are sent; bounds the memory of a large write.
constexpr std::size_t kWriteStep = 128 * 1024;
// Parts smaller than this in sum are put into one record.
constexpr std::size_t kOneRecord = 16 * 1024;

struct Marked {
  explicit Marked(bool& f) : flag(f) { flag = true; }
  ~Marked() { flag = false; }
  Marked(const Marked&) = delete;
  Marked& operator=(const Marked&) = delete;
  bool& flag;
};

struct Sending {
  bool& flag;
  async::Event& event;
  ~Sending() {
    flag = false;
    event.notify_all();
  }
};
}  // namespace

int TlsStream::bio_read(BIO* bio, char* out, int size) {
  auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  auto count = std::min(static_cast<std::size_t>(size), self.filled_ - self.used_);
  if (count == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  std::memcpy(out, self.received_.get() + self.used_, count);
  self.used_ += count;
  return static_cast<int>(count);
}

int TlsStream::bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  static_cast<TlsStream*>(BIO_get_data(bio))->outgoing_.append(data, static_cast<std::size_t>(size));
  return size;
}

long TlsStream::bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* TlsStream::bio_method() {
  static BIO_METHOD* const kMethod = [] {
    auto* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "atoll stream");
    CHECK(method != nullptr, "out of memory");
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
  }();
  return kMethod;
}

TlsStream::TlsStream(async::Executor executor, StreamPtr inner, SslPtr ssl, std::string_view prefix)
    : inner_(std::move(inner)), ssl_(std::move(ssl)), step_(kSmallReceive), sent_(std::move(executor)) {
  make_receive_buffer(std::max(prefix.size(), kSmallReceive));
  filled_ = prefix.copy(received_.get(), prefix.size());
  BIO* bio = BIO_new(bio_method());
  CHECK(bio != nullptr, "out of memory");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
}

Error TlsStream::failure(std::string_view what) const {
  return openssl_error(Code::kUnavailable, fmt::format("{} {}", what, inner_->peer()));
}

void TlsStream::make_receive_buffer(std::size_t capacity) {
  if (capacity_ == capacity) return;
  received_ = std::make_unique_for_overwrite<char[]>(capacity);
  capacity_ = capacity;
}

void TlsStream::choose_step() {
  if (capacity_ == 0) return;  // the memory was given back, and this was done then
  if (filled_ == capacity_) {
    step_ = kLargeReceive;
  } else if (filled_ < kSmallReceive) {
    step_ = kSmallReceive;
  }
}

Task<Result<bool>> TlsStream::receive() {
  CHECK(used_ == filled_, "encrypted bytes left over");
  choose_step();
  make_receive_buffer(step_);
  used_ = filled_ = 0;
  if (!sending_ && outgoing_.empty()) drop_large_buffers();
  Marked receiving(receiving_);
  CO_TRY(std::size_t count, co_await inner_->read_some(std::span(received_.get(), capacity_)));
  filled_ = count;
  co_return count > 0;
}

void TlsStream::drop_large_buffers() {
  if (outgoing_.capacity() > kOneRecord) free_text(outgoing_);
  if (on_its_way_.capacity() > kOneRecord) free_text(on_its_way_);
}

void TlsStream::rest() {
  if (used_ == filled_ && !receiving_) {
    choose_step();
    received_.reset();
    capacity_ = used_ = filled_ = 0;
  }
  if (!sending_ && outgoing_.empty()) {
    free_text(outgoing_);
    free_text(on_its_way_);
  }
  // A ticket that arrives makes OpenSSL get its buffer for writing, 16 KiB, which it keeps until the next
  // write. Not in the middle of a record: before 3.0.14 it forgets the head that it has read (CVE-2024-4741).
  bool between = std::string_view(SSL_rstate_string(ssl_.get())) == "RH" && SSL_has_pending(ssl_.get()) == 0;
  if (between) SSL_free_buffers(ssl_.get());
}

std::size_t TlsStream::buffered() const { return capacity_ + outgoing_.capacity() + on_its_way_.capacity(); }

Task<Result<void>> TlsStream::flush() {
  while (sending_) co_await sent_.wait();
  if (outgoing_.empty()) co_return success();
  sending_ = true;
  Sending guard{sending_, sent_};
  // Two buffers take turns, so that a long transfer does not allocate for each of its parts.
  std::swap(outgoing_, on_its_way_);
  auto sent = co_await inner_->write_all(on_its_way_);
  on_its_way_.clear();
  co_return sent;
}

Task<Result<void>> TlsStream::handshake(Steady::duration limit) {
  auto deadline = Steady::now() + limit;
  for (;;) {
    ERR_clear_error();
    int done = SSL_do_handshake(ssl_.get());
    int error = SSL_get_error(ssl_.get(), done);
    auto left = deadline - Steady::now();
    if (left <= Steady::duration::zero())
      co_return make_error(Code::kDeadline, "TLS handshake with {} took too long", peer());
    inner_->set_idle_limit(left);
    std::optional<Error> failed;
    if (done != 1 && error != SSL_ERROR_WANT_READ) failed = failure("TLS handshake with");
    auto flushed = co_await flush();  // also the alert that tells the peer why it failed
    if (failed) co_return *std::move(failed);
    if (!flushed.ok()) co_return flushed;
    if (done == 1) co_return success();
    CO_TRY(bool more, co_await receive());
    if (!more) co_return make_error(Code::kUnavailable, "TLS handshake: {} closed the connection", peer());
  }
}

std::string TlsStream::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

Task<Result<std::size_t>> TlsStream::read_some(std::span<char> out) {
  CHECK(!out.empty(), "read into an empty buffer");
  std::size_t total = 0;
  for (;;) {
    ERR_clear_error();
    std::size_t count = 0;
    int ok = SSL_read_ex(ssl_.get(), out.data() + total, out.size() - total, &count);
    total += count;
    if (ok == 1 && total < out.size() && used_ < filled_) continue;  // more records are here already
    int error = ok == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), ok);
    if (total == 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_ZERO_RETURN)
      co_return failure("read from");
    if (!outgoing_.empty()) CO_TRY_VOID(co_await flush());
    if (total > 0 || error == SSL_ERROR_ZERO_RETURN) co_return total;
    CO_TRY(bool more, co_await receive());
    // Without the closing alert, an end could have been forged by anybody on the path.
    if (!more)
      co_return make_error(Code::kUnavailable, "{} closed the connection without ending TLS", peer());
  }
}

Task<Result<void>> TlsStream::wait_readable() {
  if (used_ < filled_ || SSL_pending(ssl_.get()) > 0) co_return success();
  rest();
  co_return co_await inner_->wait_readable();
}

Task<> TlsStream::wait_closed() {
  rest();
  return inner_->wait_closed();
}

Result<void> TlsStream::encrypt(std::string_view data) {
  if (data.empty()) return success();
  ERR_clear_error();
  std::size_t count = 0;
  if (SSL_write_ex(ssl_.get(), data.data(), data.size(), &count) != 1) return failure("write to");
  return success();
}

Task<Result<void>> TlsStream::write_all(std::string_view data) {
  while (!data.empty()) {
    auto step = data.substr(0, kWriteStep);
    data.remove_prefix(step.size());
    CO_TRY_VOID(encrypt(step));
    CO_TRY_VOID(co_await flush());
  }
  co_return success();
}

Task<Result<void>> TlsStream::write_all(std::string_view first, std::string_view second) {
  return write_all(first, second, "");
}

Task<Result<void>> TlsStream::write_all(std::string_view first, std::string_view second,
                                        std::string_view third) {
  if (first.size() + second.size() + third.size() <= kOneRecord) {
    std::string record;
    record.reserve(first.size() + second.size() + third.size());
    record.append(first).append(second).append(third);
    co_return co_await write_all(record);
  }
  // The small parts wait in the outgoing buffer for the large one.
  CO_TRY_VOID(encrypt(first));
  while (second.size() > kWriteStep) {
    CO_TRY_VOID(encrypt(second.substr(0, kWriteStep)));
    second.remove_prefix(kWriteStep);
    CO_TRY_VOID(co_await flush());
  }
  CO_TRY_VOID(encrypt(second));
  CO_TRY_VOID(encrypt(third));
  co_return co_await flush();
}

Task<Result<void>> TlsStream::shutdown_write() {
  ERR_clear_error();
  SSL_shutdown(ssl_.get());  // queues the closing alert; the peer's own is read by read_some()
  ERR_clear_error();
  CO_TRY_VOID(co_await flush());
  co_return co_await inner_->shutdown_write();
}

bool TlsStream::quiet() const { return used_ == filled_ && SSL_pending(ssl_.get()) == 0 && inner_->quiet(); }

}  // namespace atl::net
