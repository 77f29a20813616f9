// SPDX-License-Identifier: Apache-2.0
#include "runner/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>

namespace atl::runner {
namespace {

Result<pid_t> spawn(const std::vector<const char*>& files, char* const* words) {
  const char* environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null", nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int error = ENOENT;
  for (const char* file : files) {
    if (error == 0) break;
    error = ::posix_spawn(&pid, file, &actions, nullptr, words, const_cast<char**>(environment));
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return Error::from_errno(error, fmt::format("start {}", words[0])).with_hint("install e2fsprogs");
  return pid;
}

}  // namespace

Result<int> run_program(const std::vector<const char*>& files, const std::vector<std::string>& words) {
  std::vector<char*> raw;
  for (const std::string& word : words) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  TRY(pid_t pid, spawn(files, raw.data()));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Error::from_errno(errno, fmt::format("wait for {}", words.front()));
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return make_error(Code::kInternal, "{} was ended by signal {}", words.front(), WTERMSIG(status));
}

}  // namespace atl::runner
