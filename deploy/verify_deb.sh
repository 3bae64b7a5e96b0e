#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Debian package of a dist in a clean Debian (deploy/clean_root.sh): installation, the unit's command as the
# unit's user, an upgrade with a changed config, removal, purge. There is no systemd in that root: a systemctl that writes
# down its arguments stands for it; the unit under systemd is deploy/verify_service.sh's. Usage: verify_deb.sh DIST.tar.gz
# OUT_DIR, where the package is left. Needs root, debootstrap, dpkg-dev. Exit status 1 if a check failed.
set -euo pipefail
dist=$(realpath "$1")
out=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/checks.sh"

made=$("$here/deb.sh" "$dist" "$out")
echo "$made"
package=$(tail -1 <<<"$made")
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
newer=$("$here/deb.sh" "$dist" "$work" "$(dpkg-deb -f "$package" Version)+1" | tail -1)
root=$work/root
cp -a "$("$here/clean_root.sh" bookworm)" "$root"

mkdir -p "$root/run/systemd/system"
printf '#!/bin/sh\necho "$*" >>/systemctl.log\n' >"$root/usr/bin/systemctl"
chmod 755 "$root/usr/bin/systemctl"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
told() { tr '\n' ';' <"$root/systemctl.log" 2>/dev/null || true; rm -f "$root/systemctl.log"; }
state() { inside dpkg-query -W -f '${db:Status-Status} ${Version}' dunlin 2>/dev/null || echo none; }
unit() { sed -n "s/^$1=//p" "$root"/usr/lib/systemd/system/dunlin.service "$root"/usr/lib/systemd/system/dunlin.service.d/*; }
as_user() { # COMMAND... in the root, as the unit's user, with its own /proc; exec'd, so that $! is the command itself
  exec unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot --userspec="$0" "$@"' \
    "$(unit User):$(unit Group)" "$root" "$@"
}

# Runs the unit's command on free ports of loopback: "SERVING, uid UID, exit status 0".
serve() {
  local command grpc health uid status=0
  read -ra command <<<"$(unit ExecStart)"
  (as_user "${command[@]}" --grpc 127.0.0.1:0 --http 127.0.0.1:0) >"$work/ready" 2>"$work/log" &
  server=$!
  await 60 grep -q '^READY ' "$work/ready" || { tail -5 "$work/log" >&2; echo "not ready"; return; }
  grpc=$(sed -E 's/.* grpc=([^ ]+).*/\1/' "$work/ready")
  health=$( (as_user /usr/bin/dunlin healthcheck --address "$grpc") || true)
  uid=$(awk '/^Uid:/ {print $2}' "/proc/$server/status")
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  echo "$health, uid $uid, exit status $status"
}

version=$(dpkg-deb -f "$package" Version)
inside mkdir /packages
cp "$package" "$newer" "$root/packages/"
inside dpkg -i "/packages/$(basename "$package")" >"$work/dpkg" 2>&1 || cat "$work/dpkg" >&2
check "dpkg -i" "$(state)" test "$(state)" = "installed $version"
calls=$(told)
check "systemctl after it" "$calls" test "$calls" = "daemon-reload;"
account=$(inside getent passwd dunlin | cut -d: -f1,6,7)
uid=$(inside id -u dunlin)
check "user" "$account" test "$account" = dunlin:/nonexistent:/usr/sbin/nologin
altered=$(inside dpkg --verify dunlin)
check "files are those of the package" "${altered:-all}" test -z "$altered"
seen=$(serve)
check "the unit's command" "$seen" test "$seen" = "SERVING, uid $uid, exit status 0"

sed -i 's|"models": |"log": {"level": "warn"}, "models": |' "$root/etc/dunlin/config.json"
changed=$(md5sum <"$root/etc/dunlin/config.json")
touch "$root/etc/dunlin/keys.json"
inside dpkg -i "/packages/$(basename "$newer")" >"$work/dpkg" 2>&1 || cat "$work/dpkg" >&2
check "upgrade" "$(state)" test "$(state)" = "installed $version+1"
calls=$(told)
check "systemctl after it" "$calls" test "$calls" = "daemon-reload;try-restart dunlin.service;"
check "the changed config is kept" "" test "$(md5sum <"$root/etc/dunlin/config.json")" = "$changed"
seen=$(serve)
check "the unit's command" "$seen" test "$seen" = "SERVING, uid $uid, exit status 0"

inside dpkg -r dunlin >"$work/dpkg" 2>&1 || cat "$work/dpkg" >&2
check "removal" "$(state)" test "$(state)" = "config-files $version+1"
calls=$(told)
check "systemctl for it" "$calls" test "$calls" = "disable --now --quiet dunlin.service;daemon-reload;"
left=$(cd "$root" && find opt usr/bin/dunlin usr/lib/systemd/system/dunlin* usr/share/doc/dunlin etc/dunlin ! -type d 2>/dev/null |
  tr '\n' ' ' || true)
check "left: the config, and the administrator's files" "$left" \
  test "$(tr ' ' '\n' <<<"$left" | sort | xargs)" = "etc/dunlin/config.json etc/dunlin/keys.json"
inside dpkg -P dunlin >"$work/dpkg" 2>&1 || cat "$work/dpkg" >&2
check "purge" "$(state)" test "$(state)" = none
check "left: the administrator's files" "$(ls "$root/etc/dunlin")" test "$(ls "$root/etc/dunlin")" = keys.json
end_checks
