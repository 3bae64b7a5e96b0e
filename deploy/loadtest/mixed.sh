#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Four profiles at once, reported separately: each meets the limits. SECONDS_EACH=10.
source "$(dirname "$0")/common.sh"
start_server
load mixed --rate 20 --duration "${SECONDS_EACH:-10}" --input-len 64 --output-len 32 --range-ratio 0.8 \
  --mix flash:bf16=6,efficient:fp16=2,flash:fp8=2,math:fp32=1 --slo "${SLO:-ttft_ms=2000,tpot_ms=200}" --max-errors 0 \
  --check 'goodput_ratio>=0.99' --check 'server.after.kv_pages_used<=0'
stop_server
