# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the verify_*.sh scripts: prints a table of checks and waits for a server.

missed=0

# check WHAT SEEN TEST...: prints one row; TEST is a command that succeeds if the observed value SEEN is correct.
check() {
  local what=$1 seen=$2 verdict=ok
  shift 2
  "$@" >/dev/null || { verdict=MISSED; missed=$((missed + 1)); }
  printf '%-52s %-42s %s\n' "$what" "$seen" "$verdict"
}

# Ends the script, with exit status 1 if a check failed.
end_checks() {
  [ "$missed" -eq 0 ] || { echo "$missed checks failed" >&2; exit 1; }
}

# await SECONDS COMMAND...: waits until COMMAND succeeds; fails after SECONDS, or SLOWER times as many (under emulation).
await() {
  local tries=$(($1 * 10 * ${SLOWER:-1}))
  shift
  for _ in $(seq "$tries"); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  return 1
}
