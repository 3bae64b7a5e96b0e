#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A light load over several profiles of the model: no failures, no leaked KV pages. SECONDS_EACH=4.
source "$(dirname "$0")/common.sh"
start_server
load smoke --concurrency 8 --duration "${SECONDS_EACH:-4}" --input-len 32 --output-len 32 --range-ratio 0.5 \
  --mix flash:bf16=2,efficient:fp8=1,math:fp32=1 --max-errors 0 \
  --check 'completed>=8' --check 'refused<=0' --check 'server.after.kv_pages_used<=0'
stop_server
