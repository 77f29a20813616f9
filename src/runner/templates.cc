// SPDX-License-Identifier: Apache-2.0
#include "runner/templates.h"

#include <fcntl.h>
#include <unistd.h>

#include "sys/files.h"
#include "sys/loop.h"
#include "sys/mount.h"

namespace atl::runner {

bool valid_build(const std::string& build) {
  if (build.size() != 36) return false;
  for (std::size_t i = 0; i < build.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    char c = build[i];
    bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (dash ? c != '-' : !hex) return false;
  }
  return true;
}

TemplateCache::TemplateCache(std::string directory, std::string stage)
    : directory_(std::move(directory)), stage_(std::move(stage)) {}

std::shared_ptr<TemplateCache::Build> TemplateCache::find(const std::string& build) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Build>& entry = builds_[build];
  if (!entry) entry = std::make_shared<Build>();
  return entry;
}

Result<void> TemplateCache::prepare(const std::string& build) {
  std::shared_ptr<Build> entry = find(build);
  std::lock_guard lock(entry->mutex);
  return mount(build, *entry);
}

Result<void> TemplateCache::mount(const std::string& build, Build& entry) const {
  if (entry.mounted) return success();
  std::string path = fmt::format("{}/{}/root.erofs", directory_, build);
  Result<sys::Fd> image = sys::open_file(path, O_RDONLY | O_NOFOLLOW);
  if (!image.ok()) {
    return std::move(image)
        .error()
        .context(fmt::format("template build {}", build))
        .with_word("template_not_found")
        .with_hint("build the template again: atoll template");
  }
  TRY(sys::LoopDevice loop, sys::attach_loop(image->get(), sys::LoopMode::kReadOnly));
  Result<sys::Fd> mount =
      sys::mount_new("erofs", {{"source", loop.path}, {"ro", ""}}, sys::kReadOnly | sys::kNoDev);
  if (!mount.ok()) {
    return std::move(mount)
        .error()
        .context(fmt::format("template build {}", build))
        .with_hint("the kernel needs erofs (CONFIG_EROFS_FS), and the image must be whole");
  }
  TRY_VOID(sys::ensure_directory(mount_point(build), 0700));
  TRY_VOID(sys::attach_mount(mount->get(), mount_point(build)));
  entry.mounted = true;
  return success();
}

Result<sys::Fd> TemplateCache::clone(const std::string& build, int userns) {
  std::shared_ptr<Build> entry = find(build);
  std::unique_lock lock(entry->mutex);  // forget() in between would leave an empty folder to copy
  TRY_VOID(mount(build, *entry));
  TRY(sys::Fd copy, sys::clone_mount(AT_FDCWD, mount_point(build)));
  lock.unlock();
  TRY_VOID(sys::idmap_mount(copy.get(), userns));
  return copy;
}

void TemplateCache::forget(const std::string& build) {
  std::shared_ptr<Build> entry = find(build);
  std::lock_guard lock(entry->mutex);
  if (entry->mounted) static_cast<void>(sys::unmount_lazily(mount_point(build)));
  entry->mounted = false;
  ::rmdir(mount_point(build).c_str());
}

}  // namespace atl::runner
