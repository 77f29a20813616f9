// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/master_key.h"

#include <fcntl.h>
#include <sodium.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/vault/sealing.h"
#include "sys/files.h"

namespace atl::gateway::vault {
namespace {

constexpr std::size_t kMaxFile = 256;

// Wipes `text`.
Result<Locked> read_key(std::string& text, std::string_view where) {
  Locked out(kKeyBytes);
  std::size_t count = 0;
  std::size_t digits = text.size();
  while (digits > 0 && (text[digits - 1] == '\n' || text[digits - 1] == '\r')) --digits;
  bool ok = false;
  if (digits == 2 * kKeyBytes) {
    ok = sodium_hex2bin(out.bytes().data(), out.size(), text.data(), digits, nullptr, &count, nullptr) == 0 &&
         count == kKeyBytes;
  } else if (text.size() == kKeyBytes) {
    std::memcpy(out.bytes().data(), text.data(), kKeyBytes);
    ok = true;
  }
  wipe(text);
  if (ok) return out;
  return make_error(Code::kInvalid, "{} holds no key: it must be 64 hexadecimal digits, or 32 bytes", where)
      .with_word("vault_key_invalid")
      .with_hint("make one with: openssl rand -hex 32");
}

}  // namespace

Result<Locked> key_from_file(const std::string& path) {
  auto text = sys::read_private_file(path, kMaxFile);
  if (!text.ok()) return std::move(text).error().context("the vault's key");
  return read_key(*text, path);
}

Result<Locked> make_key_file(const std::string& path) {
  Locked key(kKeyBytes);
  randombytes_buf(key.bytes().data(), key.size());
  TRY(sys::Fd file, sys::open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  std::string text = hex_encode(key.reveal()) + "\n";
  auto written = sys::write_all(file.get(), text);
  wipe(text);
  TRY_VOID(std::move(written));
  TRY_VOID(sys::sync_path(path));
  auto folder = std::filesystem::path(path).parent_path().string();
  TRY_VOID(sys::sync_path(folder.empty() ? "." : folder));
  return key;
}

Result<Locked> key_from_environment(const char* name) {
  char* value = std::getenv(name);
  if (value == nullptr) return make_error(Code::kNotFound, "the environment variable {} is not set", name);
  std::string text = value;
  // Also in /proc/<pid>/environ, which shows this memory.
  sodium_memzero(value, std::strlen(value));
  ::unsetenv(name);
  return read_key(text, name);
}

}  // namespace atl::gateway::vault
