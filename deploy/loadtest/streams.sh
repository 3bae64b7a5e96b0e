#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# STREAMS=10000 concurrent requests, each on its own stream, 90 per connection: all complete within DRAIN=120 seconds
# and leak nothing. The time they take is limited by the engine's throughput, not by the number of streams.
source "$(dirname "$0")/common.sh"
streams=${STREAMS:-10000}
start_server limits.max_concurrent_requests="$streams" scheduler.max_queued_requests="$streams"
load streams --concurrency "$streams" --num-prompts "$streams" --input-len 16 --output-len 16 --drain "${DRAIN:-120}" \
  --max-errors 0 --check "completed>=$streams" --check 'server.after.kv_pages_used<=0' --check 'server.growth.open_fds<=2' \
  --check 'server.after.running<=0'
stop_server
