// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/prepared.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/fault.h"
#include "base/log.h"
#include "sys/files.h"

namespace atl::runner::microvm {
namespace {

MemoryWanted wanted_for(const StartSpec& spec, const std::string& runtime) {
  MemoryWanted wanted;
  wanted.build = spec.build;
  wanted.tier = static_cast<std::uint8_t>(model::Tier::kMicrovm);
  wanted.cpu_millis = spec.limits.cpu_millis;
  wanted.memory_bytes = spec.limits.memory_bytes;
  wanted.disk_bytes = spec.limits.disk_bytes;
  wanted.runtime = runtime;
  return wanted;
}

}  // namespace

// Of what a machine shows while it boots: its memory, its processors, and how large its disk is.
std::string PreparedMachines::key_of(const StartSpec& spec) {
  return fmt::format("{}-{}-{}-{}", spec.build, spec.limits.memory_bytes >> 20, spec.limits.cpu_millis,
                     spec.limits.disk_bytes >> 20);
}

std::string PreparedMachines::find(const StartSpec& spec, const std::string& runtime) {
  std::string path = folder(key_of(spec));
  Result<void> good = checks_.require(path, wanted_for(spec, runtime));
  if (good.ok()) return path;
  if (good.error().code() != Code::kNotFound) {
    log::info("a prepared machine is made anew", {{"why", good.error().message()}});
    drop(key_of(spec));
  }
  return {};
}

std::string PreparedMachines::begin(const std::string& key) {
  std::lock_guard lock(mutex_);
  std::string draft = directory_ + "/.new-" + key;
  if (!under_way_.insert(key).second) return {};
  if (remove_memory(draft).ok() && sys::ensure_directory(draft, 0700).ok()) return draft;
  under_way_.erase(key);
  return {};
}

void PreparedMachines::finish(const std::string& key, const StartSpec& spec, const std::string& runtime,
                              bool made) {
  std::string draft = directory_ + "/.new-" + key, path = folder(key);
  MemoryManifest manifest;
  manifest.build.set(spec.build);
  manifest.tier = static_cast<std::uint8_t>(model::Tier::kMicrovm);
  manifest.cpu_millis = spec.limits.cpu_millis;
  manifest.memory_bytes = spec.limits.memory_bytes;
  manifest.disk_bytes = spec.limits.disk_bytes;
  manifest.runtime.set(runtime);
  Result<void> sealed = made ? checks_.seal(draft, manifest) : success();
  FAULT("runner.prepared.sealed");
  std::lock_guard lock(mutex_);
  under_way_.erase(key);
  if (made && sealed.ok()) {
    make_room();
    static_cast<void>(remove_memory(path));
    if (::rename(draft.c_str(), path.c_str()) == 0) return checks_.remember(path);
    sealed = Error::from_errno(errno, "rename a prepared machine");
  }
  static_cast<void>(remove_memory(draft));
  if (!sealed.ok()) log::warn("no machine was prepared", {{"why", sealed.error().message()}});
}

void PreparedMachines::make_room() const {
  std::vector<std::string> names = sys::list_directory(directory_).value_or({});
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  if (names.size() < kMost) return;
  auto age = [this](const std::string& name) {
    struct stat info{};
    return ::stat(folder(name).c_str(), &info) == 0 ? info.st_mtim.tv_sec : 0;
  };
  auto eldest = std::min_element(names.begin(), names.end(), [&age](const auto& left, const auto& right) {
    return age(left) < age(right);
  });
  static_cast<void>(remove_memory(folder(*eldest)));
}

void PreparedMachines::drop(const std::string& key) {
  std::lock_guard lock(mutex_);
  static_cast<void>(remove_memory(folder(key)));
}

void PreparedMachines::forget(const std::string& build) {
  std::lock_guard lock(mutex_);
  for (const std::string& name : sys::list_directory(directory_).value_or({})) {
    if (name.starts_with(build + "-")) static_cast<void>(remove_memory(folder(name)));
  }
}

}  // namespace atl::runner::microvm
