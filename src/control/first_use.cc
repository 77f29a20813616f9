// SPDX-License-Identifier: Apache-2.0
#include "control/first_use.h"

#include <fcntl.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "model/known_templates.h"
#include "sys/files.h"

namespace atl::control {
namespace {

constexpr Millis kBeginLimit = std::chrono::seconds(30);  // then something is missing

std::string seconds_of(Millis time) {
  auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
  return seconds < 120 ? fmt::format("{} s", seconds) : fmt::format("{} min", (seconds + 59) / 60);
}

}  // namespace

FirstUse::FirstUse(const std::string& data_dir, Clock& clock)
    : wanted_dir_(fmt::format("{}/control/{}", data_dir, model::kWantedFolder)),
      notes_dir_(fmt::format("{}/templates/{}", data_dir, model::kNotesFolder)),
      log_path_(data_dir + "/log/template.log"),
      clock_(&clock) {}

Result<FirstUse> FirstUse::open(const std::string& data_dir, Clock& clock) {
  FirstUse out(data_dir, clock);
  TRY_VOID(sys::ensure_directory(out.wanted_dir_, 0700));
  return out;
}

bool FirstUse::knows(std::string_view name) {
  const auto& names = model::kFirstUseTemplates;
  return std::find(names.begin(), names.end(), name) != names.end();
}

unsigned FirstUse::Build::broken_off() const {
  if (!note || note->state == model::BuildNote::State::kFailed) return 0;
  return note->broken + (under_way ? 0 : 1);
}

// Asks the kernel, and takes no lock: the builder does not wait for us.
bool FirstUse::builder_lives() const {
  auto lock = sys::open_file(fmt::format("{}/{}", notes_dir_, model::kBuilderLock), O_RDONLY | O_NOFOLLOW);
  struct flock all{};
  all.l_type = F_RDLCK;
  return lock.ok() && ::fcntl(lock->get(), F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

FirstUse::Build FirstUse::look(const std::string& name) const {
  Build build;
  build.name = name;
  if (auto asked = sys::read_file(wanted_path(name)); asked.ok())
    build.asked = WallTime{parse_number<std::int64_t>(*asked).value_or(clock_->now().ms)};
  auto text = sys::read_file(fmt::format("{}/{}", notes_dir_, name));
  auto note = text.ok() ? model::parse_build_note(*text) : Result<model::BuildNote>(text.error());
  if (note.ok()) build.note = std::move(*note);
  build.under_way = build.note && build.note->state == model::BuildNote::State::kBuilding && builder_lives();
  return build;
}

std::vector<FirstUse::Build> FirstUse::builds() const {
  std::vector<Build> out;
  for (std::string_view name : model::kFirstUseTemplates) {
    Build build = look(std::string(name));
    bool failed = build.note && build.note->state == model::BuildNote::State::kFailed;
    if (build.asked || build.under_way || failed) out.push_back(std::move(build));
  }
  return out;
}

Error FirstUse::not_begun(const Build& build) const {
  Millis waited = build.asked ? clock_->now() - *build.asked : Millis(0);
  std::string text = fmt::format(
      "template '{}' is not built yet; its build begins now and takes some minutes: try again", build.name);
  if (waited > kBeginLimit)
    text = fmt::format(
        "template '{0}' is not built yet, and nothing has begun to build it for {1}: the supervisor of "
        "'atoll "
        "up' would, or the unit atoll-build.path; 'sudo atoll template build {0}' on the server builds it",
        build.name, seconds_of(waited));
  return Error(Code::kUnavailable, std::move(text)).with_word("template_building");
}

Error FirstUse::broken_off(const Build& build) const {
  return make_error(
             Code::kUnavailable,
             "template '{0}' is not built yet: its build was broken off at {1} % ({2}), try {3} of {4}: "
             "try again; where this stays so, nothing watches on the server, as the supervisor of 'atoll up' "
             "would, or the unit atoll-build.path",
             build.name, build.note->percent, build.note->text, build.broken_off(), model::kMaxBrokenBuilds)
      .with_word("template_building");
}

// Clients show only the message, so it says all.
Error FirstUse::ask(const std::string& name) const {
  Build build = look(name);
  bool failed = build.note && build.note->state == model::BuildNote::State::kFailed;
  Millis rest = failed ? build.note->not_before - clock_->now() : Millis(0);
  if (failed && rest > Millis(0)) {
    return make_error(Code::kUnavailable,
                      "template '{0}' could not be built: {1}; the log is {2} on the server; who asks in {3} "
                      "has it tried again, and 'sudo atoll template build {0}' there does so at once",
                      name, build.note->text, log_path_, seconds_of(rest))
        .with_word("template_build_failed");
  }
  if (!build.asked) {
    auto left = sys::replace_file(wanted_path(name), fmt::format("{}", clock_->now().ms), 0600);
    if (!left.ok())
      return std::move(left).error().context(fmt::format("ask for the build of template '{}'", name));
    log::info("template asked for, and not built yet", {{"template", name}});
  }
  if (!build.note || failed) return not_begun(build);
  if (!build.under_way) return broken_off(build);
  return make_error(Code::kUnavailable,
                    "template '{}' is being built, because nobody has asked for it before: {} % ({}), begun "
                    "{} ago; try again",
                    name, build.note->percent, build.note->text,
                    seconds_of(std::max(Millis(0), clock_->now() - build.note->since)))
      .with_word("template_building");
}

}  // namespace atl::control
