# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced after checks.sh by the scripts that verify a dist. They set `dist` and `work`, a folder for logs, and define
# `inside COMMAND...`, which starts a program of the dist where it is verified; exec'd, so that $! is the program itself.

server=
kill_server() { # for traps
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
}

# start_server HOME SECONDS: serves the demo model of the dist unpacked at HOME, a path of `inside`. Sets server, its
# process, and grpc, its address; ends the script if it is not ready after SECONDS.
start_server() {
  dunlin=$1/bin/dunlin
  (inside "$dunlin" serve --config "$1/configs/demo.json" --set listen.grpc=127.0.0.1:0 --set listen.http=127.0.0.1:0) \
    >"$work/ready" 2>"$work/log" &
  server=$!
  await "$2" grep -q '^READY ' "$work/ready" || { tail -5 "$work/log" >&2; echo "$(basename "$dist"): not ready" >&2; exit 1; }
  grpc=$(sed -E 's/.* grpc=([^ ]+).*/\1/' "$work/ready")
  local bytes
  bytes=$(stat -c %s "$dist")
  check "file, <= 60 MB" "$bytes bytes" test "$bytes" -le 60000000
  check "READY" "$(tail -1 "$work/ready")" test -n "$grpc"
}

# Its health, a completion and its end.
check_serving() {
  local health text status=0
  health=$( (inside "$dunlin" healthcheck --address "$grpc") || true)
  check "dunlin healthcheck" "$health" test "$health" = SERVING
  text=$( (inside "$dunlin" generate --address "$grpc" --model demo --max-tokens 16 --ignore-eos --temperature 0 \
    --precision fp8 "The history of the") 2>"$work/generate.log" || true)
  check "streamed completion" "$(tr -s '[:space:]' ' ' <<<"$text" | cut -c1-40)" test -n "$text"
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  check "exit status after SIGTERM" "$status" test "$status" -eq 0
}
