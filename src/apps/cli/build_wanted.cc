// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/build_wanted.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "apps/cli/supervisor.h"
#include "base/log.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

using model::BuildNote;

constexpr std::size_t kMaxReason = 1000;  // of a failure, in the note

// The last of it, which has the error itself; no character is cut in two.
std::string end_of(const std::string& why) {
  std::size_t at = why.size() > kMaxReason ? why.size() - kMaxReason : 0;
  while (at < why.size() && (static_cast<unsigned char>(why[at]) & 0xC0) == 0x80) ++at;
  return why.substr(at);
}

std::string notes_folder(const std::string& data_dir) {
  return fmt::format("{}/templates/{}", data_dir, model::kNotesFolder);
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return success();
  return Error::from_errno(errno, "remove " + path);
}

// Waits for it. Control may read it, to see whether it is held.
Result<sys::Fd> take_lock(const std::string& path) {
  TRY(sys::Fd lock, sys::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
  if (::fchmod(lock.get(), 0644) != 0) return Error::from_errno(errno, "open to readers " + path);
  struct flock all{};
  all.l_type = F_WRLCK;
  while (::fcntl(lock.get(), F_OFD_SETLKW, &all) != 0) {
    if (errno != EINTR) return Error::from_errno(errno, "lock " + path);
  }
  return lock;
}

class Builder {
 public:
  Builder(const BuildWantedOptions& options, Clock& clock)
      : options_(options),
        clock_(clock),
        wanted_dir_(fmt::format("{}/control/{}", options.data_dir, model::kWantedFolder)),
        notes_dir_(notes_folder(options.data_dir)) {}

  Result<void> run() {
    TRY_VOID(sys::ensure_directory(notes_dir_, 0755));
    TRY(sys::Fd lock, take_lock(fmt::format("{}/{}", notes_dir_, model::kBuilderLock)));
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
    auto text = sys::read_file(note_path(name));
    auto before = text.ok() ? model::parse_build_note(*text) : Result<BuildNote>(text.error());
    if (!before.ok()) return build(name, 1, 0);
    if (before->state == BuildNote::State::kFailed) {
      // Control does not ask so soon; whoever does gets nothing for it.
      if (clock_.now() < before->not_before) return take_away(name);
      return build(name, before->tries + 1, 0);
    }
    // The lock is ours, so whoever wrote this is dead.
    unsigned broken = before->broken + 1;
    log::warn("a template build was broken off",
              {{"template", name}, {"try", before->tries}, {"percent", before->percent}});
    if (broken < model::kMaxBrokenBuilds) return build(name, before->tries + 1, broken);
    return give_up(name, before->tries,
                   fmt::format("it was broken off {} times, the last time at {} % ({})", broken,
                               before->percent, before->text));
  }

  Result<void> build(const std::string& name, unsigned tries, unsigned broken) {
    BuildNote note;
    note.text = "starting";
    note.since = clock_.now();
    note.tries = tries;
    note.broken = broken;
    TRY_VOID(write(name, note));
    log::info("template build begins", {{"template", name}, {"try", tries}, {"broken_off", broken}});
    auto built = options_.build(name, [&](int percent, const std::string& step) {
      if (percent == note.percent && step == note.text) return;
      note.percent = percent;
      note.text = step;
      // A build does not fail because nobody can see how far it is.
      if (auto told = write(name, note); !told.ok())
        log::warn("progress is not shown", {{"why", told.error().message()}});
    });
    if (!built.ok()) return give_up(name, tries, built.error());
    auto entered = options_.enter(name, *built);
    if (!entered.ok()) return give_up(name, tries, entered.error());
    if (*entered == BuildWantedOptions::Entered::kNow)
      log::info("template is ready", {{"template", name}, {"build", built->build}});
    else
      log::warn("there is a template of this name by now: it stays, and the build is not used",
                {{"template", name}, {"build", built->build}});
    // In this order: what asks for it goes last, so that a crash here is only a look more.
    if (auto gone = remove_file(note_path(name)); !gone.ok())
      log::warn("an old note stays", {{"template", name}, {"why", gone.error().message()}});
    return take_away(name);
  }

  Result<void> give_up(const std::string& name, unsigned tries, const Error& error) {
    bool hinted = !error.hint().empty();
    return give_up(name, tries,
                   hinted ? fmt::format("{} ({})", error.message(), error.hint()) : error.message());
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

Result<void> forget_build_note(const std::string& data_dir, const std::string& name) {
  return remove_file(fmt::format("{}/{}", notes_folder(data_dir), name));
}

}  // namespace atl::cli
