#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 20 times the load that the server can sustain, of calls with a deadline: as many end in time as at the knee, the others
# are refused before they begin, with RetryInfo. DURATION=20 seconds, TIMES=20, DEADLINE_MS=1000, INPUT=64 and
# OUTPUT=400 tokens, SHARE=0.9 of the knee's goodput; KNEE requests/s, by default the best goodput of calls that come at
# START=40 requests/s and more, KNEE_SECONDS=4 per step. SERVER_CPUS, LOAD_CPUS: as overload.sh.
source "$(dirname "$0")/common.sh"
start_server
shape=(--input-len "${INPUT:-64}" --output-len "${OUTPUT:-400}" --timeout-ms "${DEADLINE_MS:-1000}" --slo "e2el_ms=${DEADLINE_MS:-1000}")
if [ -z "${KNEE:-}" ]; then
  load deadlines_knee "${shape[@]}" --sweep --rate "${START:-40}" --duration "${KNEE_SECONDS:-4}" --warmup 0.5 \
    --sweep-steps 6 --sweep-refinements 2
  KNEE=$(number deadlines_knee knee_goodput)
fi
rate=$(rounded "$KNEE * ${TIMES:-20}")
echo "knee $KNEE requests/s, offered $rate"
load deadlines "${shape[@]}" --rate "$rate" --duration "${DURATION:-20}" --warmup 1 --max-errors 0 \
  --check "request_goodput>=$(rounded "$KNEE * ${SHARE:-0.9}")" --check 'refused_without_retry_info<=0' \
  --check 'server.after.kv_pages_used<=0'
stop_server
