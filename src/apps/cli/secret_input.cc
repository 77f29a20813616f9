// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/secret_input.h"

#include <sodium.h>
#include <termios.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

// Standard input does not show what is typed while this lives.
class Hidden {
 public:
  Hidden() {
    ok_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    hidden.c_lflag |= ECHONL;
    if (ok_) ok_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0;
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  ~Hidden() {
    if (ok_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  bool ok() const { return ok_; }

 private:
  termios before_{};
  bool ok_ = false;
};

Result<Secret> checked(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  Secret out(std::move(text));
  if (out.empty()) {
    return make_error(Code::kInvalid, "standard input has no value")
        .with_hint("give it as in: atoll secret set NAME < FILE");
  }
  return out;
}

}  // namespace

Result<Secret> read_secret_from(int fd) {
  auto text = sys::read_all(fd, kMaxSecret);
  if (!text.ok()) return std::move(text).error().context("read the value from standard input");
  return checked(std::move(*text));
}

Result<Secret> read_secret(const std::string& name) {
  if (!is_terminal(STDIN_FILENO)) return read_secret_from(STDIN_FILENO);
  Hidden hidden;
  if (!hidden.ok()) return make_error(Code::kUnavailable, "this terminal cannot hide what is typed");
  print_note(fmt::format("value of {} (not shown):", printable(name)));
  std::string line(kMaxSecret, '\0');
  auto count = ::read(STDIN_FILENO, line.data(), line.size());  // a terminal gives one line
  line.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return checked(std::move(line));
}

Task<Result<int>> wait_for_device(std::shared_ptr<ApiClient> api, std::string path, int interval_s) {
  for (;;) {
    co_await async::sleep_for(std::chrono::seconds(interval_s));
    json::value nothing = json::object();
    CO_TRY(ApiReply reply, co_await api->call("POST", path, std::move(nothing)));
    if (flag_at(reply.body, "done")) break;
    if (api->session().ending()) co_return make_error(Code::kCancelled, "ended before it was authorized");
  }
  write_out("authorized\n");
  co_return kExitOk;
}

}  // namespace atl::cli
