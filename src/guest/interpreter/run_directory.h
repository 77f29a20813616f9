// SPDX-License-Identifier: Apache-2.0
//
// The folder in which the sockets and pipes of kernels lie, and what an earlier life of the interpreter has
// left: code in the sandbox can kill the program that runs it. Blocking.
#pragma once

#include <set>
#include <string>

#include "base/result.h"

namespace atl::guest::interpreter {

// Where it belongs: `memory`, when that is a tmpfs in which this user may write, else `disk`. A gVisor whose
// memory is stored cannot do without the names of files on a disk that are open, and can of those in a tmpfs;
// and what lies here is worth nothing after a boot.
std::string run_parent(const std::string& memory, const std::string& disk);

// A new one below `parent`, which only this user can enter.
Result<std::string> make_run_directory(const std::string& parent);

// Makes it again when code in the sandbox has removed it. kDenied when somebody else has put something in its
// place.
Result<void> keep_run_directory(const std::string& path);

// That code has run in the default context of `language`, for the next life, should this one end by itself.
Result<void> note_use(const std::string& run_directory, const std::string& language);

// Ends the kernels of earlier lives, which nobody could speak to any more, and removes their folders. Gives
// the languages whose default contexts had been used since the sandbox has booted, so that variables are
// lost.
std::set<std::string> sweep_earlier_lives(const std::string& parent);

}  // namespace atl::guest::interpreter
