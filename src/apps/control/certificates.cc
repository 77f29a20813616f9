// SPDX-License-Identifier: Apache-2.0
#include "apps/control/certificates.h"

#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::control_app {
namespace {

constexpr Millis kRenewAfter = std::chrono::hours(24 * 700);  // of 825 days
constexpr std::size_t kMaxPem = 64 * 1024;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<net::TlsIdentity> read_identity(const std::string& stem) {
  net::TlsIdentity identity;
  TRY(identity.certificate_chain, sys::read_file(stem + ".pem", kMaxPem));
  TRY(identity.private_key, sys::read_file(stem + ".key", kMaxPem));
  return identity;
}

// The key first: a certificate without its key would be useless, a key without certificate is simply made
// anew.
Result<void> write_identity(const std::string& stem, const net::TlsIdentity& identity) {
  TRY_VOID(sys::replace_file(stem + ".key", identity.private_key, 0600));
  return sys::replace_file(stem + ".pem", identity.certificate_chain, 0644);
}

Result<net::TlsIdentity> ensure_authority(const std::string& directory) {
  std::string stem = directory + "/ca";
  if (exists(stem + ".pem")) return read_identity(stem);
  TRY(net::TlsIdentity made, net::make_certificate_authority("Atoll local authority"));
  TRY_VOID(write_identity(stem, made));
  log::info("made a certificate authority", {{"file", stem + ".pem"}});
  return made;
}

// What the certificate was made for and when; one line "<ms> <domain>".
bool still_good(const std::string& path, const std::string& host, WallTime now) {
  auto text = sys::read_file(path);
  if (!text) return false;
  auto space = text->find(' ');
  if (space == std::string::npos) return false;
  auto made = parse_number<std::int64_t>(text->substr(0, space));
  return made && now - WallTime{*made} < kRenewAfter && trim(text->substr(space + 1)) == host;
}

}  // namespace

Result<net::TlsIdentity> ensure_server_identity(const std::string& directory, const std::string& domain,
                                                Clock& clock) {
  TRY_VOID(sys::ensure_directory(directory, 0700));
  std::string host = domain.substr(0, domain.find(':'));
  TRY(net::TlsIdentity authority, ensure_authority(directory));
  std::string stem = directory + "/server";
  if (still_good(stem + ".made", host, clock.now()) && exists(stem + ".pem")) return read_identity(stem);
  std::vector<std::string> names{host, "*." + host, "localhost", "127.0.0.1", "::1"};
  TRY(net::TlsIdentity made, net::make_server_identity(authority, names));
  TRY_VOID(write_identity(stem, made));
  TRY_VOID(sys::replace_file(stem + ".made", fmt::format("{} {}", clock.now().ms, host), 0600));
  log::info("made a server certificate", {{"domain", host}});
  return made;
}

}  // namespace atl::control_app
