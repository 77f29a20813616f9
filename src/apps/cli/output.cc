// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <boost/json/serialize.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/parse.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr Steady::duration kQuietTime = std::chrono::seconds(1);
constexpr Steady::duration kRedrawEvery = std::chrono::milliseconds(100);

bool wants_colour(int fd) {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb" && is_terminal(fd);
}

void write_or_exit(int fd, std::string_view text) {
  auto written = try_write(fd, text);
  if (written.ok()) return;
  if (written.error().sys_errno() == EPIPE)
    ::_exit(fd == STDOUT_FILENO ? kExitSignalBase + SIGPIPE : kExitAtoll);
  if (fd != STDOUT_FILENO) return;
  print_error(written.error(), false);
  ::_exit(kExitAtoll);
}

// Columns that the text takes, counting code points: good enough for ids, names and paths.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

unsigned terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string paint(int fd, Colour colour, std::string_view text) {
  if (colour == Colour::kNone || !wants_colour(fd)) return std::string(text);
  const char* code = "0";
  switch (colour) {
    case Colour::kRed: code = "31"; break;
    case Colour::kGreen: code = "32"; break;
    case Colour::kYellow: code = "33"; break;
    case Colour::kBold: code = "1"; break;
    case Colour::kDim: code = "2"; break;
    case Colour::kNone: break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void write_out(std::string_view text) { write_or_exit(STDOUT_FILENO, text); }
void write_err(std::string_view text) { write_or_exit(STDERR_FILENO, text); }

Result<void> try_write(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd item{fd, POLLOUT, 0};  // somebody else has set the shared description to non-blocking
      ::poll(&item, 1, -1);
    } else if (errno != EINTR) {
      return Error::from_errno(errno,
                               fd == STDOUT_FILENO ? "write to standard output" : "write to standard error");
    }
  }
  return success();
}

void print_json(const json::value& value) { write_out(json::serialize(value) + "\n"); }

void print_error(const Error& error, bool as_json) {
  if (as_json) {
    json::object detail{{"code", std::string(error.word())}, {"message", error.message()}};
    if (!error.hint().empty()) detail["hint"] = error.hint();
    write_err(json::serialize(json::object{{"error", std::move(detail)}}) + "\n");
    return;
  }
  std::string text = paint(STDERR_FILENO, Colour::kRed, "atoll:") + " " + error.message() + "\n";
  if (!error.hint().empty()) text += "  " + error.hint() + "\n";
  write_err(text);
}

void print_note(std::string_view text) { write_err(fmt::format("atoll: {}\n", text)); }

std::string Table::text(bool heading_bold) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      line += rows_[r][i];
      if (i + 1 < rows_[r].size()) line.append(widths[i] - width(rows_[r][i]) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += (r == 0 && heading_bold ? paint(STDOUT_FILENO, Colour::kBold, line) : line) + "\n";
  }
  return out;
}

void print_table(const Table& table) { write_out(table.text(true)); }

void print_list(const json::array& all, bool as_json, std::vector<std::string> heading,
                const std::function<std::vector<std::string>(const json::value& one)>& row) {
  if (as_json) return print_json(all);
  Table table(std::move(heading));
  for (const json::value& one : all) table.add(row(one));
  print_table(table);
}

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(is_terminal(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

bool Progress::due() {
  auto now = Steady::now();
  if (!terminal_ || now - start_ < kQuietTime || now - last_ < kRedrawEvery) return false;
  last_ = now;
  return true;
}

void Progress::draw(std::string_view line) {
  // Cut to one row, so that the carriage return finds its beginning again.
  std::size_t limit = terminal_columns(STDERR_FILENO) - 1;
  write_err(fmt::format("\r\x1b[K{}", line.substr(0, limit)));
  shown_ = true;
}

void Progress::update_bytes(std::uint64_t done, std::uint64_t total) {
  if (!due()) return;
  double seconds = std::chrono::duration<double>(Steady::now() - start_).count();
  auto rate = static_cast<std::uint64_t>(static_cast<double>(done) / seconds);
  std::string line = fmt::format("{}: {}", what_, format_bytes(done));
  if (total > 0) line += fmt::format(" of {} ({} %)", format_bytes(total), done * 100 / total);
  draw(line + fmt::format(", {}/s", format_bytes(rate)));
}

void Progress::update(std::string_view state) {
  if (!due()) return;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Steady::now() - start_);
  draw(fmt::format("{}: {} ({})", what_, printable(state), format_duration(seconds)));
}

void Progress::clear() {
  if (shown_) write_err("\r\x1b[K");
  shown_ = false;
}

}  // namespace atl::cli
