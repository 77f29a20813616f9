// SPDX-License-Identifier: Apache-2.0
#include "gateway/fetch/client_identity.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/tls/openssl.h"

namespace atl::gateway {
namespace {

constexpr std::size_t kMaxChain = 8;

Error unusable(const vault::Credential& credential, std::string_view why) {
  ERR_clear_error();  // it may tell where in the key something was wrong
  return make_error(Code::kInvalid, "the certificate of the secret '{}' {}", credential.row.name, why)
      .with_word("invalid_secret");
}

std::vector<net::X509Ptr> read_chain(const std::string& pem) {
  net::BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<net::X509Ptr> out;
  while (out.size() <= kMaxChain) {
    net::X509Ptr one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!one) break;
    out.push_back(std::move(one));
  }
  ERR_clear_error();  // the end of the text counts as an error for OpenSSL
  return out;
}

}  // namespace

Result<std::shared_ptr<const net::TlsClientIdentity>> client_identity(const vault::Credential& credential) {
  const auto& kind = std::get<vault::TlsClientKind>(credential.config.kind);
  auto chain = read_chain(kind.certificate_chain);
  if (chain.empty()) return unusable(credential, "cannot be read");
  if (chain.size() > kMaxChain) return unusable(credential, "has too long a chain");
  std::string pem(credential.secret.reveal());
  auto key = net::read_private_key(pem);
  vault::wipe(pem);
  if (!key.ok()) return unusable(credential, "has a private key that cannot be read");
  std::vector<X509*> rest;
  for (std::size_t i = 1; i < chain.size(); ++i) rest.push_back(chain[i].get());
  auto made = net::TlsClientIdentity::make(chain.front().get(), rest, key->get());
  if (!made.ok()) return unusable(credential, "does not belong to its private key");
  return made;
}

Result<std::shared_ptr<const net::TlsClientIdentity>> ClientIdentities::of(
    const vault::Credential& credential) {
  auto key = fmt::format("{}@{}", credential.row.id, credential.row.version);
  if (auto found = known_.find(key); found != known_.end()) return found->second;
  TRY(auto made, client_identity(credential));
  if (known_.size() >= kMost) known_.clear();
  known_.emplace(std::move(key), made);
  return made;
}

}  // namespace atl::gateway
