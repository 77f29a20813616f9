// SPDX-License-Identifier: Apache-2.0
//
// Scanner: finds secrets in a stream of bytes, however it is cut, and puts something else in their place.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"

namespace atl::gateway {

// What is looked for, as one automaton (Aho and Corasick). Immutable, shared by the streams that use it; its
// memory is wiped when it goes.
class SecretPatterns {
 public:
  struct Pattern {
    Secret text;              // as it would stand in an answer, for example base64; empty ones are ignored
    std::string placeholder;  // what stands there instead
  };
  explicit SecretPatterns(const std::vector<Pattern>& patterns);
  SecretPatterns(const SecretPatterns&) = delete;
  SecretPatterns& operator=(const SecretPatterns&) = delete;
  ~SecretPatterns();

  bool empty() const { return nodes_.size() <= 1; }
  std::size_t bytes() const { return nodes_.capacity() * sizeof(Node); }  // of memory
  // Replaces in a text that is whole; the number of places that were replaced.
  std::size_t replace(std::string& text) const;

 private:
  friend class SecretScanner;
  // A prefix of some patterns. Children are a list, since most have one.
  struct Node {
    std::uint32_t fail = 0;  // the longest other prefix that this one ends with
    std::uint32_t first_child = 0;
    std::uint32_t next_sibling = 0;
    std::uint32_t depth = 0;
    std::uint32_t match = 0;        // length of the longest pattern that ends here, 0 for none
    std::uint32_t placeholder = 0;  // of that pattern
    char byte = 0;
  };
  std::uint32_t child(std::uint32_t node, char byte) const;
  std::uint32_t next(std::uint32_t node, char byte) const;
  void add(const Pattern& pattern);
  void link();

  std::vector<Node> nodes_;  // made once in full size, so that no copies stay behind
  std::vector<std::string> placeholders_;
  std::array<std::uint32_t, 256> first_{};  // the root's children
};

// One stream. What may still become a secret is held back: never more than the longest pattern, and nothing
// when the stream's end so far is no beginning of one.
class SecretScanner {
 public:
  explicit SecretScanner(std::shared_ptr<const SecretPatterns> patterns) : patterns_(std::move(patterns)) {}
  SecretScanner(const SecretScanner&) = delete;
  SecretScanner& operator=(const SecretScanner&) = delete;
  ~SecretScanner();

  // Appends to `out` what is settled. Bytes that several patterns cover become one placeholder.
  void feed(std::string_view in, std::string& out);
  // Appends the rest, although it may be the beginning of a secret. The stream goes on: the rest of one that
  // has begun is found as such.
  void flush(std::string& out);
  // The stream has ended: appends the rest.
  void finish(std::string& out);
  std::size_t incidents() const { return incidents_; }  // placeholders that were written

 private:
  void release(std::size_t count, std::string& out);

  std::shared_ptr<const SecretPatterns> patterns_;
  std::uint32_t state_ = 0;
  std::string held_;  // the last bytes; with those that were settled early, as many as the state is deep
  std::vector<bool> covered_;  // which of them belong to a secret
  std::uint32_t placeholder_ = 0;
  bool in_secret_ = false;  // the last released byte was covered
  std::size_t incidents_ = 0;
};

}  // namespace atl::gateway
