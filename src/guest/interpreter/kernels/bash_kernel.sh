# SPDX-License-Identifier: Apache-2.0
# A bash that runs code for the code interpreter: bash_kernel.sh COMMANDS EVENTS (README.md has the protocol).

# ^C ends what runs and not this shell: out of the function in which it comes, and then, before each next command, out of
# the one that called it. Between two calls no function runs, and it means nothing.
__atoll_interrupts() {
  trap 'if [ "${#FUNCNAME[@]}" -gt 0 ]; then __atoll_leave=1; shopt -s extdebug; trap __atoll_leaving DEBUG; return 130; fi' INT
}
# Before each command: 2 leaves the function that it is in. Out of all functions there are this one and `main`.
__atoll_leaving() {
  [ "${#FUNCNAME[@]}" -le 2 ] && return 0
  return 2
}
__atoll_run() {
  printf '{"begun":true}\n' >&199
  eval "$__atoll_code" 198<&- 199>&-
}
exec 198<"$1" 199>"$2"
set --
__atoll_interrupts
printf '{"ready":true}\n' >&199
while IFS= read -r -d '' -u 198 __atoll_before &&
  IFS= read -r -d '' -u 198 __atoll_code &&
  IFS= read -r -d '' -u 198 __atoll_after; do
  eval "$__atoll_before"
  __atoll_leave=
  __atoll_run
  __atoll_status=$?
  trap - DEBUG
  if [ -n "$__atoll_leave" ]; then
    shopt -u extdebug
    __atoll_status=130
  fi
  __atoll_interrupts
  eval "$__atoll_after"
  if [ "$__atoll_status" -ne 0 ]; then
    printf '{"error":{"name":"ExitStatus","value":"exit status %d","traceback":""}}\n' "$__atoll_status" >&199
  fi
  printf '{"done":true}\n' >&199
done
