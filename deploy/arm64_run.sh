#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: arm64_run.sh COMMAND...: runs COMMAND, as root, where aarch64 programs start by themselves in every root file system, in
# chroots and containers: a static qemu-user of Debian's is the system's handler for them until COMMAND ends. Does nothing more
# where there is such a handler already (package qemu-user-static), or on an aarch64.
set -euo pipefail
cd "$(dirname "$0")/.."
handlers=/proc/sys/fs/binfmt_misc
if [ "$(uname -m)" = aarch64 ] || grep -qs '^flags:.*F' $handlers/qemu-aarch64; then exec "$@"; fi
[ "$(id -u)" -eq 0 ] || { echo "arm64_run: needs root, or the package qemu-user-static" >&2; exit 1; }

qemu=$PWD/build/aarch64-emulator/usr/bin/qemu-aarch64-static
if [ ! -x "$qemu" ]; then
  work=$(mktemp -d)
  (cd "$work" && { apt-get download -qq qemu-user-static || { apt-get update -qq && apt-get download -qq qemu-user-static; }; }) 2>/dev/null
  mkdir -p build/aarch64-emulator
  dpkg-deb --fsys-tarfile "$work"/*.deb | tar -x -C build/aarch64-emulator ./usr/bin/qemu-aarch64-static
  rm -rf "$work"
fi
# As in tests/arm/emulated.sh. F: the kernel opens the program now, so that a chroot need not have it. The mount is of this
# namespace alone.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
exec unshare --mount bash -c '
  mount -t binfmt_misc binfmt_misc "$1" || exit 1
  name=dunlin-aarch64-$$
  trap "echo -1 >\"$1/$name\"" EXIT
  printf "%s" ":$name:M::$2:$3:$4:F" >"$1/register" || exit 1
  "${@:5}"' arm64_run $handlers "$magic" "$mask" "$qemu" "$@"
