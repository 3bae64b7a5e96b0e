#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks deploy/systemd/dunlin.service under a real systemd: installs a dist as described in docs/operations.md into a
# container with a minimal Debian and systemd; the service starts, serves, reloads, restarts when it hangs or is killed,
# and stops. Usage: verify_service.sh DIST.tar.gz. Needs root, podman, runc, debootstrap. Exit status 1
# if a check failed.
set -euo pipefail
dist=$(realpath "$1")
cd "$(dirname "$0")/.."
. deploy/checks.sh
. deploy/containers.sh

container=dunlin-service-$$
trap 'pod rm --force --ignore --time 1 "$container" >/dev/null 2>&1 || true' EXIT
# systemd needs privileges over its own cgroups; the service inside drops all privileges.
pod run --detach --name "$container" --privileged --systemd always "${run_options[@]}" \
  --volume "$(dirname "$dist"):/dist:ro" "$(base_image bookworm systemd systemd-sysv dbus procps)" /sbin/init >/dev/null
inside() { pod exec "$container" "$@"; }
await 30 inside systemctl is-system-running || { inside systemctl --failed >&2; exit 1; }

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
inside sh -ec "tar -C /opt -xzf '/dist/$(basename "$dist")'
  ln -s '$(basename "$dist" .tar.gz)' /opt/dunlin
  mkdir /etc/dunlin
  sed 's|\.\./models|/opt/dunlin/models|; s|:50051|:$port|; s|:8080|:0|' /opt/dunlin/configs/demo.json >/etc/dunlin/config.json
  cp /opt/dunlin/deploy/systemd/dunlin.service /etc/systemd/system/
  systemctl daemon-reload"
show() { inside systemctl show --property "$1" --value dunlin; }
serves() { inside /opt/dunlin/bin/dunlin healthcheck --address "127.0.0.1:$port"; }
status() { inside awk -v key="$1:" '$1 == key {print $2}' "/proc/$(show MainPID)/status"; }
signal() { inside sh -c "kill -$1 $(show MainPID)"; }
# restarted COUNT: whether systemd has restarted the service COUNT times and it serves.
restarted() { [ "$(show NRestarts)" -eq "$1" ] && serves; }

echo "deploy/systemd/dunlin.service under $(inside systemctl --version | head -1)"
inside systemctl start dunlin || inside journalctl --unit dunlin --no-pager >&2
check "systemctl start waits for READY" "$(show ActiveState), $(serves)" test "$(show ActiveState) $(serves)" = "active SERVING"
check "user" "uid $(status Uid)" test "$(status Uid)" -gt 1000
check "capabilities, no new privileges, seccomp filter" "$(status CapEff) $(status NoNewPrivs) $(status Seccomp)" \
  test "$(status CapEff) $(status NoNewPrivs) $(status Seccomp)" = "0000000000000000 1 2"
exposure=$(inside systemd-analyze security dunlin --no-pager | awk '/Overall exposure/ {print $(NF-2)}')
check "systemd-analyze security, <= 2.0" "$exposure" awk "BEGIN {exit !($exposure <= 2.0)}"
text=$(inside /opt/dunlin/bin/dunlin generate --address "127.0.0.1:$port" --model demo --max-tokens 16 --ignore-eos \
  --temperature 0 --precision fp8 "The history of the" || true)
check "streamed completion" "$(tr -s '[:space:]' ' ' <<<"$text" | cut -c1-40)" test -n "$text"

# Overload: the threads that refuse calls must yield to the engine.
inside sh -c "/opt/dunlin/bin/dunlin load --address 127.0.0.1:$port --model demo --rate 8000 --duration 4 --warmup 0 \
  --input-len 64 --output-len 32 --quiet >/dev/null" &
flood=$!
giving_way() { inside chrt --all-tasks --pid "$(show MainPID)" | grep -c 'SCHED_BATCH$'; }
await 4 giving_way || true
threads=$(giving_way || true)
check "overload: gRPC threads under SCHED_BATCH" "$threads" test "$threads" -gt 0
wait "$flood" || true
check "after the overload" "$(serves)" serves

inside sed -i 's|"listen"|"log": {"level": "debug"}, "listen"|' /etc/dunlin/config.json
inside systemctl reload dunlin
reloaded() { inside journalctl --unit dunlin --no-pager --output cat | grep -o 'reload: applied: log.level'; }
await 10 reloaded || true
check "systemctl reload: applies log.level, serves" "$(reloaded), $(serves)" \
  test "$(reloaded) $(serves)" = "reload: applied: log.level SERVING"
check "same process after reload" "$(show ActiveState), $(show NRestarts) restarts" \
  test "$(show ActiveState) $(show NRestarts)" = "active 0"

signal KILL
started=$SECONDS
await 15 restarted 1 || true
check "killed: serves again" "after $((SECONDS - started)) s" restarted 1
signal STOP
started=$SECONDS
await 40 restarted 2 || true
check "hung: restarted by the watchdog (20 s)" "after $((SECONDS - started)) s" restarted 2
inside systemctl stop dunlin
check "systemctl stop" "$(show Result), status $(show ExecMainStatus)" \
  test "$(show Result) $(show ExecMainStatus)" = "success 0"
inside sed -i 's|/opt/dunlin/models/demo|/nowhere|' /etc/dunlin/config.json
refused() { ! inside systemctl start dunlin 2>/dev/null; }
reason=$(refused && inside journalctl --unit dunlin --no-pager --output cat | grep 'cannot start' | tail -1 || true)
check "missing model: start fails with the reason" "$(sed 's/.*cannot start: //' <<<"$reason" | cut -c1-42)" \
  grep -q /nowhere <<<"$reason"
end_checks
