// SPDX-License-Identifier: Apache-2.0
//
// Owners of OpenSSL's objects, and its errors as ours.
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string_view>

#include "base/result.h"

namespace atl::net {

// Deleter that calls one of OpenSSL's free functions.
template <auto Free>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

// Owners; null means that OpenSSL could not make the object.
using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using SslPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;
using SslCtxPtr = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using X509Ptr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>>;
using BignumPtr = std::unique_ptr<BIGNUM, OpensslFree<BN_free>>;

// The word of an error that is an alert of a peer that does not accept our certificate.
inline constexpr const char* kPeerDistrusts = "tls_peer_distrusts";
// The oldest error in OpenSSL's queue of this thread, which it empties.
Error openssl_error(Code code, std::string_view what);

// The first object of its kind in `pem`; kCorrupt when there is none, or a key is encrypted.
Result<X509Ptr> read_certificate(const std::string& pem);
Result<KeyPtr> read_private_key(const std::string& pem);

}  // namespace atl::net
