// SPDX-License-Identifier: Apache-2.0
//
// Records of sandboxes: `<directory>/<id>`, one fixed struct each. Written before anything of a sandbox
// exists (the intent), completed when it runs, changed before it comes to rest or goes on, removed when
// nothing of it is left. From them a restarted runner knows what is its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/runner_protocol.h"
#include "model/sandbox.h"
#include "model/slot_address.h"
#include "sys/files.h"

namespace atl::runner {

inline constexpr std::uint32_t kRecordMagic = 0x43455241;  // "AREC"
inline constexpr std::uint32_t kRecordVersion = 2;

inline constexpr std::uint32_t kLabelMark = 0x4c42414c;  // "LABL"

struct Record {
  std::uint32_t magic = kRecordMagic;
  std::uint32_t version = kRecordVersion;
  model::wire::Text<24> sandbox{};
  std::uint64_t generation = 0;
  std::uint64_t owner_epoch = 0;
  model::wire::Text<40> build{};
  std::uint32_t slot = 0;
  std::int32_t pid = 0;  // 0: only intended
  std::uint64_t start_ticks = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint32_t cpu_millis = 0;
  std::uint8_t tier = 0;
  std::uint8_t internet = 0;
  std::uint8_t allow_count = 0;
  std::uint8_t deny_count = 0;
  model::Cidr allow[model::kMaxNetworkRules]{};
  model::Cidr deny[model::kMaxNetworkRules]{};
  model::wire::Rest rest = model::wire::Rest::kRuns;  // how it stands, or is about to
  std::uint8_t labels = 0;                            // of commands, that have an identity
  std::uint32_t label_mark = 0;                       // kLabelMark: it can have labels, and `labels` is true

  // A record of an older runner has anything in the place of the two above.
  bool can_label() const { return label_mark == kLabelMark; }
  std::uint32_t label_count() const {
    return can_label() ? std::min<std::uint32_t>(labels, model::kMaxLabels) : 0;
  }
  void set_rules(const model::NetworkRules& rules);
  model::NetworkRules rules() const;
};

static_assert(sizeof(Record) == 776, "as older runners wrote it");

class RecordStore {
 public:
  // `durable`: records outlive a crash of the machine.
  explicit RecordStore(std::string directory, sys::Durable durable = sys::Durable::kNo)
      : directory_(std::move(directory)), durable_(durable) {}
  Result<void> write(const Record& record) const;
  // The same in two steps: the first takes all the room that is needed, and is seen by nobody. The second
  // does nothing without the first.
  Result<void> prepare(const Record& record) const;
  Result<void> complete(const std::string& sandbox) const;
  void remove(const std::string& sandbox) const;
  // All records. A file that is not one (wrong size, magic, version, name) is an error: it may stand for a
  // sandbox.
  Result<std::vector<Record>> read_all() const;

 private:
  std::string path_of(const std::string& sandbox) const { return directory_ + "/" + sandbox; }
  const std::string directory_;
  const sys::Durable durable_;
};

}  // namespace atl::runner
