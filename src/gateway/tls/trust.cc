// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/trust.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>

#include "net/tls/openssl.h"
#include "sys/files.h"

namespace atl::gateway {
namespace {

// Where distributions keep the roots that OpenSSL reads: Debian, Fedora, SUSE.
constexpr std::array kRootFiles = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                   "/etc/ssl/ca-bundle.pem"};
constexpr std::size_t kMaxRoots = 4 * 1024 * 1024;

void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size(), 2);
  out += text;
}

Result<std::string> der_of(X509* certificate) {
  unsigned char* data = nullptr;
  int size = i2d_X509(certificate, &data);
  if (size < 0) return net::openssl_error(Code::kInternal, "write a certificate");
  std::string out(reinterpret_cast<char*>(data), static_cast<std::size_t>(size));
  OPENSSL_free(data);
  return out;
}

// SHA-1 of the password in UTF-16, a fixed phrase and the store: what Java's JavaKeyStore calls its keyed
// hash.
std::string java_digest(std::string_view store) {
  std::string text;
  for (char c : kJavaPassword) text += std::string{'\0', c};
  text += "Mighty Aphrodite";
  text += store;
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha1(), nullptr);
  return {reinterpret_cast<char*>(out.data()), size};
}

}  // namespace

Result<std::string> read_public_roots() {
  for (const char* path : kRootFiles) {
    auto text = sys::read_file(path, kMaxRoots);
    if (text.ok() && text->find("-----BEGIN CERTIFICATE-----") != text->npos) return text;
  }
  return make_error(Code::kNotFound, "this host has no public root certificates in {}", kRootFiles[0])
      .with_hint("install the package ca-certificates");
}

std::string trust_bundle(std::string_view authority_pem, std::string_view public_roots) {
  return fmt::format("{}{}", authority_pem, public_roots);
}

Result<std::string> java_trust_store(std::string_view bundle, WallTime now) {
  net::BioPtr bio(BIO_new_mem_buf(bundle.data(), static_cast<int>(bundle.size())));
  std::string entries;
  std::uint32_t count = 0;
  for (;; ++count) {
    net::X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!certificate) break;
    TRY(std::string der, der_of(certificate.get()));
    put_number(entries, 2, 4);  // a trusted certificate
    put_text(entries, fmt::format("atoll-{}", count));
    put_number(entries, static_cast<std::uint64_t>(now.ms), 8);
    put_text(entries, "X.509");
    put_number(entries, der.size(), 4);
    entries += der;
  }
  bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end || count == 0)
    return make_error(Code::kCorrupt, "certificate {} of a trust bundle cannot be read", count);
  std::string store;
  put_number(store, 0xfeedfeed, 4);
  put_number(store, 2, 4);  // version
  put_number(store, count, 4);
  store += entries;
  return store + java_digest(store);
}

}  // namespace atl::gateway
