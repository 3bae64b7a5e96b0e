#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The model is loaded again RELOADS=10 times while requests run, by a config that changes and SIGHUP: no request fails or is
# refused, and memory does not grow by more than GROWTH=64e6 bytes. SECONDS_EACH=15. Starts its own server, whose config it
# changes.
source "$(dirname "$0")/common.sh"
if [ -n "${ADDRESS:-}" ]; then
  echo "reload: ADDRESS is set, but this profile changes the config of a server of its own" >&2
  exit 2
fi
config=$(mktemp --suffix .json)
trap 'stop_server || true; rm -f "$config"' EXIT
# write_config NUMBER: the config with a limit of the model that differs from that of the former number.
write_config() {
  python3 - "$CONFIG" "$MODEL" "$1" "$config" <<'PY'
import json, os, re, sys
source, name, number, target = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    config = json.loads(re.sub(r"^\s*//.*$", "", file.read(), flags=re.M))
for model in config["models"]:
    model["path"] = os.path.join(os.path.dirname(os.path.abspath(source)), model["path"])
    if model["name"] == name:
        model["max_context_tokens"] = 512 + int(number)
with open(target + ".new", "w", encoding="utf-8") as file:
    json.dump(config, file)
os.replace(target + ".new", target)
PY
}
loads() { # how often a model was loaded
  exec 3<>"/dev/tcp/${METRICS%:*}/${METRICS##*:}"
  printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
  awk '/^dunlin_model_loads_total/ { sum += $NF } END { print sum + 0 }' <&3
}

write_config 0
CONFIG=$config
start_server
load reload --concurrency 8 --duration "${SECONDS_EACH:-15}" --warmup 1 --input-len 32 --output-len 32 --max-errors 0 \
  --check 'completed>=8' --check 'refused<=0' --check 'unfinished<=0' \
  --check "server.growth.rss_bytes<=${GROWTH:-64e6}" >"$OUT/reload.log" 2>&1 &
running=$!
first=$(loads)
for number in $(seq 1 "${RELOADS:-10}"); do
  write_config "$number"
  kill -HUP "$server"
  for _ in $(seq 1 600); do
    [ "$(loads)" -ge $((first + number)) ] && break
    sleep 0.1
  done
done
reloaded=$(($(loads) - first))
status=0
wait "$running" || status=1
cat "$OUT/reload.log"
echo "reload: loaded again $reloaded times"
stop_server
[ "$reloaded" -eq "${RELOADS:-10}" ] || { echo "reload: of ${RELOADS:-10}" >&2; status=1; }
exit "$status"
