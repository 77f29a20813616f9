// SPDX-License-Identifier: Apache-2.0
#include "net/tls/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>

namespace atl::net {

namespace {
// The alerts by which a peer says that it does not accept our certificate (RFC 8446 §6.2).
bool is_distrust(unsigned long number) {
  if (ERR_GET_LIB(number) != ERR_LIB_SSL) return false;
  int reason = ERR_GET_REASON(number);
  return reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
         reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN || reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
         reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE;
}
}  // namespace

Error openssl_error(Code code, std::string_view what) {
  std::array<char, 256> text{};
  auto number = ERR_get_error();
  if (number != 0) ERR_error_string_n(number, text.data(), text.size());
  ERR_clear_error();
  auto error = make_error(code, "{}: {}", what, text[0] != '\0' ? text.data() : "unknown TLS failure");
  if (is_distrust(number)) return std::move(error).with_word(kPeerDistrusts);
  return error;
}

namespace {
BioPtr memory_bio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
}  // namespace

Result<X509Ptr> read_certificate(const std::string& pem) {
  auto bio = memory_bio(pem);
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return openssl_error(Code::kCorrupt, "read a certificate");
  return certificate;
}

Result<KeyPtr> read_private_key(const std::string& pem) {
  auto bio = memory_bio(pem);
  // The empty pass phrase keeps OpenSSL from asking for one on the terminal.
  char none[] = "";
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, none));
  if (!key) return openssl_error(Code::kCorrupt, "read a private key");
  return key;
}

}  // namespace atl::net
