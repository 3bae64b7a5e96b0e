#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Clients cancel after the first token, REQUESTS=20000 times: every KV page is released.
source "$(dirname "$0")/common.sh"
start_server
load cancel_storm --concurrency 64 --num-prompts "${REQUESTS:-20000}" --input-len 16 --output-len 400 \
  --cancel-after 1t --max-errors 0 --check "cancelled>=$((${REQUESTS:-20000} * 9 / 10))" \
  --check 'server.growth.rss_bytes<=50e6' --check 'server.growth.open_fds<=2' --check 'server.after.kv_pages_used<=0' \
  --check 'server.after.running<=0'
load cancel_storm_after --concurrency 4 --num-prompts 20 --input-len 16 --output-len 8 --max-errors 0 \
  --check 'completed>=20'
stop_server
