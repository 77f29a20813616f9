# SPDX-License-Identifier: Apache-2.0
# A bash that runs code for the code interpreter: bash_kernel.sh COMMANDS EVENTS (README.md has the protocol).
exec 198<"$1" 199>"$2"
set --
printf '{"ready":true}\n' >&199
# ^C ends what runs and not this shell.
__atoll_run() {
  trap 'return 130' INT
  eval "$__atoll_code"
}
while IFS= read -r -d '' -u 198 __atoll_before &&
  IFS= read -r -d '' -u 198 __atoll_code &&
  IFS= read -r -d '' -u 198 __atoll_after; do
  eval "$__atoll_before"
  __atoll_run 198<&- 199>&-
  __atoll_status=$?
  trap : INT
  eval "$__atoll_after"
  if [ "$__atoll_status" -ne 0 ]; then
    printf '{"error":{"name":"ExitStatus","value":"exit status %d","traceback":""}}\n' "$__atoll_status" >&199
  fi
  printf '{"done":true}\n' >&199
done
