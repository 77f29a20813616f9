// SPDX-License-Identifier: Apache-2.0
#include "model/qmp.h"

#include <cstdint>

namespace atl::model {
namespace {

constexpr int kMaxDepth = 32;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMostMemory = 1ull << 42;

// Walks over JSON; reads nothing but what it is asked for.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool object(QmpLine& out) {
    int kinds = 0;
    bool good = members([&](std::string_view key) {
      if (key == "QMP") return kinds++, out.kind = QmpLine::Kind::kGreeting, skip(1);
      if (key == "event") return kinds++, out.kind = QmpLine::Kind::kEvent, skip(1);
      if (key == "return") return kinds++, out.kind = QmpLine::Kind::kReturn, answer(out);
      if (key == "error") return kinds++, out.kind = QmpLine::Kind::kError, answer(out);
      return skip(1);
    });
    blanks();
    return good && kinds == 1 && at_ == text_.size();
  }

 private:
  bool answer(QmpLine& out) {
    if (peek() != '{') return skip(1);
    return members([&](std::string_view key) {
      bool wanted = peek() == '"' && (key == "status" || key == "desc" || key == "error-desc");
      if (!wanted) return skip(2);
      std::string_view value;
      if (!string(value)) return false;
      (key == "status" ? out.status : out.reason) = value;
      return true;
    });
  }

  // `take(key)` stands before the value and must walk over it.
  template <class Take>
  bool members(Take take) {
    if (!eat('{')) return false;
    if (eat('}')) return true;
    do {
      std::string_view key;
      blanks();
      if (!string(key) || !eat(':') || !take(key)) return false;
    } while (eat(','));
    return eat('}');
  }

  bool skip(int depth) {
    if (depth > kMaxDepth) return false;
    char first = peek();
    std::string_view ignored;
    if (first == '"') return string(ignored);
    if (first == '{') return members([this, depth](std::string_view) { return skip(depth + 1); });
    if (first == '[') return list(depth);
    std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view("+-.0123456789Eaeflnrstu").find(text_[at_]) != text_.npos)
      ++at_;
    return at_ > begin;
  }

  bool list(int depth) {
    eat('[');
    if (eat(']')) return true;
    do {
      if (!skip(depth + 1)) return false;
    } while (eat(','));
    return eat(']');
  }

  bool string(std::string_view& out) {
    if (!eat('"')) return false;
    std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return false;
    out = text_.substr(begin, at_++ - begin);
    return true;
  }

  void blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  char peek() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::uint64_t big_endian(std::string_view bytes, std::size_t size) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < size; ++i) out = out << 8 | static_cast<unsigned char>(bytes[i]);
  return out;
}

}  // namespace

std::optional<QmpLine> parse_qmp(std::string_view line) {
  if (line.size() > kMaxQmpLine) return std::nullopt;
  QmpLine out;
  if (!Scanner(line).object(out)) return std::nullopt;
  return out;
}

// Behind the block's name: its length; then version 1, size of a page, and the two offsets, all big-endian
// (migration/ram.c of QEMU, mapped_ram_setup_ramblock).
std::optional<MappedRam> find_mapped_ram(std::string_view head, std::string_view block) {
  constexpr std::size_t kLength = 8, kVersion = 4, kRest = 24;
  std::string name(1, static_cast<char>(block.size()));
  name += block;
  std::size_t at = head.find(name);
  if (at == head.npos || head.size() - at < name.size() + kLength + kVersion + kRest) return std::nullopt;
  head.remove_prefix(at + name.size());
  MappedRam out;
  out.pages_bytes = big_endian(head, 8);
  std::uint64_t version = big_endian(head.substr(kLength), 4);
  std::string_view rest = head.substr(kLength + kVersion);
  std::uint64_t page = big_endian(rest, 8);
  out.bitmap_offset = big_endian(rest.substr(8), 8);
  out.pages_offset = big_endian(rest.substr(16), 8);
  out.bitmap_bytes = (out.pages_bytes / kPage + 7) / 8;
  bool good = version == 1 && page == kPage && out.pages_bytes % kPage == 0 &&
              out.pages_bytes <= kMostMemory && out.pages_offset % kPage == 0 &&
              out.bitmap_offset < out.pages_offset && out.pages_offset <= kMostMemory &&
              out.bitmap_bytes <= out.pages_offset - out.bitmap_offset;
  if (!good) return std::nullopt;
  return out;
}

}  // namespace atl::model
