// SPDX-License-Identifier: Apache-2.0
//
// What is on the disk about a batch with a key, so that no step of it runs twice, whatever ended in between:
// one file per key, to which the steps' beginnings and the lines of the answer are appended
// (docs/decisions/0106-batch-records.md). The files are data of root in the sandbox, and are read as such.
// Everything here blocks on the disk: use from a worker.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::guest {

// What a record says.
struct RecordedBatch {
  std::string digest;             // of the request's text, hexadecimal; empty when it cannot be read
  std::deque<std::string> lines;  // of the answer so far, each with its end
  std::set<std::string> begun;    // steps that have begun, done or not
  bool damaged = false;           // more may have happened than it says
};

// Reads the text of a record. Pure. What follows the last end of a line was being written and does not count.
RecordedBatch parse_record(std::string_view text, std::string_view key);
// That `step` begins now, as it is appended.
std::string begun_line(std::string_view step);
// What is left of a record when its output has to go: which steps began, and how each ended. Pure.
std::string shortened_record(std::string_view text);

// The records of one sandbox. Keeps nothing in memory.
class BatchRecords {
 public:
  // `directory` is made at the first write.
  explicit BatchRecords(std::string directory) : directory_(std::move(directory)) {}

  // nullopt for a key that is not known.
  std::optional<RecordedBatch> load(const std::string& key) const;
  // A new record that will be on the disk after any crash, ready for append_record(). The oldest ones make
  // room for it: first the output of ended ones goes, then they are forgotten; never those of the keys
  // `running`.
  Result<sys::Fd> create(const std::string& key, const std::string& digest,
                         const std::set<std::string>& running) const;
  // One that has not ended, to go on with.
  Result<sys::Fd> reopen(const std::string& key) const;
  // It will not be appended to any more, and may make room for others.
  Result<void> end(const std::string& key) const;

 private:
  std::string path(const std::string& key) const;
  void make_room(const std::set<std::string>& running) const;

  const std::string directory_;
};

// Returns when `text` outlives a crash.
Result<void> append_record(int fd, std::string_view text);

}  // namespace atl::guest
