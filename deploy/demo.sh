#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the demo server, streams one prompt through every attention backend and several precisions, shows timings and
# metrics, then a chat, a tool call and an answer under a JSON schema, and stops the server.
# Usage: demo.sh BINARY CONFIG. Exits non-zero if any step failed.
set -euo pipefail

binary=$1
config=$2
prompt=${DUNLIN_DEMO_PROMPT:-"The dunlin is"}
work=$(mktemp -d)
server=

cleanup() {
  if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
    kill -TERM "$server"
    wait "$server" || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
  echo "demo: $*" >&2
  tail -20 "$work/server.log" >&2
  exit 1
}

say "Starting $binary serve --config $config"
: >"$work/ready"
"$binary" serve --config "$config" --set listen.grpc=127.0.0.1:0 --set listen.http=127.0.0.1:0 \
  >"$work/ready" 2>"$work/server.log" &
server=$!
for _ in $(seq 1 600); do
  grep -q '^READY ' "$work/ready" && break
  kill -0 "$server" 2>/dev/null || fail "the server exited before it was ready"
  sleep 0.1
done
ready=$(grep '^READY ' "$work/ready") || fail "the server was not ready within 60 s"
echo "$ready"
grpc=$(sed -E 's/.* grpc=([^ ]+).*/\1/' <<<"$ready")
http=$(sed -E 's/.* http=([^ ]+).*/\1/' <<<"$ready")

stream() { # backend precision
  say "attention backend $1, precision $2"
  printf '%s' "$prompt"
  "$binary" generate --address "$grpc" --model demo --attention-backend "$1" --precision "$2" --max-tokens 48 \
    --temperature 0.7 --top-p 0.9 --seed 7 --summary "$work/summary" "$prompt" || fail "generate $1 $2 failed"
}
for precision in bf16 fp8; do
  for backend in math flash efficient; do stream "$backend" "$precision"; done
done
stream flash fp32
stream flash fp16

say "Completions"
awk -F '\t' 'BEGIN {
  format = "%-10s %-9s %-6s %13s %9s %10s\n"
  printf format, "backend", "precision", "device", "prompt tokens", "TTFT ms", "tokens/s"
} { printf format, $1, $2, $3, $4, $5, $6 }' "$work/summary"
[ "$(wc -l <"$work/summary")" -eq 8 ] || fail "expected 8 completions"

say "Counters from /metrics"
http_get() { # path; uses the shell's sockets, so that no HTTP client is needed
  exec 3<>"/dev/tcp/${http%:*}/${http##*:}"
  printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$http" >&3
  tr -d '\r' <&3
  exec 3<&-
}
http_get /metrics |
  grep -E '^(dunlin_requests_total|dunlin_kv_pages|vllm:(prompt|generation)_tokens_total)' >"$work/metrics" ||
  fail "/metrics could not be read"
cat "$work/metrics"
[ "$(grep -c '^dunlin_requests_total{.*status="OK".*} 1$' "$work/metrics")" -eq 8 ] || fail "/metrics did not count 8 requests"

chat() { # title, then the message and further options of generate
  say "$1"
  echo "> $2"
  "$binary" generate --address "$grpc" --model demo --chat --temperature 0 --max-tokens 96 "${@:3}" "$2" ||
    fail "$1 failed"
}
chat "A chat" "What does the dunlin eat?"
chat "A tool call" "What is the weather in Lisbon?" --tools '[{"type": "function", "function": {"name": "get_weather",
  "description": "Get the weather in a city", "parameters": {"type": "object",
  "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]'
chat "An answer under a JSON schema" "Describe the dunlin as JSON with name, colour and length_cm." \
  --json-schema '{"type": "object", "properties": {"name": {"type": "string"}, "colour": {"type": "string"},
  "length_cm": {"type": "integer"}}, "required": ["name", "colour", "length_cm"], "additionalProperties": false}'

say "Stopping the server"
kill -TERM "$server"
wait "$server" || fail "the server did not exit with status 0"
server=
echo "done"
