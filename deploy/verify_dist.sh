#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that a dist runs on a minimal system: unpacks it into a clean Debian without our dependencies, serves the demo
# model as user nobody, streams a completion, stops the server. Usage: verify_dist.sh DIST.tar.gz [SUITE]. Needs root
# and debootstrap. Exit status 1 if a check failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/checks.sh"

dist=$1
suite=${2:-bookworm}
root=$("$here/clean_root.sh" "$suite")
name=$(basename "$dist" .tar.gz)
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  rm -rf "$work" "$root/opt/$name"
}
trap cleanup EXIT

tar -C "$root/opt" -xzf "$dist"
inside() { # COMMAND... in the root, as nobody, with its own /proc; exec'd, so that $! is the command itself
  exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot --userspec=65534:65534 "$0" "$@"' "$root" "$@"
}
dunlin=/opt/$name/bin/dunlin

(inside "$dunlin" serve --config "/opt/$name/configs/demo.json" --set listen.grpc=127.0.0.1:0 \
  --set listen.http=127.0.0.1:0) >"$work/ready" 2>"$work/log" &
server=$!
await 60 grep -q '^READY ' "$work/ready" || { tail -5 "$work/log" >&2; echo "verify_dist: not ready" >&2; exit 1; }
grpc=$(sed -E 's/.* grpc=([^ ]+).*/\1/' "$work/ready")

system=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release")
echo "$(basename "$dist") in a bare $system, $(chroot "$root" ldd --version | head -1)"
bytes=$(stat -c %s "$dist")
check "file, <= 60 MB" "$bytes bytes" test "$bytes" -le 60000000
packages=$(chroot "$root" dpkg-query -W -f '${Package}\n' | grep -cE 'grpc|protobuf|absl|spdlog|prometheus|libcrypto|libfmt' || true)
check "dependencies installed in the root, 0" "$packages" test "$packages" -eq 0
check "READY" "$(tail -1 "$work/ready")" test -n "$grpc"
# Mapped libraries that come neither from the dist nor from glibc.
foreign=$(awk '$6 ~ /\.so/ {print $6}' "/proc/$server/maps" | sort -u |
  grep -vE "/opt/$name/|/(ld-linux-(x86-64|aarch64)|libc|libm|libdl|librt|libpthread|libresolv|libnss_[a-z]+)\.so" || true)
check "libraries not from lib/ or glibc, none" "${foreign:-none}" test -z "$foreign"
uid=$(awk '/^Uid:/ {print $2}' "/proc/$server/status")
check "user of the process" "uid $uid" test "$uid" -eq 65534
health=$( (inside "$dunlin" healthcheck --address "$grpc") || true)
check "dunlin healthcheck" "$health" test "$health" = SERVING
text=$( (inside "$dunlin" generate --address "$grpc" --model demo --max-tokens 16 --ignore-eos --temperature 0 \
  --precision fp8 "The history of the") 2>"$work/generate.log" || true)
check "streamed completion" "$(tr -s '[:space:]' ' ' <<<"$text" | cut -c1-40)" test -n "$text"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
check "exit status after SIGTERM" "$status" test "$status" -eq 0
end_checks
