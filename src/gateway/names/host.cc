// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/host.h"

#include <idn2.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"

namespace atl::gateway {
namespace {

constexpr std::size_t kMaxSpellingBytes = 1024;  // a name of 253 bytes may be longer before it is encoded

Error wrong(std::string_view text, std::string_view why) {
  return make_error(Code::kInvalid, "'{}' is not a host: {}", printable(text.substr(0, 128)), why)
      .with_word("invalid_host");
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_ldh(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }

// The A-labels of a name with characters outside ASCII.
Result<std::string> encode(std::string_view text) {
  char* out = nullptr;
  int status = idn2_to_ascii_8z(std::string(text).c_str(), &out, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
  std::unique_ptr<char, void (*)(void*)> owned(out, idn2_free);
  if (status != IDN2_OK) return wrong(text, idn2_strerror(status));
  return std::string(out);
}

// One part of an IPv4 address as the URL standard reads it: 0x is hexadecimal, a leading 0 octal.
std::optional<std::uint64_t> ipv4_part(std::string_view text) {
  if (text.empty()) return std::nullopt;
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  if (text.empty()) return 0;  // "0x"
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return UINT64_MAX;  // a number, and too large for any place
  if (error != std::errc()) return std::nullopt;
  return value;
}

// WHATWG's "ends in a number": such a name can never be one of DNS, and libraries read it as an address.
bool ends_in_number(std::string_view last) {
  bool digits = std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits || ipv4_part(last).has_value();
}

Result<IpAddress> loose_ipv4(std::string_view text, const std::vector<std::string_view>& parts) {
  if (parts.size() > 4) return wrong(text, "an IPv4 address has at most four parts");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto part = ipv4_part(parts[i]);
    bool last = i + 1 == parts.size();
    // The last part fills all bytes that are left.
    std::uint64_t bound = last ? std::uint64_t{1} << (8 * (4 - i)) : 256;
    if (!part || *part >= bound) return wrong(text, "its last label is a number, and it is no IPv4 address");
    value |= last ? *part : *part << (8 * (3 - i));
  }
  return IpAddress::v4(static_cast<std::uint32_t>(value));
}

Result<IpAddress> bracketed(std::string_view text) {
  if (text.size() < 4 || text.back() != ']') return wrong(text, "the bracket is not closed at its end");
  auto inner = text.substr(1, text.size() - 2);
  if (inner.find('%') != std::string_view::npos) return wrong(text, "an address with a zone is refused");
  auto address = parse_ip(inner);
  if (!address.ok() || inner.find(':') == std::string_view::npos)
    return wrong(text, "there is no IPv6 address in the brackets");
  return address;
}

Result<void> check_label(std::string_view text, std::string_view label) {
  if (label.empty()) return wrong(text, "a label is empty");
  if (label.size() > kMaxLabelBytes) return wrong(text, "a label is longer than 63 bytes");
  if (!std::all_of(label.begin(), label.end(), is_ldh))
    return wrong(text, "only letters, digits and hyphens can be in a name");
  if (label.front() == '-' || label.back() == '-') return wrong(text, "a label begins or ends with a hyphen");
  return {};
}

}  // namespace

std::string Host::text() const {
  if (!is_address()) return name();
  return address().is_v4() ? address().text() : "[" + address().text() + "]";
}

Result<Host> parse_host(std::string_view text) {
  if (text.empty()) return wrong(text, "it is empty");
  if (text.size() > kMaxSpellingBytes) return wrong(text, "it is longer than 253 bytes");
  if (text.front() == '[') {
    TRY(IpAddress address, bracketed(text));
    return Host(address);
  }
  if (text.find('\0') != std::string_view::npos) return wrong(text, "it contains NUL");
  if (text.find('%') != std::string_view::npos) return wrong(text, "percent-encoding has no place in a host");
  if (text.find(':') != std::string_view::npos) return wrong(text, "an IPv6 address stands in brackets");
  std::string name = to_lower(text);
  if (!is_ascii(text)) {
    TRY(name, encode(text));
    name = to_lower(name);
  }
  if (name.ends_with('.')) name.pop_back();
  if (name.size() > kMaxNameBytes) return wrong(text, "it is longer than 253 bytes");
  auto labels = split(name, '.');
  for (auto label : labels) TRY_VOID(check_label(text, label));
  if (ends_in_number(labels.back())) {
    TRY(IpAddress address, loose_ipv4(text, labels));
    return Host(address);
  }
  return Host(std::move(name));
}

}  // namespace atl::gateway
