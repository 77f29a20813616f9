// SPDX-License-Identifier: Apache-2.0
#include "model/sandbox.h"

#include <algorithm>

#include "base/random.h"
#include "base/text.h"

namespace atl::model {

std::string_view tier_name(Tier tier) {
  switch (tier) {
    case Tier::kContainer: return "container";
    case Tier::kGvisor: return "gvisor";
    case Tier::kMicrovm: return "microvm";
  }
  return "unknown";
}

std::optional<Tier> parse_tier(std::string_view name) {
  for (Tier tier : {Tier::kContainer, Tier::kGvisor, Tier::kMicrovm}) {
    if (tier_name(tier) == name) return tier;
  }
  return std::nullopt;
}

std::string_view state_name(State state) {
  switch (state) {
    case State::kReady: return "ready";
    case State::kCreating: return "creating";
    case State::kRunning: return "running";
    case State::kPausing: return "pausing";
    case State::kPaused: return "paused";
    case State::kResuming: return "resuming";
    case State::kStopping: return "stopping";
    case State::kStopped: return "stopped";
    case State::kFailed: return "failed";
  }
  return "unknown";
}

std::optional<State> parse_state(std::string_view name) {
  for (auto n = static_cast<int>(State::kReady); n <= static_cast<int>(State::kFailed); ++n) {
    if (state_name(static_cast<State>(n)) == name) return static_cast<State>(n);
  }
  return std::nullopt;
}

namespace {
std::optional<std::uint8_t> octet(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') return std::nullopt;  // "010" reads as octal elsewhere
  return parse_number<std::uint8_t>(text);
}
}  // namespace

std::optional<Cidr> parse_cidr(std::string_view text) {
  Cidr cidr;
  std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    std::string_view tail = text.substr(slash + 1);
    auto prefix = octet(tail);
    if (!prefix || *prefix > 32) return std::nullopt;
    cidr.prefix = *prefix;
    text = text.substr(0, slash);
  }
  auto parts = split(text, '.');
  if (parts.size() != 4) return std::nullopt;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    auto value = octet(parts[i]);
    if (!value) return std::nullopt;
    cidr.address[i] = *value;
    bits = bits << 8 | *value;
  }
  std::uint32_t mask = cidr.prefix == 0 ? 0 : ~0u << (32 - cidr.prefix);
  if ((bits & ~mask) != 0) return std::nullopt;
  return cidr;
}

std::string format_cidr(const Cidr& cidr) {
  auto& a = cidr.address;
  std::string text = fmt::format("{}.{}.{}.{}", a[0], a[1], a[2], a[3]);
  return cidr.prefix == 32 ? text : fmt::format("{}/{}", text, cidr.prefix);
}

namespace {
bool base36(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}
}  // namespace

bool valid_label(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

std::string new_sandbox_id() { return "i" + random_base36(20); }

bool valid_sandbox_id(std::string_view id) { return id.size() == 21 && id.front() == 'i' && base36(id); }

std::string new_snapshot_id() { return random_base36(20); }

bool valid_snapshot_id(std::string_view id) { return id.size() == 20 && base36(id); }

}  // namespace atl::model
