// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/random.h"
#include "gateway/tls/derived_key.h"

namespace atl::gateway {
namespace {

using net::BioPtr;
using net::ExtensionPtr;
using net::openssl_error;
using net::OpensslFree;
using net::X509Ptr;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>>;
using NamePtr = std::unique_ptr<GENERAL_NAME, OpensslFree<GENERAL_NAME_free>>;

constexpr std::size_t kMaxCommonName = 64;  // RFC 5280, ub-common-name
constexpr std::size_t kMaxHost = 253;
constexpr int kSerialBits = 127;
constexpr auto kLeafMargin = std::chrono::hours(1);
// What a sandbox runs for itself is never the gateway's to speak for.
constexpr const char* kExcluded =
    "critical,excluded;DNS:localhost,excluded;IP:127.0.0.0/255.0.0.0,"
    "excluded;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

Result<ExtensionPtr> extension(X509* subject, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  ExtensionPtr made(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  if (!made) return openssl_error(Code::kInternal, fmt::format("make the extension '{}'", value));
  return made;
}

Result<void> add(X509* subject, X509* issuer, int nid, const char* value) {
  TRY(ExtensionPtr made, extension(subject, issuer, nid, value));
  if (X509_add_ext(subject, made.get(), -1) != 1) return openssl_error(Code::kInternal, "add an extension");
  return success();
}

// A certificate with everything but extensions and signature.
Result<X509Ptr> draft(std::string common_name, const X509_NAME* issuer, EVP_PKEY* key, WallTime begins,
                      WallTime ends) {
  common_name.resize(std::min(common_name.size(), kMaxCommonName));
  X509Ptr made(X509_new());
  net::BignumPtr serial(BN_new());
  if (!made || !serial) return openssl_error(Code::kInternal, "make a certificate");
  auto* x = made.get();
  auto* subject = X509_get_subject_name(x);
  bool ok = X509_set_version(x, X509_VERSION_3) == 1 &&
            BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
            BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(x)) != nullptr &&
            ASN1_TIME_set(X509_getm_notBefore(x), begins.ms / 1000) != nullptr &&
            ASN1_TIME_set(X509_getm_notAfter(x), ends.ms / 1000) != nullptr && X509_set_pubkey(x, key) == 1 &&
            X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(common_name.data()),
                                       static_cast<int>(common_name.size()), -1, 0) == 1 &&
            X509_set_issuer_name(x, issuer != nullptr ? issuer : subject) == 1;
  if (!ok) return openssl_error(Code::kInternal, "make a certificate");
  return made;
}

Result<NamePtr> alternative_name(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  NamePtr name(GENERAL_NAME_new());
  if (!name) return openssl_error(Code::kInternal, "make a name");
  if (auto* address = a2i_IPADDRESS(std::string(host).c_str()); address != nullptr) {
    GENERAL_NAME_set0_value(name.get(), GEN_IPADD, address);
    return name;
  }
  ERR_clear_error();
  bool dns = !host.empty() && host.size() <= kMaxHost && host.front() != '.' && host.back() != '.' &&
             host.find("..") == host.npos &&
             host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-._") == host.npos;
  if (!dns) return make_error(Code::kInvalid, "'{}' is neither a DNS name nor an IP address", host);
  auto* text = ASN1_IA5STRING_new();
  if (text == nullptr || ASN1_STRING_set(text, host.data(), static_cast<int>(host.size())) != 1) {
    return openssl_error(Code::kInternal, "make a name");
  }
  GENERAL_NAME_set0_value(name.get(), GEN_DNS, text);
  return name;
}

Result<std::string> pem_of(X509* certificate) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return openssl_error(Code::kInternal, "write a certificate");
  }
  char* data = nullptr;
  auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

}  // namespace

