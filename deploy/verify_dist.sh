#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that a dist runs on a minimal system: unpacks it into a clean Debian without our dependencies, serves the demo
# model as user nobody, streams a completion, stops the server. Usage: verify_dist.sh DIST.tar.gz [SUITE]. Needs root
# and debootstrap. Exit status 1 if a check failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/checks.sh"
. "$here/served_dist.sh"

dist=$1
suite=${2:-bookworm}
root=$("$here/clean_root.sh" "$suite")
name=$(basename "$dist" .tar.gz)
work=$(mktemp -d)
cleanup() {
  kill_server
  rm -rf "$work" "$root/opt/$name"
}
trap cleanup EXIT

tar -C "$root/opt" -xzf "$dist"
inside() { # in the root, as nobody, with its own /proc
  exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot --userspec=65534:65534 "$0" "$@"' "$root" "$@"
}

system=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release")
echo "$(basename "$dist") in a bare $system, $(chroot "$root" ldd --version | head -1)"
packages=$(chroot "$root" dpkg-query -W -f '${Package}\n' | grep -cE 'grpc|protobuf|absl|spdlog|prometheus|libcrypto|libfmt' || true)
check "dependencies installed in the root, 0" "$packages" test "$packages" -eq 0
start_server "/opt/$name" 60
# Mapped libraries that come neither from the dist nor from glibc.
foreign=$(awk '$6 ~ /\.so/ {print $6}' "/proc/$server/maps" | sort -u |
  grep -vE "/opt/$name/|/(ld-linux-(x86-64|aarch64)|libc|libm|libdl|librt|libpthread|libresolv|libnss_[a-z]+)\.so" || true)
check "libraries not from lib/ or glibc, none" "${foreign:-none}" test -z "$foreign"
uid=$(awk '/^Uid:/ {print $2}' "/proc/$server/status")
check "user of the process" "uid $uid" test "$uid" -eq 65534
check_serving
end_checks
