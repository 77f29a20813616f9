// SPDX-License-Identifier: Apache-2.0
#include "runner/records.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sys/files.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

constexpr char kPrepared[] = ".next.tmp";  // removed by read_all()

std::string_view bytes_of(const Record& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

}  // namespace

void Record::set_rules(const model::NetworkRules& rules) {
  internet = rules.internet ? 1 : 0;
  allow_count = static_cast<std::uint8_t>(std::min(rules.allow.size(), model::kMaxNetworkRules));
  deny_count = static_cast<std::uint8_t>(std::min(rules.deny.size(), model::kMaxNetworkRules));
  std::copy_n(rules.allow.begin(), allow_count, allow);
  std::copy_n(rules.deny.begin(), deny_count, deny);
}

model::NetworkRules Record::rules() const {
  model::NetworkRules rules;
  rules.internet = internet != 0;
  rules.allow.assign(allow, allow + std::min<std::size_t>(allow_count, model::kMaxNetworkRules));
  rules.deny.assign(deny, deny + std::min<std::size_t>(deny_count, model::kMaxNetworkRules));
  return rules;
}

Result<void> RecordStore::write(const Record& record) const {
  return sys::replace_file(path_of(record.sandbox.str()), bytes_of(record), 0600, durable_);
}

Result<void> RecordStore::prepare(const Record& record) const {
  return sys::replace_file(path_of(record.sandbox.str()) + kPrepared, bytes_of(record), 0600, durable_);
}

Result<void> RecordStore::complete(const std::string& sandbox) const {
  std::string to = path_of(sandbox);
  if (::rename((to + kPrepared).c_str(), to.c_str()) != 0 && errno != ENOENT)
    return Error::from_errno(errno, fmt::format("rename to {}", to));
  return durable_ == sys::Durable::kYes ? sys::sync_path(directory_) : success();
}

void RecordStore::remove(const std::string& sandbox) const {
  ::unlink(path_of(sandbox).c_str());
  ::unlink((path_of(sandbox) + kPrepared).c_str());
}

Result<std::vector<Record>> RecordStore::read_all() const {
  std::vector<Record> records;
  TRY(std::vector<std::string> names, sys::list_directory(directory_));
  for (const std::string& name : names) {
    std::string path = directory_ + "/" + name;
    if (name.ends_with(".tmp")) {  // a write that was cut off; the file it was to replace is whole
      ::unlink(path.c_str());
      continue;
    }
    TRY(std::string bytes, sys::read_file(path));
    Record record;
    if (bytes.size() == sizeof record) std::memcpy(&record, bytes.data(), sizeof record);
    bool good = bytes.size() == sizeof record && record.magic == kRecordMagic &&
                record.version == kRecordVersion && record.sandbox.str() == name &&
                model::valid_sandbox_id(name);
    if (!good) {
      return make_error(Code::kCorrupt, "{} is not a record of this version", path)
          .with_hint("stop its sandbox by hand and remove the file");
    }
    records.push_back(record);
  }
  return records;
}

}  // namespace atl::runner
