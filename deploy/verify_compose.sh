#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs deploy/compose.yaml with podman-compose in a network namespace of its own and checks it: every service is healthy and
# unprivileged, ports are loopback's, the router answers a chat and does so again after a restart of the server, Prometheus has
# scraped both. Usage: verify_compose.sh DIST.tar.gz, a dist under build/dist. Nothing is pulled: Prometheus' image is made of
# the programs of deploy/prometheus_tools.sh, and Grafana, which no package of Debian has, is left out unless GRAFANA=1 says that
# its image can be pulled. Needs root, buildah, podman, podman-compose, netavark, aardvark-dns. Exit status 1 if a check failed.
set -euo pipefail
dist=$(realpath --relative-to="$(dirname "$0")/.." "$1")
cd "$(dirname "$0")/.."
. deploy/checks.sh
. deploy/containers.sh
. deploy/image_build.sh

for tool in buildah podman-compose; do
  command -v "$tool" >/dev/null || { echo "needs $tool (a Debian package)" >&2; exit 1; }
done
compose=deploy/compose.yaml
image_of() { sed -n "/^  $1:/,/^  [a-z]/s/^    image: //p" "$compose"; }

# build_prometheus: what /bin/prometheus needs of the image of the same name.
build_prometheus() {
  local made
  deploy/prometheus_tools.sh
  made=$(buildah "${store[@]}" from "$(base_image bookworm)")
  for tool in prometheus promtool; do
    buildah "${store[@]}" copy -q "$made" "$(command -v "$tool" || echo "build/prometheus/$tool")" "/bin/$tool" >/dev/null
  done
  buildah "${store[@]}" run --isolation chroot "$made" -- install -d -o 65534 -g 65534 /prometheus
  buildah "${store[@]}" config --entrypoint '["/bin/prometheus"]' --volume /prometheus "$made"
  buildah "${store[@]}" commit -q --rm "$made" "docker.io/$(image_of prometheus)" >/dev/null
}

if [ -z "${COMPOSE_NAMESPACE:-}" ]; then
  build_image "localhost/$(image_of server)" deploy/Dockerfile --target cpu --build-arg DIST="$dist"
  build_image "localhost/$(image_of router)" deploy/router/Dockerfile
  build_prometheus
  [ -z "${GRAFANA:-}" ] || pod pull -q "docker.io/$(image_of grafana)"
  COMPOSE_NAMESPACE=1 exec unshare --net "$0" "$dist"
fi

ip link set lo up
services=(server router prometheus ${GRAFANA:+grafana})
project=dunlin-verify
wrapper=$(mktemp)
# podman-compose passes health checks to a shell, which the server's image has not: they are run below instead.
cat >"$wrapper" <<END
#!/bin/bash
if [ "\$1" = run ]; then
  given=("\${@:2}")
  set -- run --ulimit nofile=4096:4096 --ulimit nproc=4096:4096
  while [ \${#given[@]} -gt 0 ]; do
    case "\${given[0]}" in
      --healthcheck-*) given=("\${given[@]:2}") ;;
      *) set -- "\$@" "\${given[0]}"; given=("\${given[@]:1}") ;;
    esac
  done
fi
exec podman ${store[*]@Q} --runtime runc --cgroup-manager cgroupfs "\$@"
END
chmod 755 "$wrapper"
up() { podman-compose --podman-path "$wrapper" --no-ansi -p "$project" -f "$compose" "$@"; }
cleanup() {
  up down --timeout 1 --volumes >/dev/null 2>&1 || true
  rm -f "$wrapper"
}
trap cleanup EXIT
name() { echo "${project}_$1_1"; }
get() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())' "$1"; }
chat() {
  python3 - "$@" <<'END'
import json, sys, urllib.request
body = {"model": "demo", "messages": [{"role": "user", "content": sys.argv[1]}], "temperature": 0, "max_completion_tokens": 24}
request = urllib.request.Request("http://127.0.0.1:30000/v1/chat/completions", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"])
END
}
status() { awk -v key="$2:" '$1 == key {print $2}' "/proc/$(pod inspect --format '{{.State.Pid}}' "$(name "$1")")/status"; }

up up --detach --no-build "${services[@]}" >build/deploy/compose.log 2>&1 || { tail -20 build/deploy/compose.log >&2; exit 1; }
for service in "${services[@]}"; do
  mapfile -t probe < <(/usr/bin/python3 -c 'import sys, yaml
print("\n".join(yaml.safe_load(open(sys.argv[1]))["services"][sys.argv[2]]["healthcheck"]["test"][1:]))' "$compose" "$service")
  # Debian's root, which stands for Prometheus' image, has no wget: the same address from outside.
  healthy() { if [ "${probe[0]}" = wget ]; then get "${probe[-1]}"; else pod exec "$(name "$service")" "${probe[@]}"; fi; }
  await 120 healthy || pod logs --tail 10 "$(name "$service")" >&2
  check "$service: its health check" "$(cut -c1-42 <<<"${probe[*]}")" healthy
  [ "$(pod inspect --format '{{.State.Running}}' "$(name "$service")")" = true ] || { missed=$((missed + 1)); continue; }
  seen="$(status "$service" Uid) $(status "$service" CapEff) $(status "$service" NoNewPrivs) $(status "$service" Seccomp)"
  check "$service: uid, capabilities, privileges, seccomp" "$seen" grep -qE '^[1-9][0-9]+ 0+ 1 2$' <<<"$seen"
  root=$(awk '$5 == "/" {print $6}' "/proc/$(pod inspect --format '{{.State.Pid}}' "$(name "$service")")/mountinfo")
  check "$service: root file system" "${root%%,*}" test "${root%%,*}" = ro
done
published=$(pod ps --format '{{.Ports}}' | tr ', ' '\n' | grep -o '.*->' | sort | paste -sd' ')
not_loopback() { tr ' ' '\n' <<<"$published" | grep -v '^127\.0\.0\.1:'; }
only_loopback() { [ -n "$published" ] && ! not_loopback; }
check "published ports" "$published" only_loopback
first=$(chat "What does a dunlin eat?" || true)
check "a chat through the router" "$(tr -s '[:space:]' ' ' <<<"$first" | cut -c1-40)" test -n "$first"
pod restart --time 30 "$(name server)" >/dev/null
started=$SECONDS
again() { [ "$(chat "What does a dunlin eat?" 2>/dev/null)" = "$first" ]; }
await 60 again || true
check "the same after a restart of the server" "within $((SECONDS - started)) s" again
query() { get "http://127.0.0.1:9090/api/v1/query?query=$1"; }
jobs_up() { query 'sum(up)' | grep -o '"[0-9]*"\]' | tr -dc 0-9; }
scraped() { [ "$(jobs_up)" = 2 ] && query 'vllm:request_success_total' | grep -q '"job":"dunlin"'; }
await 90 scraped || true
check "Prometheus: both jobs are up, with series" "$(jobs_up) of 2" scraped
rules=$(get http://127.0.0.1:9090/api/v1/rules | grep -o '"type":"alerting"' | wc -l)
check "Prometheus: alert rules" "$rules" test "$rules" -eq "$(grep -c -- '- alert:' deploy/prometheus/alerts.yaml)"
pod stop --time 40 "$(name server)" >/dev/null
code=$(pod inspect --format '{{.State.ExitCode}}' "$(name server)")
check "exit status of the server" "$code" test "$code" -eq 0
[ -n "${GRAFANA:-}" ] || echo "Grafana was left out (GRAFANA=1 pulls its image)"
end_checks
