// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/build_wanted.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "apps/cli/supervisor.h"
#include "base/log.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

using model::BuildNote;

constexpr unsigned kMaxBroken = 3;        // builds in a row that were killed before it is called a failure
constexpr std::size_t kMaxReason = 1000;  // of a failure, in the note

// The last of it, which has the error itself; no character is cut in two.
std::string end_of(const std::string& why) {
  std::size_t at = why.size() > kMaxReason ? why.size() - kMaxReason : 0;
  while (at < why.size() && (static_cast<unsigned char>(why[at]) & 0xC0) == 0x80) ++at;
  return why.substr(at);
}

class Builder {
 public:
  Builder(const BuildWantedOptions& options, Clock& clock)
      : options_(options),
        clock_(clock),
        wanted_dir_(fmt::format("{}/control/{}", options.data_dir, model::kWantedFolder)),
        notes_dir_(fmt::format("{}/templates/{}", options.data_dir, model::kNotesFolder)) {}

  Result<void> run() {
    TRY_VOID(sys::ensure_directory(notes_dir_, 0755));
    std::string path = notes_dir_ + "/.lock";
    TRY(sys::Fd lock, sys::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
    while (::flock(lock.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return Error::from_errno(errno, "lock " + path);
    }
    for (const std::string& name : options_.names) {
      if (is_asked_for(wanted_dir_, name)) TRY_VOID(options_.allowed ? serve(name) : take_away(name));
    }
    return success();
  }

 private:
  std::string note_path(const std::string& name) const { return notes_dir_ + "/" + name; }

  Result<void> write(const std::string& name, const BuildNote& note) {
    return sys::replace_file(note_path(name), model::format_build_note(note), 0644);
  }

  // Root takes a name out of a folder of somebody else: of no other folder, wherever a link may lead.
  Result<void> take_away(const std::string& name) {
    TRY(sys::Fd folder, sys::open_file(wanted_dir_, O_PATH | O_DIRECTORY | O_NOFOLLOW));
    if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return success();
    return Error::from_errno(errno, fmt::format("remove {}/{}", wanted_dir_, name));
  }

  Result<void> serve(const std::string& name) {
    BuildNote before;
    auto text = sys::read_file(note_path(name));
    auto parsed = text.ok() ? model::parse_build_note(*text) : Result<BuildNote>(text.error());
    if (parsed.ok()) before = *parsed;
    bool failed = before.state == BuildNote::State::kFailed;
    // Control does not ask so soon; whoever does gets nothing for it.
    if (failed && clock_.now() < before.not_before) return take_away(name);
    if (!failed && before.tries >= kMaxBroken)
      return give_up(name, before.tries, fmt::format("it was broken off {} times", before.tries));
    return build(name, before.tries + 1);
  }

  Result<void> build(const std::string& name, unsigned tries) {
    BuildNote note;
    note.text = "starting";
    note.since = clock_.now();
    note.tries = tries;
    TRY_VOID(write(name, note));
    log::info("template build begins", {{"template", name}, {"try", tries}});
    auto built = options_.build(name, [&](int percent, const std::string& step) {
      if (percent == note.percent && step == note.text) return;
      note.percent = percent;
      note.text = step;
      // A build does not fail because nobody can see how far it is.
      if (auto told = write(name, note); !told.ok())
        log::warn("progress is not shown", {{"why", told.error().message()}});
    });
    Result<void> entered = success();
    if (built.ok()) entered = options_.enter(name, *built);
    if (built.ok() && entered.ok()) {
      log::info("template is ready", {{"template", name}, {"build", built->build}});
      // In this order: what asks for it goes last, so that a crash here is only a look more.
      if (::unlink(note_path(name).c_str()) != 0 && errno != ENOENT)
        log::warn("an old note stays", {{"template", name}});
      return take_away(name);
    }
    const Error& error = built.ok() ? entered.error() : built.error();
    return give_up(
        name, tries,
        error.hint().empty() ? error.message() : fmt::format("{} ({})", error.message(), error.hint()));
  }

  Result<void> give_up(const std::string& name, unsigned tries, std::string why) {
    log::error("template build failed", {{"template", name}, {"why", why}});
    BuildNote note;
    note.state = BuildNote::State::kFailed;
    note.text = end_of(why);
    note.since = clock_.now();
    note.not_before = note.since + model::build_delay(tries);
    note.tries = tries;
    TRY_VOID(write(name, note));
    return take_away(name);
  }

  const BuildWantedOptions& options_;
  Clock& clock_;
  const std::string wanted_dir_, notes_dir_;
};

}  // namespace

Result<void> build_wanted(const BuildWantedOptions& options, Clock& clock) {
  return Builder(options, clock).run();
}

}  // namespace atl::cli
