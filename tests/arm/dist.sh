#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks under emulation that a dist for aarch64 runs where there is nothing else but glibc, and serves the demo model.
# Usage: dist.sh DIST.tar.gz, after deploy/arm64_sysroot.sh. Exit status 1 if a check failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/checks.sh

dist=$1
sysroot=build/aarch64-sysroot
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# What libc6 has in it and links to, and no other library.
mkdir -p "$work/glibc"
grep -E '/ld-linux-aarch64\.so|/aarch64-linux-gnu/[^/]+\.so' "$sysroot/var/lib/dpkg/info/libc6.list" | sed 's|^/||' |
  tar -C "$sysroot" -cf - -T - | tar -C "$work/glibc" -xf -
tar -C "$work" -xzf "$dist"
home=$work/$(basename "$dist" .tar.gz)
export QEMU_LD_PREFIX=$work/glibc
on_glibc() { exec tests/arm/emulated.sh "$@"; } # exec, so that $! is the server

foreign=$(readelf -h "$home"/bin/* "$home"/lib/* | grep Machine: | grep -v AArch64 || true)
check "programs and libraries for another machine, none" "${foreign:-none}" test -z "$foreign"
variant=$( (on_glibc "$home/bin/dunlin" inspect --model "$home/models/demo") 2>&1 | grep -o 'neon[a-z0-9_]*' | head -1 || true)
check "dunlin inspect names a variant" "$variant" test -n "$variant"
(on_glibc "$home/bin/dunlin" serve --config "$home/configs/demo.json" --set listen.grpc=127.0.0.1:0 --set listen.http=127.0.0.1:0) \
  >"$work/ready" 2>"$work/log" &
server=$!
await 120 grep -q '^READY ' "$work/ready" || { tail -5 "$work/log" >&2; echo "arm/dist: not ready" >&2; exit 1; }
grpc=$(sed -E 's/.* grpc=([^ ]+).*/\1/' "$work/ready")
text=$( (on_glibc "$home/bin/dunlin" generate --address "$grpc" --model demo --max-tokens 16 --ignore-eos --temperature 0 \
  "The history of the") 2>"$work/generate.log" || true)
check "streamed completion" "$(tr -s '[:space:]' ' ' <<<"$text" | cut -c1-40)" test -n "$text"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
check "exit status after SIGTERM" "$status" test "$status" -eq 0
end_checks
