// SPDX-License-Identifier: Apache-2.0
//
// JsonPlace: where in a JSON text a reader is, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atl::gateway::vault {

// Follows a well-formed text; of another one it says only that it is lost.
class JsonPlace {
 public:
  static constexpr std::size_t kMaxDepth = 64;
  static constexpr std::size_t kMaxKey = 1024;

  void next(char c);
  // Inside a string that is a value (not a key).
  bool in_value() const { return state_ == State::kString && !is_key_; }
  // The JSON pointer (RFC 6901) of the value that the reader is in; of a key, that of its object.
  std::string pointer() const;
  // The text is no JSON, or deeper than kMaxDepth.
  bool lost() const { return lost_; }

 private:
  enum class State : std::uint8_t { kBetween, kString, kEscape, kHex };
  struct Level {
    bool object = false;
    bool awaits_key = false;
    std::string key;
    std::size_t index = 0;
  };
  void between(char c);
  void open(bool object);
  void close(bool object);
  void in_string(char c);
  void escaped(char c);
  void add_to_key(std::string_view bytes);

  std::vector<Level> levels_;
  State state_ = State::kBetween;
  bool is_key_ = false;
  bool lost_ = false;
  std::uint32_t hex_ = 0;
  int hex_digits_ = 0;
};

}  // namespace atl::gateway::vault
