#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 20 times the load that the server can sustain: it completes as many requests as at the knee and refuses the rest
# immediately, with RetryInfo. DURATION=120 seconds, TIMES=20, SHARE=0.95 of the knee's goodput; KNEE requests/s, by
# default measured starting at CONCURRENCY=8, KNEE_SECONDS=3 per step. A load generator on the server's CPUs slows it
# down: separate the two with SERVER_CPUS and LOAD_CPUS, lower its priority with PRIORITY='chrt --batch 0' (its delays
# then count as refusal latency), or choose a smaller SHARE. limits.max_concurrent_requests covers running and waiting
# requests, so that further ones are refused before their message is read.
source "$(dirname "$0")/common.sh"
start_server scheduler.max_sequences=32 scheduler.max_queued_requests=32 limits.max_concurrent_requests=64
shape=(--input-len 64 --output-len 32 --slo "${SLO:-ttft_ms=3000}")
if [ -z "${KNEE:-}" ]; then
  load overload_knee "${shape[@]}" --sweep --concurrency "${CONCURRENCY:-8}" \
    --duration "${KNEE_SECONDS:-3}" --warmup 0.5 --sweep-steps 4 --sweep-refinements 0
  KNEE=$(number overload_knee knee_goodput)
fi
rate=$(rounded "$KNEE * ${TIMES:-20}")
LIMIT=$((${DURATION:-120} + 120))
echo "knee $KNEE requests/s, offered $rate"
load overload "${shape[@]}" --rate "$rate" --duration "${DURATION:-120}" --warmup 1 --max-errors 0 \
  --check "request_goodput>=$(rounded "$KNEE * ${SHARE:-0.95}")" --check 'p99_refusal_ms<=50' \
  --check 'refused_without_retry_info<=0' --check 'server.growth.rss_bytes<=50e6' \
  --check 'server.after.kv_pages_used<=0'
stop_server
