#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 20 times the load that the server can sustain, of calls with a deadline: as many end in time as at the knee, the others
# are refused before they begin, with RetryInfo. The knee is what CONCURRENCY=12 calls at a time complete a second, or
# KNEE. Then ROUNDS=4 turns of both loads, SECONDS_EACH=3 s each, because other work on the machine changes what can be
# had; the sum of all turns counts. TIMES=20, DEADLINE_MS=1000, INPUT=64 and OUTPUT=400 tokens, SHARE=0.9 of the knee's
# goodput: with SERVER_CPUS and LOAD_CPUS apart (overload.sh), less where the load generator takes the server's time.
# 45 s.
source "$(dirname "$0")/common.sh"
LIMIT=60
start_server
shape=(--input-len "${INPUT:-64}" --output-len "${OUTPUT:-400}" --slo "e2el_ms=${DEADLINE_MS:-1000}")
if [ -z "${KNEE:-}" ]; then
  load deadlines_knee "${shape[@]}" --concurrency "${CONCURRENCY:-12}" --duration "${SECONDS_EACH:-3}" --warmup 0.5
  KNEE=$(number deadlines_knee request_throughput)
fi
at_knee=0
at_overload=0
flood=$(rounded "$KNEE * ${TIMES:-20}")
for _ in $(seq 1 "${ROUNDS:-4}"); do
  offered=(--timeout-ms "${DEADLINE_MS:-1000}" --duration "${SECONDS_EACH:-3}" --warmup 1)
  load deadlines_usual "${shape[@]}" "${offered[@]}" --rate "$KNEE" --check 'refused_without_retry_info<=0'
  load deadlines "${shape[@]}" "${offered[@]}" --rate "$flood" --check 'refused_without_retry_info<=0' \
    --check 'server.after.kv_pages_used<=0'
  at_knee=$(rounded "$at_knee + $(number deadlines_usual request_goodput)")
  at_overload=$(rounded "$at_overload + $(number deadlines request_goodput)")
done
share=$(rounded "$at_overload / $at_knee")
echo "in time at ${TIMES:-20} times the load: $share of what is at the knee ($KNEE requests/s)"
stop_server
awk "BEGIN { exit !($share >= ${SHARE:-0.9}) }" || { echo "deadlines: less than ${SHARE:-0.9}" >&2; exit 1; }
