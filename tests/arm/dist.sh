#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks under emulation that a dist for aarch64 runs where there is nothing else but glibc, and serves the demo model.
# Usage: dist.sh DIST.tar.gz, after deploy/arm64_sysroot.sh. Exit status 1 if a check failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/checks.sh
. deploy/served_dist.sh

dist=$1
sysroot=build/aarch64-sysroot
work=$(mktemp -d)
cleanup() {
  kill_server
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
inside() { exec tests/arm/emulated.sh "$@"; }

foreign=$(readelf -h "$home"/bin/* "$home"/lib/* | grep Machine: | grep -v AArch64 || true)
check "programs and libraries for another machine, none" "${foreign:-none}" test -z "$foreign"
variant=$( (inside "$home/bin/dunlin" inspect --device cpu) 2>&1 | grep -om1 "neon[a-z0-9_]*" || true)
check "dunlin inspect names a variant" "$variant" test -n "$variant"
start_server "$home" 120
check_serving
end_checks
