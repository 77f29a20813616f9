// SPDX-License-Identifier: Apache-2.0
//
// What the command says: results on standard output (text or JSON), everything else on standard error.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace atl::cli {

namespace json = boost::json;

enum class Colour { kNone, kRed, kGreen, kYellow, kBold, kDim };

// Wraps `text` in a colour when `fd` is a terminal, NO_COLOR is unset or empty, and TERM is not "dumb".
std::string paint(int fd, Colour colour, std::string_view text);

// Writes all of `text`; ends the process quietly when nobody reads any more (EPIPE), as a filter should.
void write_out(std::string_view text);
void write_err(std::string_view text);
// The same for a command that has something to tidy up when nobody reads: EPIPE is an error value.
Result<void> try_write(int fd, std::string_view text);

// One line of JSON on standard output.
void print_json(const json::value& value);
// "atoll: message" and the hint below it, or {"error":{...}} with --json. On standard error.
void print_error(const Error& error, bool as_json);
void print_note(std::string_view text);  // "atoll: text", on standard error

// Left-aligned columns, cut at nothing; numbers are the caller's text. The heading is bold on a terminal.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::size_t size() const { return rows_.size() - 1; }
  std::string text(bool heading_bold) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};
void print_table(const Table& table);
// A list of the API: as it is with `as_json`, else as a table with a row for each.
void print_list(const json::array& all, bool as_json, std::vector<std::string> heading,
                const std::function<std::vector<std::string>(const json::value& one)>& row);

// A line on standard error that is rewritten in place. Shows nothing when standard error is no terminal, and
// nothing in the first second, so that quick work stays quiet.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Bytes or steps done so far; `total` 0 when unknown.
  void update_bytes(std::uint64_t done, std::uint64_t total);
  void update(std::string_view state);
  void clear();

 private:
  bool due();
  void draw(std::string_view line);
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  Steady::time_point start_ = Steady::now();
  Steady::time_point last_{};
};

// Columns of the terminal behind `fd`, 80 when it is none.
unsigned terminal_columns(int fd);
// True when a person reads `fd`.
bool is_terminal(int fd);

}  // namespace atl::cli
