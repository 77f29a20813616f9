// SPDX-License-Identifier: Apache-2.0
//
// The caller's terminal: its size, raw mode, and the way out of a session that hangs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/cli/guest_client.h"

namespace atl::cli {

// Size of the terminal behind `fd`; nullopt when it is none.
std::optional<TerminalSize> terminal_size(int fd);

// Raw mode on standard input while it lives. The old mode comes back on destruction, on exit(3), and on
// signals that end the process (abort, segmentation fault and their kind). One at a time.
class RawMode {
 public:
  RawMode() = default;
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  ~RawMode() { leave(); }
  Result<void> enter();  // again after SIGCONT: sets raw mode anew
  void leave();
};

// Finds "Enter ~ ." in what is typed: the way to leave when the other side is stuck, as in ssh(1). Typed text
// is passed on; the tilde is held back until the next key shows what was meant.
class EscapeFilter {
 public:
  struct Output {
    std::string pass;
    bool leave = false;
  };
  Output feed(std::string_view typed);

 private:
  enum class At { kLineStart, kInLine, kTilde };
  At at_ = At::kLineStart;
};

}  // namespace atl::cli
