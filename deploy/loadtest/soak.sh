#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Half the capacity for a long time: memory must not grow. DURATION=600 seconds, RATE requests/s (by default measured).
source "$(dirname "$0")/common.sh"
start_server
shape=(--input-len 64 --output-len 32 --range-ratio 0.5)
if [ -z "${RATE:-}" ]; then
  load soak_capacity "${shape[@]}" --concurrency 16 --duration 5 --warmup 1
  RATE=$(rounded "$(number soak_capacity request_throughput) / 2")
fi
LIMIT=$((${DURATION:-600} + 120))
load soak "${shape[@]}" --rate "$RATE" --duration "${DURATION:-600}" --warmup 5 --max-errors 0 \
  --check 'refused<=0' --check 'unfinished<=0' --check 'server.growth.rss_bytes<=20e6' \
  --check 'server.growth.open_fds<=2' --check 'server.after.kv_pages_used<=0'
stop_server
