// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace atl::cli {
namespace {

// Reached from signal handlers, so it is global and plain.
termios saved_mode;
std::atomic<bool> is_raw{false};

void restore_now() {
  if (is_raw.exchange(false)) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_mode);  // async-signal-safe (POSIX)
}

extern "C" void restore_and_die(int number) {
  restore_now();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void install_handlers() {
  static bool done = false;
  if (done) return;
  done = true;
  std::atexit(restore_now);
  for (int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPIPE}) {
    struct sigaction action{};
    action.sa_handler = restore_and_die;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

std::optional<TerminalSize> terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return std::nullopt;
  // A terminal that does not know its size says 0.
  return TerminalSize{size.ws_col > 0 ? size.ws_col : 80U, size.ws_row > 0 ? size.ws_row : 24U};
}

Result<void> RawMode::enter() {
  if (!is_raw) {
    if (::tcgetattr(STDIN_FILENO, &saved_mode) != 0)
      return Error::from_errno(errno, "read the terminal's mode");
    install_handlers();
    is_raw = true;
  }
  termios raw = saved_mode;
  ::cfmakeraw(&raw);
  if (::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0) return success();
  is_raw = false;
  return Error::from_errno(errno, "set the terminal to raw mode");
}

void RawMode::leave() { restore_now(); }

EscapeFilter::Output EscapeFilter::feed(std::string_view typed) {
  Output out;
  for (char c : typed) {
    if (at_ == At::kTilde) {
      if (c == '.') {
        out.leave = true;
        return out;
      }
      // "~~" sends one tilde; anything else sends the tilde that was held back and the key.
      out.pass += '~';
      at_ = At::kInLine;
      if (c == '~') continue;
    } else if (at_ == At::kLineStart && c == '~') {
      at_ = At::kTilde;
      continue;
    }
    out.pass += c;
    at_ = c == '\r' || c == '\n' ? At::kLineStart : At::kInLine;
  }
  return out;
}

}  // namespace atl::cli
