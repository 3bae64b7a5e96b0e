#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Finds the knee: increases concurrency until goodput stops rising. SECONDS_EACH=5 per step, at most STEPS=9 steps.
source "$(dirname "$0")/common.sh"
start_server
load ramp --sweep --concurrency 1 --duration "${SECONDS_EACH:-5}" --sweep-steps "${STEPS:-9}" --sweep-refinements 2 \
  --input-len 64 --output-len 64 --warmup 0.5 --slo "${SLO:-ttft_ms=1000,tpot_ms=100}" --max-errors 0
stop_server
