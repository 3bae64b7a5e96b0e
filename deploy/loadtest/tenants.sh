#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three tenants with keys of their own at once: one asks now and then, one floods with FLOOD=64 requests at a time, one has
# a quota that its load exceeds. The quiet one's TTFT p99 is at most TTFT_MS=1500 and nothing of it is refused; what is
# refused of the others says when to come back. SECONDS_EACH=10. Starts its own server, which needs a key file.
source "$(dirname "$0")/common.sh"
if [ -n "${ADDRESS:-}" ]; then
  echo "tenants: ADDRESS is set, but this profile needs the keys that it makes for a server of its own" >&2
  exit 2
fi
keys=$(mktemp -d)
trap 'stop_server || true; rm -rf "$keys"' EXIT
new_key() { # NAME [OPTION]...: its key in $keys/NAME
  "$BINARY" key new --name "$1" --file "$keys/keys.json" "${@:2}" >"$keys/$1"
}
(umask 077
  new_key quiet --permission infer --permission metrics
  new_key flood
  new_key quota --requests-per-minute 30)
start_server access.keys_file="$keys/keys.json" scheduler.max_sequences=16 limits.max_concurrent_requests=48

tenant() { # NAME OPTION...
  METRICS='' load "tenants_$1" --api-key-file "$keys/$1" --duration "${SECONDS_EACH:-10}" --warmup 1 --max-errors 0 \
    --check 'refused_without_retry_info<=0' "${@:2}"
}

names=(flood quota)
tenant flood --concurrency "${FLOOD:-64}" --input-len 128 --output-len 32 >"$OUT/tenants_flood.log" 2>&1 &
others=($!)
tenant quota --rate 10 --input-len 16 --output-len 8 --check 'refused>=1' >"$OUT/tenants_quota.log" 2>&1 &
others+=($!)
missed=0
tenant quiet --rate 4 --input-len 16 --output-len 8 --check 'refused<=0' --check "p99_ttft_ms<=${TTFT_MS:-1500}" || missed=1
for i in "${!others[@]}"; do
  wait "${others[$i]}" || missed=1
  cat "$OUT/tenants_${names[$i]}.log"
done
stop_server
exit "$missed"
