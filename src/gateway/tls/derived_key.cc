// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/derived_key.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <sodium.h>

#include <array>

#include "base/check.h"

namespace atl::gateway {
namespace {

using net::openssl_error;
using net::OpensslFree;
using ContextPtr = std::unique_ptr<EVP_PKEY_CTX, OpensslFree<EVP_PKEY_CTX_free>>;
using GroupPtr = std::unique_ptr<EC_GROUP, OpensslFree<EC_GROUP_free>>;
using PointPtr = std::unique_ptr<EC_POINT, OpensslFree<EC_POINT_free>>;
using ScalarPtr = std::unique_ptr<BIGNUM, OpensslFree<BN_clear_free>>;
using BuilderPtr = std::unique_ptr<OSSL_PARAM_BLD, OpensslFree<OSSL_PARAM_BLD_free>>;
using ParamsPtr = std::unique_ptr<OSSL_PARAM, OpensslFree<OSSL_PARAM_free>>;

// 16 bytes more than the order has, so that the reduction favours no key (FIPS 186-5 A.2.1).
constexpr std::size_t kSeedBytes = 48;
constexpr std::size_t kPointBytes = 65;  // uncompressed, SEC 1 §2.3.3

std::array<unsigned char, kSeedBytes> seed_of(std::string_view root, std::string_view purpose,
                                              std::string_view name) {
  CHECK(root.size() == crypto_generichash_KEYBYTES, "a root key has 32 bytes");
  auto bytes = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
  std::array<unsigned char, kSeedBytes> out{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, bytes(root), root.size(), out.size());
  // The purpose ends with a zero byte, which neither it nor a name contains.
  crypto_generichash_update(&state, bytes(purpose), purpose.size());
  crypto_generichash_update(&state, bytes(std::string_view("\0", 1)), 1);
  crypto_generichash_update(&state, bytes(name), name.size());
  crypto_generichash_final(&state, out.data(), out.size());
  sodium_memzero(&state, sizeof state);
  return out;
}

// 1 + seed mod (order - 1): any number from 1 to order - 1.
ScalarPtr scalar_of(const EC_GROUP* group, std::array<unsigned char, kSeedBytes> seed, BN_CTX* work) {
  ScalarPtr scalar(BN_secure_new());
  net::BignumPtr bound(BN_dup(EC_GROUP_get0_order(group)));
  bool ok = scalar && bound && BN_sub_word(bound.get(), 1) == 1 &&
            BN_bin2bn(seed.data(), static_cast<int>(seed.size()), scalar.get()) != nullptr &&
            BN_nnmod(scalar.get(), scalar.get(), bound.get(), work) == 1 && BN_add_word(scalar.get(), 1) == 1;
  sodium_memzero(seed.data(), seed.size());
  if (!ok) return nullptr;
  BN_set_flags(scalar.get(), BN_FLG_CONSTTIME);
  return scalar;
}

}  // namespace

Result<net::KeyPtr> derive_key(std::string_view root, std::string_view purpose, std::string_view name) {
  static const GroupPtr kGroup(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  std::unique_ptr<BN_CTX, OpensslFree<BN_CTX_free>> work(BN_CTX_secure_new());
  ScalarPtr scalar = scalar_of(kGroup.get(), seed_of(root, purpose, name), work.get());
  PointPtr point(EC_POINT_new(kGroup.get()));
  std::array<unsigned char, kPointBytes> public_key{};
  bool ok = scalar && point &&
            EC_POINT_mul(kGroup.get(), point.get(), scalar.get(), nullptr, nullptr, work.get()) == 1 &&
            EC_POINT_point2oct(kGroup.get(), point.get(), POINT_CONVERSION_UNCOMPRESSED, public_key.data(),
                               public_key.size(), work.get()) == public_key.size();
  if (!ok) return openssl_error(Code::kInternal, "derive a key");

  BuilderPtr builder(OSSL_PARAM_BLD_new());
  ok = builder &&
       OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
       OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar.get()) == 1 &&
       OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, public_key.data(),
                                        public_key.size()) == 1;
  ParamsPtr params(ok ? OSSL_PARAM_BLD_to_param(builder.get()) : nullptr);
  ContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  ok = params && context && EVP_PKEY_fromdata_init(context.get()) == 1 &&
       EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR, params.get()) == 1;
  if (!ok) return openssl_error(Code::kInternal, "derive a key");
  return net::KeyPtr(key);
}

}  // namespace atl::gateway
