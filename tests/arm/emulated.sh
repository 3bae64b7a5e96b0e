#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: emulated.sh COMMAND...: runs COMMAND where aarch64 programs start by themselves, under qemu-user with the libraries
# of build/aarch64-sysroot (or of QEMU_LD_PREFIX), and so do the processes that they start, whatever environment those get.
# QEMU_CPU names the processor, QEMU_PAGESIZE the bytes of a page of the system (4096, 16384 or 65536). Registers a handler for
# such programs in a user namespace of its own, which takes Linux 6.7 and leaves the system as it is. Before, the handler of
# Debian's qemu-user-binfmt does, but for programs that start others without these variables: the server, for its text workers.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-$root/build/aarch64-sysroot}
handlers=/proc/sys/fs/binfmt_misc
own_handlers() { unshare --user --map-root-user --mount mount -t binfmt_misc binfmt_misc $handlers 2>/dev/null; }
if ! own_handlers; then
  [ -e $handlers/qemu-aarch64 ] && exec "$@"
  echo "no handler for aarch64 programs: install qemu-user-binfmt, or use Linux 6.7" >&2
  exit 1
fi
qemu=$(command -v qemu-aarch64) || { echo "qemu-aarch64 is missing: deploy/bootstrap.sh arm64" >&2; exit 1; }
# The first bytes of an ELF file of 64 bits for aarch64, an executable or a library, whatever its ABI.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
place=$root/build/aarch64-handler
mkdir -p "$place"
# The handler is a script on a file system that ends with the namespace: what it names does not depend on an environment.
exec unshare --user --map-root-user --mount bash -c '
  mount -t binfmt_misc binfmt_misc "$1" && mount -t tmpfs handler "$5" &&
    printf "#!/bin/sh\nexec %q -cpu %q -p %q -L %q \"\$@\"\n" "$4" "${QEMU_CPU:-max}" "${QEMU_PAGESIZE:-4096}" \
      "$QEMU_LD_PREFIX" >"$5/qemu-aarch64" &&
    chmod 755 "$5/qemu-aarch64" && printf "%s" ":qemu-aarch64:M::$2:$3:$5/qemu-aarch64:" >"$1/register" || exit 1
  exec "${@:6}"' emulated $handlers "$magic" "$mask" "$qemu" "$place" "$@"
