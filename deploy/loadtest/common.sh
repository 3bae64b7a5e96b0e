# SPDX-License-Identifier: Apache-2.0
# Sourced by each profile: starts a server where needed and defines `load`.
#   ADDRESS, METRICS  HOST:PORT of a running server's gRPC and HTTP ports; without ADDRESS, one is started on free
#                     ports with CONFIG and the profile's own settings, and stopped at the end
#   BINARY            build/release/dunlin
#   CONFIG            configs/demo.json, for a server started here
#   MODEL             demo
#   PRIORITY          a prefix of the load generator's command, such as `nice`
#   SERVER_CPUS, LOAD_CPUS  CPUs of each, as for `taskset -c`; if disjoint, the load generator takes no CPU time from
#                     the server, like one on another machine
#   OUT               where results go: NAME.json and NAME.html; build/loadtest
# A profile's limits are its --check options: its exit status is 1 when one is missed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

BINARY=${BINARY:-build/release/dunlin}
CONFIG=${CONFIG:-configs/demo.json}
MODEL=${MODEL:-demo}
OUT=${OUT:-build/loadtest}
profile=$(basename "$0" .sh)
server=
mkdir -p "$OUT"

stop_server() {
  [ -n "$server" ] || return 0
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || { echo "$profile: the server did not exit with status 0" >&2; return 1; }
  server=
}
trap 'stop_server || true' EXIT

# start_server [key=value]...: starts a server with these settings, unless ADDRESS is set.
start_server() {
  if [ -n "${ADDRESS:-}" ]; then return 0; fi
  local settings=() setting
  for setting in listen.grpc=127.0.0.1:0 listen.http=127.0.0.1:0 log.level=warn "$@"; do settings+=(--set "$setting"); done
  local ready="$OUT/$profile.ready"
  : >"$ready"
  ${SERVER_CPUS:+taskset -c "$SERVER_CPUS"} "$BINARY" serve --config "$CONFIG" "${settings[@]}" \
    >"$ready" 2>"$OUT/$profile.log" &
  server=$!
  for _ in $(seq 1 600); do
    grep -q '^READY ' "$ready" && break
    kill -0 "$server" 2>/dev/null || { tail -5 "$OUT/$profile.log" >&2; return 1; }
    sleep 0.1
  done
  ADDRESS=$(sed -nE 's/^READY grpc=([^ ]+) .*/\1/p' "$ready")
  METRICS=$(sed -nE 's/^READY .* http=([^ ]+).*/\1/p' "$ready")
  [ -n "$ADDRESS" ]
}

# load NAME [option]...: one run of the load generator; prints its results.
load() {
  local name=$1
  shift
  echo "== $name: dunlin load $*"
  # shellcheck disable=SC2086 # splits into words
  ${PRIORITY:-} ${LOAD_CPUS:+taskset -c "$LOAD_CPUS"} timeout "${LIMIT:-600}" "$BINARY" load --address "$ADDRESS" \
    --model "$MODEL" ${METRICS:+--server-metrics "$METRICS"} \
    --label "$name" --json "$OUT/$name.json" --report "$OUT/$name.html" "$@"
}

# number NAME KEY: the first number under that key in NAME.json.
number() {
  grep -oE "\"$2\":-?[0-9.e+-]+" "$OUT/$1.json" | head -1 | cut -d: -f2
}

# rounded EXPRESSION: floating-point arithmetic, rounded to two decimal places.
rounded() {
  awk "BEGIN { printf \"%.2f\", $1 }"
}
