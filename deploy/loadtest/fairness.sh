#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TTFT of a short request while FLOOD=16 concurrent requests flood the server: with long prompts, another profile, or
# both. Its p99 may be at most TIMES=3 times the p99 without the flood plus CHUNKS=1 chunks. A chunk is the time of
# scheduler.max_tokens_per_step (512) prompt tokens in the flood's profile: the TTFT p50 of such a prompt minus that of
# the short one. SECONDS_EACH=10. Other load on the server's CPUs, including the load generator, raises p99: see
# SERVER_CPUS and LOAD_CPUS.
source "$(dirname "$0")/common.sh"
start_server
SECONDS_EACH=${SECONDS_EACH:-10}
missed=0

victim() { # NAME
  load "$1" --concurrency 1 --duration "$SECONDS_EACH" --warmup 0.5 --input-len 16 --output-len 4 --mix flash:bf16 \
    --max-errors 0
}

chunk_ms() { # PROFILE: sets chunk
  load fairness_chunk --concurrency 1 --duration 2 --warmup 0.2 --input-len 512 --output-len 1 --mix "$1" --max-errors 0
  chunk=$(rounded "$(number fairness_chunk median_ttft_ms) - $(number fairness_alone median_ttft_ms)")
}

# flooded NAME PROFILE OPTION...: the victim together with FLOOD concurrent requests of that profile and shape.
flooded() {
  local name=$1 profile=$2
  shift 2
  chunk_ms "$profile"
  load "${name}_flood" --concurrency "${FLOOD:-16}" --duration "$SECONDS_EACH" --warmup 2 --mix "$profile" --seed 7 "$@" \
    >"$OUT/${name}_flood.log" 2>&1 &
  local flood=$!
  sleep 1
  victim "$name"
  wait "$flood" || { cat "$OUT/${name}_flood.log" >&2; return 1; }
  local limit measured
  limit=$(rounded "${TIMES:-3} * $alone + ${CHUNKS:-1} * $chunk")
  measured=$(rounded "$(number "$name" p99_ttft_ms)")
  echo "$name: TTFT p99 $measured ms; alone $alone, a chunk $chunk, limit $limit"
  [ "$(rounded "$measured <= $limit")" = 1.00 ] || { echo "$name: over its limit" >&2; missed=1; }
}

victim fairness_alone
alone=$(rounded "$(number fairness_alone p99_ttft_ms)")
flooded fairness_long flash:bf16 --input-len 200 --output-len 8
flooded fairness_longer flash:bf16 --input-len 800 --output-len 8
flooded fairness_profile math:fp32 --input-len 16 --output-len 32
flooded fairness_long_profile math:fp32 --input-len 200 --output-len 8
stop_server
exit "$missed"
