// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/text.h"

namespace atl::gateway {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kMappedBits = 96;

bool same_bits(const std::array<std::uint8_t, 16>& a, const std::array<std::uint8_t, 16>& b, int count) {
  int whole = count / 8;
  if (std::memcmp(a.data(), b.data(), static_cast<std::size_t>(whole)) != 0) return false;
  if (count % 8 == 0) return true;
  auto mask = static_cast<std::uint8_t>(0xff << (8 - count % 8));
  return ((a[static_cast<std::size_t>(whole)] ^ b[static_cast<std::size_t>(whole)]) & mask) == 0;
}

IpAddress first_of_block(const IpAddress& base, int prefix) {
  auto bytes = base.bytes();
  for (int bit = prefix; bit < base.bits(); ++bit)
    bytes[static_cast<std::size_t>(bit / 8)] &= static_cast<std::uint8_t>(~(0x80 >> (bit % 8)));
  if (base.is_v4()) return IpAddress::v4({bytes[0], bytes[1], bytes[2], bytes[3]});
  return IpAddress::v6(bytes);
}

Error not_an_address(std::string_view text) {
  return make_error(Code::kInvalid, "'{}' is not an IP address", printable(text.substr(0, 64)));
}

// inet_pton of the C library is strict: it knows no octal, no short forms and no zones.
Result<std::array<std::uint8_t, 16>> raw_v6(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> copy{};
  if (text.size() >= copy.size() || text.find('\0') != std::string_view::npos) return not_an_address(text);
  std::copy(text.begin(), text.end(), copy.begin());
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, copy.data(), bytes.data()) != 1) return not_an_address(text);
  return bytes;
}

bool wraps_v4(const std::array<std::uint8_t, 16>& bytes) {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
}

}  // namespace

IpAddress::IpAddress(std::uint32_t value)
    : bytes_{static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
             static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)} {}

IpAddress IpAddress::v4(std::array<std::uint8_t, 4> bytes) {
  IpAddress out;
  std::copy(bytes.begin(), bytes.end(), out.bytes_.begin());
  return out;
}

IpAddress IpAddress::v6(const std::array<std::uint8_t, 16>& bytes) {
  if (wraps_v4(bytes)) return v4({bytes[12], bytes[13], bytes[14], bytes[15]});
  IpAddress out;
  out.v4_ = false;
  out.bytes_ = bytes;
  return out;
}

std::uint32_t IpAddress::v4_value() const {
  if (!v4_) return 0;
  return static_cast<std::uint32_t>(bytes_[0]) << 24 | static_cast<std::uint32_t>(bytes_[1]) << 16 |
         static_cast<std::uint32_t>(bytes_[2]) << 8 | bytes_[3];
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(v4_ ? AF_INET : AF_INET6, bytes_.data(), out.data(), out.size());
  return out.data();
}

Result<IpAddress> parse_ip(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> copy{};
  if (text.size() >= copy.size() || text.find('\0') != std::string_view::npos) return not_an_address(text);
  std::copy(text.begin(), text.end(), copy.begin());
  std::array<std::uint8_t, 4> four{};
  if (inet_pton(AF_INET, copy.data(), four.data()) == 1) return IpAddress::v4(four);
  TRY(auto bytes, raw_v6(text));
  return IpAddress::v6(bytes);
}

Cidr::Cidr(IpAddress base, int prefix) : base_(first_of_block(base, prefix)), prefix_(prefix) {
  CHECK(prefix >= 0 && prefix <= base.bits(), "prefix {} of {}", prefix, base.text());
}

bool Cidr::contains(const IpAddress& address) const {
  return address.is_v4() == base_.is_v4() && same_bits(address.bytes(), base_.bytes(), prefix_);
}

bool Cidr::contains(const Cidr& other) const { return other.prefix_ >= prefix_ && contains(other.base_); }

std::string Cidr::text() const { return fmt::format("{}/{}", base_.text(), prefix_); }

Result<Cidr> parse_cidr(std::string_view text, HostBits host_bits) {
  auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    TRY(IpAddress address, parse_ip(text));
    return Cidr(address, address.bits());
  }
  std::string_view digits = text.substr(slash + 1);
  auto prefix = digits.size() <= 3 && (digits.size() == 1 || !digits.starts_with('0'))
                    ? parse_number<std::uint8_t>(digits)
                    : std::nullopt;
  TRY(IpAddress address, parse_ip(text.substr(0, slash)));
  int length = prefix ? *prefix : -1;
  bool wrapped = address.is_v4() && text.substr(0, slash).find(':') != std::string_view::npos;
  if (wrapped) length -= kMappedBits;  // ::ffff:10.0.0.0/104 is 10.0.0.0/8
  if (!prefix || length < 0 || length > address.bits())
    return make_error(Code::kInvalid, "'{}' is not a block of addresses: its prefix is wrong",
                      printable(text.substr(0, 64)));
  Cidr block(address, length);
  if (host_bits == HostBits::kRefuse && block.base() != address)
    return make_error(Code::kInvalid, "'{}' is not a block of addresses: it begins at {}", text,
                      block.text());
  return block;
}

}  // namespace atl::gateway
