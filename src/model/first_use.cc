// SPDX-License-Identifier: Apache-2.0
#include "model/first_use.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace atl::model {
namespace {

constexpr unsigned kMaxDoublings = 9;
constexpr Millis kFirstDelay = std::chrono::minutes(1);
constexpr Millis kLongestDelay = std::chrono::hours(6);

}  // namespace

// Lines of "key value": the text comes last and has no control characters.
std::string format_build_note(const BuildNote& note) {
  return fmt::format("state {}\npercent {}\nsince {}\nnot_before {}\ntries {}\nbroken {}\ntext {}\n",
                     note.state == BuildNote::State::kFailed ? "failed" : "building", note.percent,
                     note.since.ms, note.not_before.ms, note.tries, note.broken, printable(note.text));
}

Result<BuildNote> parse_build_note(std::string_view text) {
  std::map<std::string_view, std::string_view> values;
  for (std::string_view line : split(text, '\n')) {
    std::size_t space = line.find(' ');
    if (space != std::string_view::npos) values.emplace(line.substr(0, space), line.substr(space + 1));
  }
  auto percent = parse_number<int>(values["percent"]);
  auto since = parse_number<std::int64_t>(values["since"]);
  auto not_before = parse_number<std::int64_t>(values["not_before"]);
  auto tries = parse_number<unsigned>(values["tries"]);
  bool failed = values["state"] == "failed";
  if (!percent || !since || !not_before || !tries || (!failed && values["state"] != "building"))
    return make_error(Code::kCorrupt, "the note about a template's build is damaged");
  BuildNote note;
  note.state = failed ? BuildNote::State::kFailed : BuildNote::State::kBuilding;
  note.percent = *percent;
  note.text = values["text"];
  note.since = {*since};
  note.not_before = {*not_before};
  note.tries = *tries;
  note.broken = parse_number<unsigned>(values["broken"]).value_or(0);  // older notes have none
  return note;
}

Millis build_delay(unsigned tries) {
  unsigned doublings = std::min(tries == 0 ? 0U : tries - 1, kMaxDoublings);
  return std::min(kFirstDelay * (1U << doublings), kLongestDelay);
}

}  // namespace atl::model
