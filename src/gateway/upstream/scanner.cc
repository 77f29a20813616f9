// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/scanner.h"

#include <sodium.h>

#include <algorithm>
#include <deque>

namespace atl::gateway {

SecretPatterns::SecretPatterns(const std::vector<Pattern>& patterns) {
  std::size_t total = 1;
  for (const auto& pattern : patterns) total += pattern.text.reveal().size();
  nodes_.reserve(total);
  nodes_.emplace_back();
  for (const auto& pattern : patterns) add(pattern);
  link();
}

SecretPatterns::~SecretPatterns() { sodium_memzero(nodes_.data(), nodes_.size() * sizeof(Node)); }

std::uint32_t SecretPatterns::child(std::uint32_t node, char byte) const {
  if (node == 0) return first_[static_cast<unsigned char>(byte)];
  auto at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

void SecretPatterns::add(const Pattern& pattern) {
  const auto& text = pattern.text.reveal();
  std::uint32_t node = 0;
  for (char byte : text) {
    auto found = child(node, byte);
    if (found == 0) {
      found = static_cast<std::uint32_t>(nodes_.size());
      Node made;
      made.byte = byte;
      made.depth = nodes_[node].depth + 1;
      made.next_sibling = nodes_[node].first_child;
      nodes_.push_back(made);
      nodes_[node].first_child = found;
      if (node == 0) first_[static_cast<unsigned char>(byte)] = found;
    }
    node = found;
  }
  if (node == 0) return;
  nodes_[node].match = nodes_[node].depth;
  nodes_[node].placeholder = static_cast<std::uint32_t>(placeholders_.size());
  placeholders_.push_back(pattern.placeholder);
}

// By depth: what a node falls back to is less deep, so it is settled before.
void SecretPatterns::link() {
  std::deque<std::uint32_t> queue;
  for (auto at = nodes_[0].first_child; at != 0; at = nodes_[at].next_sibling) queue.push_back(at);
  while (!queue.empty()) {
    auto node = queue.front();
    queue.pop_front();
    for (auto at = nodes_[node].first_child; at != 0; at = nodes_[at].next_sibling) {
      nodes_[at].fail = next(nodes_[node].fail, nodes_[at].byte);
      const auto& back = nodes_[nodes_[at].fail];
      if (nodes_[at].match == 0 && back.match != 0) {
        nodes_[at].match = back.match;
        nodes_[at].placeholder = back.placeholder;
      }
      queue.push_back(at);
    }
  }
}

std::uint32_t SecretPatterns::next(std::uint32_t node, char byte) const {
  for (;;) {
    auto found = child(node, byte);
    if (found != 0 || node == 0) return found;
    node = nodes_[node].fail;
  }
}

std::size_t SecretPatterns::replace(std::string& text) const {
  if (empty()) return 0;
  // Does not own the patterns: they outlive this call.
  SecretScanner scanner(std::shared_ptr<const SecretPatterns>(std::shared_ptr<void>(), this));
  std::string out;
  scanner.feed(text, out);
  scanner.finish(out);
  if (scanner.incidents() > 0) text = std::move(out);
  return scanner.incidents();
}

SecretScanner::~SecretScanner() { sodium_memzero(held_.data(), held_.size()); }

void SecretScanner::feed(std::string_view in, std::string& out) {
  const auto& p = *patterns_;
  if (p.empty()) {
    out.append(in);
    return;
  }
  std::size_t i = 0;
  while (i < in.size()) {
    if (state_ == 0) {
      // Most bytes begin nothing: they pass in one piece.
      auto from = i;
      while (i < in.size() && p.first_[static_cast<unsigned char>(in[i])] == 0) ++i;
      if (i > from) {
        out.append(in.substr(from, i - from));
        in_secret_ = false;
      }
      if (i == in.size()) return;
    }
    char byte = in[i++];
    state_ = p.next(state_, byte);
    held_ += byte;
    covered_.push_back(false);
    const auto& node = p.nodes_[state_];
    if (node.match != 0) {
      placeholder_ = node.placeholder;
      std::fill(covered_.end() - std::min<std::ptrdiff_t>(node.match, std::ssize(covered_)), covered_.end(),
                true);
    }
    if (held_.size() > node.depth) release(held_.size() - node.depth, out);
  }
  // What is known to be secret need not wait for what follows.
  auto settled = std::find(covered_.begin(), covered_.end(), false) - covered_.begin();
  release(static_cast<std::size_t>(settled), out);
}

void SecretScanner::flush(std::string& out) {
  release(held_.size(), out);
  in_secret_ = false;
}

void SecretScanner::finish(std::string& out) {
  flush(out);
  state_ = 0;
}

void SecretScanner::release(std::size_t count, std::string& out) {
  if (count == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (!covered_[i]) {
      out += held_[i];
    } else if (!in_secret_) {
      out += patterns_->placeholders_[placeholder_];
      ++incidents_;
    }
    in_secret_ = covered_[i];
  }
  held_.erase(0, count);
  covered_.erase(covered_.begin(), covered_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace atl::gateway