Result<std::shared_ptr<CertificateAuthority>> CertificateAuthority::derive(std::string_view root,
                                                                           std::string_view sandbox,
                                                                           WallTime now) {
  std::shared_ptr<CertificateAuthority> made(new CertificateAuthority());
  TRY(made->key_, derive_key(root, "atoll authority", sandbox));
  TRY(net::KeyPtr leaf_key, derive_key(root, "atoll leaves", sandbox));
  made->leaf_key_ = std::move(leaf_key);
  TRY_VOID(made->make_certificate(sandbox, now));
  TRY_VOID(made->prepare_leaves());
  return made;
}

Result<void> CertificateAuthority::make_certificate(std::string_view sandbox, WallTime now) {
  ends_ = now + kLife;
  TRY(certificate_,
      draft(fmt::format("Atoll sandbox {}", sandbox), nullptr, key_.get(), now - kBackdate, ends_));
  auto* x = certificate_.get();
  TRY_VOID(add(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TRY_VOID(add(x, x, NID_key_usage, "critical,keyCertSign"));
  TRY_VOID(add(x, x, NID_ext_key_usage, "serverAuth"));
  TRY_VOID(add(x, x, NID_name_constraints, kExcluded));
  TRY_VOID(add(x, x, NID_subject_key_identifier, "hash"));
  if (X509_sign(x, key_.get(), EVP_sha256()) == 0)
    return openssl_error(Code::kInternal, "sign a certificate");
  TRY(pem_, pem_of(x));
  return success();
}

Result<void> CertificateAuthority::prepare_leaves() {
  TRY(X509Ptr sample, draft("sample", nullptr, leaf_key_.get(), {0}, ends_));
  auto* x = sample.get();
  auto* issuer = certificate_.get();
  struct {
    int nid;
    const char* value;
  } const kAll[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                    {NID_key_usage, "critical,digitalSignature"},
                    {NID_ext_key_usage, "serverAuth"},
                    {NID_subject_key_identifier, "hash"},
                    {NID_authority_key_identifier, "keyid:always"}};
  for (const auto& one : kAll) {
    TRY(ExtensionPtr made, extension(x, issuer, one.nid, one.value));
    leaf_extensions_.push_back(std::move(made));
  }
  return success();
}

Result<net::Presented> CertificateAuthority::leaf(const std::string& host, WallTime now) {
  auto known = cache_.find(host, now + kLeafMargin);
  if (known) return net::Presented{std::move(known), leaf_key_};
  WallTime ends = std::min(now + kLeafLife, ends_);
  TRY(auto made, sign_leaf(host, now, ends));
  cache_.put(host, made, ends);
  return net::Presented{std::move(made), leaf_key_};
}

Result<std::shared_ptr<X509>> CertificateAuthority::sign_leaf(const std::string& host, WallTime now,
                                                              WallTime ends) const {
  TRY(NamePtr name, alternative_name(host));
  TRY(X509Ptr made,
      draft(host, X509_get_subject_name(certificate_.get()), leaf_key_.get(), now - kBackdate, ends));
  for (const auto& one : leaf_extensions_) {
    if (X509_add_ext(made.get(), one.get(), -1) != 1)
      return openssl_error(Code::kInternal, "add an extension");
  }
  NamesPtr names(GENERAL_NAMES_new());
  if (!names || sk_GENERAL_NAME_push(names.get(), name.get()) <= 0) {
    return openssl_error(Code::kInternal, "make the names of a certificate");
  }
  (void)name.release();  // belongs to `names` now
  if (X509_add1_ext_i2d(made.get(), NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) != 1 ||
      X509_sign(made.get(), key_.get(), EVP_sha256()) == 0) {
    return openssl_error(Code::kInternal, fmt::format("sign a certificate for {}", host));
  }
  return std::shared_ptr<X509>(std::move(made));
}

std::string CertificateAuthority::subject_hash() const {
  return fmt::format("{:08x}", X509_subject_name_hash(certificate_.get()));
}

}  // namespace atl::gateway
