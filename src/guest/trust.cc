// SPDX-License-Identifier: Apache-2.0
#include "guest/trust.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "guest/java_store.h"
#include "guest/posix.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxPem = 8192;
constexpr std::size_t kMaxBundle = 4 << 20;
constexpr std::string_view kBegin = "# The authority of this sandbox's gateway\n";
constexpr std::string_view kEnd = "# End of the authority of this sandbox's gateway\n";
constexpr char kAlone[] = "/usr/local/share/ca-certificates/atoll.crt";
constexpr char kJava[] = "/etc/ssl/certs/java/cacerts";  // where the JDKs of Debian look
constexpr std::size_t kMaxJava = 8 << 20;
constexpr char kBundle[] = "/etc/ssl/certs/ca-certificates.crt";

void make_directories(const std::string& root) {
  for (const char* path : {"/usr", "/usr/local", "/usr/local/share", "/usr/local/share/ca-certificates",
                           "/etc", "/etc/ssl", "/etc/ssl/certs"}) {
    ::mkdir((root + path).c_str(), 0755);  // mostly there already; what fails shows when a file is written
  }
}

std::string without_ours(std::string bundle) {
  std::size_t begin = bundle.find(kBegin);
  std::size_t end = begin == std::string::npos ? begin : bundle.find(kEnd, begin);
  if (end != std::string::npos) bundle.erase(begin, end + kEnd.size() - begin);
  return bundle;
}

// Only where there is a Java: a later one takes ours from kAlone when it is installed. A store that is not
// ours to change stays, and is told.
void install_for_java(const std::string& root, const std::string& pem) {
  auto store = read_small_file(root + kJava, kMaxJava);
  if (!store.ok()) return;
  auto wanted = with_trusted(*store, pem, system_clock().now().ms);
  auto written = wanted.ok() ? write_small_file(root + kJava, *wanted, 0644) : Result<void>(wanted.error());
  if (!written.ok()) log::warn("Java does not trust the gateway", {{"why", written.error().message()}});
}

}  // namespace

Result<void> check_authority(const Authority& authority) {
  bool hex =
      authority.hash.size() == 8 && authority.hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  bool pem = authority.pem.starts_with("-----BEGIN CERTIFICATE-----\n") && authority.pem.size() <= kMaxPem &&
             authority.pem.ends_with("-----END CERTIFICATE-----\n");
  if (authority.pem.empty() || (hex && pem)) return success();
  return make_error(Code::kInvalid, "authority: must be a certificate in PEM and the hash of its subject");
}

Result<void> install_authority(const std::string& root, const Authority& authority) {
  if (authority.pem.empty()) return success();
  make_directories(root);
  TRY_VOID(write_small_file(root + kAlone, authority.pem, 0644));
  TRY_VOID(write_small_file(fmt::format("{}/etc/ssl/certs/{}.0", root, authority.hash), authority.pem, 0644));
  auto read = read_small_file(root + kBundle, kMaxBundle);
  if (!read.ok() && read.error().code() != Code::kNotFound) return std::move(read).error();
  std::string bundle = std::move(read).value_or("");
  std::string wanted = without_ours(bundle);
  if (!wanted.empty() && wanted.back() != '\n') wanted += '\n';
  wanted.append(kBegin).append(authority.pem).append(kEnd);
  if (wanted == bundle) return success();
  install_for_java(root, authority.pem);
  return write_small_file(root + kBundle, wanted, 0644);
}

void add_trust_variables(std::map<std::string, std::string>& environment) {
  // Each replaces the roots of its tool, so it names the bundle, which has both.
  constexpr std::array<const char*, 9> kReplace = {
      "SSL_CERT_FILE", "CURL_CA_BUNDLE",    "REQUESTS_CA_BUNDLE", "PIP_CERT",         "GIT_SSL_CAINFO",
      "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT",          "NIX_SSL_CERT_FILE"};
  for (const char* name : kReplace) environment.try_emplace(name, kBundle);
  environment.try_emplace("NODE_EXTRA_CA_CERTS", kAlone);  // adds
}

}  // namespace atl::guest
