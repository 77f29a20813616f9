// SPDX-License-Identifier: Apache-2.0
#include "net/tls/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>

namespace atl::net {

Error openssl_error(Code code, std::string_view what) {
  std::array<char, 256> text{};
  if (auto number = ERR_get_error(); number != 0) ERR_error_string_n(number, text.data(), text.size());
  ERR_clear_error();
  return make_error(code, "{}: {}", what, text[0] != '\0' ? text.data() : "unknown TLS failure");
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
