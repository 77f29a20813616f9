// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/json_place.h"

#include <fmt/format.h>

namespace atl::gateway::vault {

void JsonPlace::next(char c) {
  switch (state_) {
    case State::kBetween: return between(c);
    case State::kString: return in_string(c);
    case State::kEscape: return escaped(c);
    case State::kHex: break;
  }
  int digit = c >= '0' && c <= '9'                     ? c - '0'
              : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                       : -1;
  if (digit < 0) lost_ = true;
  hex_ = hex_ * 16 + static_cast<std::uint32_t>(digit < 0 ? 0 : digit);
  if (++hex_digits_ < 4) return;
  state_ = State::kString;
  // A key with other characters than ASCII written so matches no pointer: it is kept as it was spelled.
  if (hex_ < 0x80) {
    char plain = static_cast<char>(hex_);
    add_to_key({&plain, 1});
  } else {
    add_to_key(fmt::format("\\u{:04x}", hex_));
  }
}

void JsonPlace::between(char c) {
  switch (c) {
    case '{': return open(true);
    case '[': return open(false);
    case '}': return close(true);
    case ']': return close(false);
    case '"':
      state_ = State::kString;
      is_key_ = !levels_.empty() && levels_.back().awaits_key;
      if (is_key_) levels_.back().key.clear();
      return;
    case ':':
      if (!levels_.empty()) levels_.back().awaits_key = false;
      return;
    case ',':
      if (levels_.empty()) {
        lost_ = true;
      } else if (levels_.back().object) {
        levels_.back().awaits_key = true;
      } else {
        ++levels_.back().index;
      }
      return;
    default: return;  // numbers, words, blanks
  }
}

void JsonPlace::open(bool object) {
  if (levels_.size() == kMaxDepth) {
    lost_ = true;
    return;
  }
  levels_.push_back({object, object, "", 0});
}

void JsonPlace::close(bool object) {
  if (levels_.empty() || levels_.back().object != object) {
    lost_ = true;
    return;
  }
  levels_.pop_back();
}

void JsonPlace::in_string(char c) {
  if (c == '"') {
    state_ = State::kBetween;
  } else if (c == '\\') {
    state_ = State::kEscape;
  } else {
    add_to_key({&c, 1});
  }
}

void JsonPlace::escaped(char c) {
  state_ = State::kString;
  switch (c) {
    case 'u':
      state_ = State::kHex;
      hex_ = 0;
      hex_digits_ = 0;
      return;
    case 'b': return add_to_key("\b");
    case 'f': return add_to_key("\f");
    case 'n': return add_to_key("\n");
    case 'r': return add_to_key("\r");
    case 't': return add_to_key("\t");
    default: return add_to_key({&c, 1});
  }
}

void JsonPlace::add_to_key(std::string_view bytes) {
  if (!is_key_) return;
  auto& key = levels_.back().key;
  if (key.size() + bytes.size() > kMaxKey) {
    lost_ = true;
    return;
  }
  key += bytes;
}

std::string JsonPlace::pointer() const {
  std::string out;
  for (const auto& level : levels_) {
    out += '/';
    if (!level.object) {
      out += fmt::format("{}", level.index);
      continue;
    }
    for (char c : level.key) {
      if (c == '~') {
        out += "~0";
      } else if (c == '/') {
        out += "~1";
      } else {
        out += c;
      }
    }
  }
  return out;
}

}  // namespace atl::gateway::vault
