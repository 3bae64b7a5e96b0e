#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bursts of 100 concurrent requests, then silence: all are queued and completed, none fails. SECONDS_EACH=10.
source "$(dirname "$0")/common.sh"
start_server
load burst --rate 20 --arrivals burst --burst 100 --duration "${SECONDS_EACH:-10}" --input-len 32 --output-len 16 \
  --max-errors 0 --check 'refused<=0' --check 'unfinished<=0' --check 'p99_send_delay_ms<=250' \
  --check 'server.after.kv_pages_used<=0'
stop_server
