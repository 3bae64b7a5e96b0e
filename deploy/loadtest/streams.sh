#!/usr/bin/env bash
# STREAMS=10000 requests at once, each on a stream of its own, 90 a connection: all are answered within DRAIN=120 seconds
# and nothing of them is left. How long it takes is the engine's throughput: the bound is the work, not the streams.
source "$(dirname "$0")/common.sh"
streams=${STREAMS:-10000}
start_server limits.max_concurrent_requests="$streams" scheduler.max_queued_requests="$streams"
load streams --concurrency "$streams" --num-prompts "$streams" --input-len 16 --output-len 16 --drain "${DRAIN:-120}" \
  --max-errors 0 --check "completed>=$streams" --check 'server.after.kv_pages_used<=0' --check 'server.growth.open_fds<=2' \
  --check 'server.after.running<=0'
stop_server
