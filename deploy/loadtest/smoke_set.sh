#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The load tests of `make loadtest`: short versions, in some three minutes. All run; exit status 1 if one missed a limit.
# OUT/report.html (build/loadtest/report.html) shows all their results on one page.
set -euo pipefail
cd "$(dirname "$0")"
failed=()
run() { # [NAME=VALUE]... SCRIPT
  local start=$SECONDS
  if env "$@"; then echo "${*: -1}: ok, $((SECONDS - start)) s"; else failed+=("${*: -1}"); fi
}
run SECONDS_EACH=4 ./smoke.sh
run SECONDS_EACH=5 ./burst.sh
run SECONDS_EACH=5 ./mixed.sh
run SECONDS_EACH=5 ./chat.sh
run SECONDS_EACH=6 ./tenants.sh
run SECONDS_EACH=8 RELOADS=5 ./reload.sh
run SECONDS_EACH=4 TIMES=6 CHUNKS=2 ./fairness.sh
run SECONDS_EACH=3 STEPS=6 ./ramp.sh
run DURATION=10 TIMES=5 SHARE=0.3 ./overload.sh
run REQUESTS=2000 ./cancel_storm.sh
./report.py "$(cd ../.. && realpath -m "${OUT:-build/loadtest}")"
[ "${#failed[@]}" -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
