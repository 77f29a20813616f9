# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
# What the scripts of this repository share. Sourced, never run. Needs $root, the top of the repository.

readonly clang_version=19
readonly node_package_version=22.23.5   # of the npm package that carries Node.js, where the distribution's is too old
readonly log_dir="$root/build/log"

say()  { printf '%s\n' "$*"; }
step() { printf '\n==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$1" >&2; [ -z "${2-}" ] || printf '  hint: %s\n' "$2" >&2; exit 1; }

# quietly "what" command...: runs it with its output in a log, says every 20 s that it still runs, and shows the log's end
# when it fails.
quietly() {
  local what=$1 log started pid lines=0
  shift
  mkdir -p "$log_dir"
  log="$log_dir/$(printf '%s' "$what" | tr -cs 'a-zA-Z0-9' '-').log"
  started=$SECONDS
  printf '    %s ...\n' "$what"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  # A signal to this script must not leave the command behind.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    for ((lines = 0; lines < 100; ++lines)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.2
    done
    kill -0 "$pid" 2>/dev/null &&
      printf '    ... %s: %d s; %s\n' "$what" $((SECONDS - started)) "$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-70)"
  done
  trap - INT TERM
  if wait "$pid"; then
    printf '    %s: done in %d s\n' "$what" $((SECONDS - started))
  else
    tail -n 40 "$log" >&2
    fail "$what failed; the whole output is in $log"
  fi
}

# The version of Node.js that the newest e2b client needs: 20.18.1 or a later 20, or 22 and up.
node_is_new_enough() {
  local version major minor
  version=$("$1" --version 2>/dev/null) || return 1
  major=${version#v}; major=${major%%.*}
  minor=${version#v*.}; minor=${minor%%.*}
  [ "$major" -ge 22 ] || { [ "$major" -eq 20 ] && [ "$minor" -ge 19 ]; }
}

own_node_dir="$root/build/node"

# Puts a Node.js that the clients can run on in front of PATH, when tools/setup has installed one.
use_own_node() {
  [ ! -x "$own_node_dir/bin/node" ] || PATH="$own_node_dir/bin:$PATH"
}

own_runsc_dir="$root/build/runsc"

# Puts the runsc that tools/setup has unpacked in front of PATH, where it has.
use_own_runsc() {
  [ ! -x "$own_runsc_dir/usr/bin/runsc" ] || PATH="$own_runsc_dir/usr/bin:$PATH"
}

own_qemu_dir="$root/build/qemu"
own_kernel_dir="$root/build/kernel"
own_host_kernel_dir="$root/build/host-kernel"

# Makes a machine image of what tools/setup has fetched and names it in ATOLL_TEST_MACHINE, until this script ends. Where nothing
# was fetched, ends the suite as one that is skipped. $1: what is skipped then.
use_machine() {
  local qemu=$own_qemu_dir missing=
  [ -d "$qemu" ] || qemu=/
  [ -d "$own_kernel_dir" ] || missing="there is no kernel for it (tools/setup)"
  [ -x "$qemu/usr/bin/qemu-system-x86_64" ] || missing="there is no QEMU (tools/setup)"
  if [ -n "$missing" ]; then
    say "SKIPPED $1: $missing"
    say "0 passed, 0 failed, 1 skipped"
    exit 0
  fi
  own_machine=$(mktemp -d)
  trap 'rm -rf "$own_machine"' EXIT
  "${ATOLL_PROGRAMS:-$root/build/dev/bin}/atoll-template" machine --data-dir "$own_machine" \
    --kernel-tree "$own_kernel_dir" --qemu-tree "$qemu"
  export ATOLL_TEST_MACHINE="$own_machine/machine/machine-3.erofs"
}

# Prepares the build tree of a preset, and builds targets in it.
configure() {
  cd "$root" || exit 1
  quietly "configure $1" cmake --preset "$1"
}
build() {
  local preset=$1
  shift
  quietly "build $preset ($# targets)" ninja -C "$root/build/$preset" "$@"
}

readonly daemons=(
  atoll atoll-control atoll-gateway atoll-runner atoll-guestd
  atoll-interpreter atoll-template atoll-vminit atoll-qmp
)

# Names of a preset's unit test programs, as the build knows them. The preset must be configured.
unit_test_targets() {
  ninja -C "$root/build/$1" -t targets all | sed -n 's/^\([a-z0-9_]*_test\): phony$/\1/p' | grep -v '^cmake_'
}
fuzz_targets() {
  local source
  for source in "$root"/tests/fuzz/*.cc; do basename "$source" .cc | sed 's/^/fuzz_/'; done
}
