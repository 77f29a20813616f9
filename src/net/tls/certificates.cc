// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "net/tls/openssl.h"
#include "net/tls/tls.h"

namespace atl::net {
namespace {

constexpr long kDay = 24 * 60 * 60;
constexpr long kAuthorityDays = 3650;
constexpr long kServerDays = 825;    // the most that Apple's systems accept
constexpr long kBackdate = 60 * 60;  // clocks of clients may be a little behind
constexpr int kSerialBits = 127;

struct Draft {
  X509Ptr certificate;
  KeyPtr key;
};

Result<Draft> start_certificate(const std::string& common_name, long days) {
  Draft out{X509Ptr(X509_new()), KeyPtr(EVP_EC_gen("P-256"))};
  BignumPtr serial(BN_new());
  if (!out.certificate || !out.key || !serial) return openssl_error(Code::kInternal, "make a certificate");
  auto* x = out.certificate.get();
  auto* name = X509_get_subject_name(x);
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.data());
  bool ok = X509_set_version(x, X509_VERSION_3) == 1 &&
            BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
            BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(x)) != nullptr &&
            X509_gmtime_adj(X509_getm_notBefore(x), -kBackdate) != nullptr &&
            X509_gmtime_adj(X509_getm_notAfter(x), days * kDay - kBackdate) != nullptr &&
            X509_set_pubkey(x, out.key.get()) == 1 &&
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, text, static_cast<int>(common_name.size()),
                                       -1, 0) == 1;
  if (!ok) return openssl_error(Code::kInternal, "make a certificate");
  return out;
}

Result<void> add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return openssl_error(Code::kInvalid, fmt::format("add '{}' to a certificate", value));
  }
  return success();
}

Result<TlsIdentity> seal(const Draft& draft, X509* issuer, EVP_PKEY* issuer_key) {
  auto* x = draft.certificate.get();
  if (X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1 ||
      X509_sign(x, issuer_key, EVP_sha256()) == 0) {
    return openssl_error(Code::kInternal, "sign a certificate");
  }
  BioPtr certificate(BIO_new(BIO_s_mem()));
  BioPtr key(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate.get(), x) != 1 ||
      PEM_write_bio_PrivateKey(key.get(), draft.key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error(Code::kInternal, "write a certificate");
  }
  auto text_of = [](BIO* bio) {
    char* data = nullptr;
    auto size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<std::size_t>(size));
  };
  return TlsIdentity{text_of(certificate.get()), text_of(key.get())};
}

// "DNS:a,IP:127.0.0.1". Names come from our own configuration, but a comma would smuggle in another one.
Result<std::string> alternative_names(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) {
    unsigned char address[16];
    bool ip =
        inet_pton(AF_INET, name.c_str(), address) == 1 || inet_pton(AF_INET6, name.c_str(), address) == 1;
    bool dns = !name.empty() &&
               name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.*") == std::string::npos;
    if (!ip && !dns)
      return make_error(Code::kInvalid, "'{}' is neither an IP address nor a lower-case DNS name", name);
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", ip ? "IP" : "DNS", name);
  }
  if (out.empty()) return make_error(Code::kInvalid, "a server certificate needs at least one name");
  return out;
}
}  // namespace

Result<TlsIdentity> make_certificate_authority(const std::string& common_name) {
  TRY(Draft draft, start_certificate(common_name, kAuthorityDays));
  auto* x = draft.certificate.get();
  TRY_VOID(add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TRY_VOID(add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign"));
  TRY_VOID(add_extension(x, x, NID_subject_key_identifier, "hash"));
  return seal(draft, x, draft.key.get());
}

Result<TlsIdentity> make_server_identity(const TlsIdentity& authority,
                                         const std::vector<std::string>& names) {
  TRY(X509Ptr issuer, read_certificate(authority.certificate_chain));
  TRY(KeyPtr issuer_key, read_private_key(authority.private_key));
  TRY(std::string alternatives, alternative_names(names));
  // The common name is for people only; clients look at the alternative names. At most 64 characters fit (RFC
  // 5280).
  TRY(Draft draft, start_certificate(names.front().substr(0, 64), kServerDays));
  auto* x = draft.certificate.get();
  TRY_VOID(add_extension(x, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  TRY_VOID(add_extension(x, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  TRY_VOID(add_extension(x, issuer.get(), NID_ext_key_usage, "serverAuth"));
  TRY_VOID(add_extension(x, issuer.get(), NID_subject_key_identifier, "hash"));
  TRY_VOID(add_extension(x, issuer.get(), NID_authority_key_identifier, "keyid:always"));
  TRY_VOID(add_extension(x, issuer.get(), NID_subject_alt_name, alternatives));
  return seal(draft, issuer.get(), issuer_key.get());
}

}  // namespace atl::net
