#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Chats over HTTP with server-sent events, as web applications send them, and beside them the same chats over gRPC: none
# fails, and every stream of either ends. CONCURRENCY=8 chats over each, SECONDS_EACH=10.
source "$(dirname "$0")/common.sh"
start_server
shape=(--chat --concurrency "${CONCURRENCY:-8}" --duration "${SECONDS_EACH:-10}" --warmup 1 --input-len 48 --output-len 48
  --range-ratio 0.5 --prompt-form words --temperature 0.7 --no-ignore-eos --max-errors 0 --check 'completed>=8'
  --check 'refused<=0' --check 'unfinished<=0')
load chat_grpc "${shape[@]}" >"$OUT/chat_grpc.log" 2>&1 &
grpc=$!
grpc_address=$ADDRESS
ADDRESS=$METRICS
load chat "${shape[@]}" --protocol openai
ADDRESS=$grpc_address
wait "$grpc" || { cat "$OUT/chat_grpc.log" >&2; exit 1; }
cat "$OUT/chat_grpc.log"
stop_server
