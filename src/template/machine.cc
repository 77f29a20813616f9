// SPDX-License-Identifier: Apache-2.0
#include "template/machine.h"

#include <fcntl.h>

#include <filesystem>

#include <boost/json.hpp>

#include "model/machine.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "template/builds.h"
#include "template/jail.h"

namespace atl::templates {
namespace fs = std::filesystem;
namespace {

// The modules in the order in which they are loaded. What is built into a kernel, or not there any more, has
// no file and is left out. Our names may hold no blank; those of packages do not.
constexpr std::string_view kScript = R"sh(set -eu
kernel=$1 qemu=$2 work=$3
fail() { echo "$*"; exit 1; }
image=$(ls -v "$kernel"/boot/vmlinuz-*-cloud-amd64 2>/dev/null | tail -n 1)
[ -n "$image" ] || image=$(ls -v "$kernel"/boot/vmlinuz-*-amd64 2>/dev/null | tail -n 1)
[ -n "$image" ] ||
  fail "there is no kernel in $kernel/boot; install linux-image-cloud-amd64, or name a --kernel-tree"
version=${image##*/vmlinuz-}
[ -x "$qemu/usr/bin/qemu-system-x86_64" ] ||
  fail "there is no $qemu/usr/bin/qemu-system-x86_64; install qemu-system-x86, or name a --qemu-tree"
tree=$work/tree init=$work/init
mkdir -p "$tree/dev" "$tree/proc" "$tree/sys" "$tree/usr/bin" "$tree/usr/share/qemu" "$tree/lib64" \
  "$tree/lib/x86_64-linux-gnu" "$init/modules" "$init/root"
cp "$image" "$tree/vmlinuz"
number=10
for module in virtio_ring virtio virtio_mmio virtio_blk virtio_console virtio-rng failover net_failover \
    virtio_net crc32c_generic crc32c-intel libcrc32c netfs overlay erofs; do
  for modules in "$kernel/lib/modules/$version" "$kernel/usr/lib/modules/$version"; do
    file=$(find "$modules/" -name "$module.ko*" 2>/dev/null | head -n 1)
    [ -z "$file" ] || break
  done
  [ -n "$file" ] || continue
  target=$init/modules/$number-$module.ko
  case $file in
    *.xz) xz -dc "$file" >"$target" ;;
    *.zst) zstd -dqc "$file" >"$target" ;;
    *) cp "$file" "$target" ;;
  esac
  number=$((number + 1))
done
[ "$number" -gt 15 ] || fail "the modules of kernel $version are not in $kernel/lib/modules/$version"
cp "$work/atoll-vminit" "$init/init"
chmod 755 "$init/init"
(cd "$init" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) | gzip -1n >"$tree/initrd"
cp "$qemu/usr/bin/qemu-system-x86_64" "$work/atoll-qmp" "$tree/usr/bin/"
chmod 755 "$tree/usr/bin/atoll-qmp"
for file in seabios/bios-microvm.bin qemu/qboot.rom qemu/linuxboot_dma.bin; do
  target=$tree/usr/share/qemu/${file#*/}
  for share in "$qemu/usr/share" /usr/share; do
    [ ! -e "$share/$file" ] || [ -e "$target" ] || cp -L "$share/$file" "$target"
  done
  [ -e "$target" ] || fail "there is no $qemu/usr/share/$file"
done
libraries=$qemu/usr/lib/x86_64-linux-gnu:$qemu/lib/x86_64-linux-gnu
LD_LIBRARY_PATH=$libraries ldd "$qemu/usr/bin/qemu-system-x86_64" >"$work/libraries"
! grep 'not found' "$work/libraries" || fail "libraries of QEMU are missing"
sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' "$work/libraries" | while read -r library; do
  cp -L "$library" "$tree/lib/x86_64-linux-gnu/"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$tree/lib64/"
chmod -R go+rX "$tree"
mkfs.erofs --quiet --all-root -zlz4 "$work/machine.erofs" "$tree" >/dev/null
echo "kernel=$version"
echo "qemu=$(LD_LIBRARY_PATH=$libraries "$qemu/usr/bin/qemu-system-x86_64" --version | head -n 1)"
)sh";

Result<void> copy_file(const std::string& from, const std::string& to) {
  std::error_code error;
  if (fs::copy_file(from, to, error)) return success();
  return Error::from_errno(error.value(), fmt::format("copy {} to {}", from, to));
}

// Puts a tree into the jail's work folder, unless it is the host's own, which is seen there anyway; where.
Result<std::string> show_tree(const std::string& tree, const std::string& name, const std::string& work,
                              JailSpec& jail, std::vector<sys::Fd>& held) {
  if (tree == "/") return std::string();
  std::error_code error;
  fs::create_directory(work + "/" + name, error);
  if (error) return Error::from_errno(error.value(), fmt::format("make {}/{}", work, name));
  TRY(sys::Fd mount, sys::clone_mount(AT_FDCWD, tree));
  jail.shown.push_back({mount.get(), name});
  held.push_back(std::move(mount));
  return fmt::format("{}/{}", kJailWork, name);
}

Result<void> run_script(const std::string& work, const MachineParts& parts, MachineManifest& manifest) {
  JailSpec jail;
  jail.work = work;
  jail.view = View::kHost;
  std::vector<sys::Fd> held;
  TRY(std::string kernel, show_tree(parts.kernel_tree, "kernel", work, jail, held));
  TRY(std::string qemu, show_tree(parts.qemu_tree, "qemu", work, jail, held));
  std::vector<std::string> argv = {"/bin/sh", "-c", std::string(kScript), "sh", kernel, qemu, kJailWork};
  return run_program(jail, argv, {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"},
                     [&manifest](std::string_view line) {
                       if (line.starts_with("kernel=")) manifest.kernel = line.substr(7);
                       if (line.starts_with("qemu=")) manifest.qemu = line.substr(5);
                     });
}

}  // namespace

std::string format_machine_manifest(const MachineManifest& manifest) {
  boost::json::object out;
  out["version"] = 1;
  out["kernel"] = manifest.kernel;
  out["qemu"] = manifest.qemu;
  out["sha256"] = manifest.sha256;
  out["sizeBytes"] = manifest.size_bytes;
  return boost::json::serialize(out) + "\n";
}

Result<MachineManifest> make_machine(const std::string& data_dir, const MachineParts& parts) {
  TRY(Builds builds, Builds::open(data_dir));
  TRY(Workspace work, builds.start());
  TRY_VOID(copy_file(parts.first_program, work.path() + "/atoll-vminit"));
  TRY_VOID(copy_file(parts.monitor_program, work.path() + "/atoll-qmp"));
  MachineManifest manifest;
  Result<void> made = run_script(work.path(), parts, manifest);
  if (!made.ok()) return std::move(made).error().context("make the machine image");
  std::string image = work.path() + "/machine.erofs";
  TRY(SealedImage sealed, seal_image(image));
  manifest.sha256 = sealed.sha256;
  manifest.size_bytes = sealed.size_bytes;
  std::string folder = fmt::format("{}/{}", data_dir, model::kMachineFolder);
  TRY_VOID(sys::ensure_directory(folder, 0755));
  std::error_code error;
  fs::rename(image, fmt::format("{}/{}", folder, model::kMachineImage), error);
  if (error) return Error::from_errno(error.value(), "put the machine image in place");
  TRY_VOID(sys::replace_file(folder + "/manifest.json", format_machine_manifest(manifest), 0644,
                             sys::Durable::kYes));
  return manifest;
}

}  // namespace atl::templates
