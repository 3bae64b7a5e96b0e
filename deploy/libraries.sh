#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists the shared libraries that programs need besides glibc, one "SONAME PATH" per line. glibc is not bundled: its
# loader, name service and locales belong together, and newer versions run programs built for older ones.
# Usage: libraries.sh PROGRAM..., of this machine or of the cross build for aarch64.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/target.sh"
for program in "$@"; do
  program=$(realpath "$program")
  (cd "$here/.." && set_target "$program" && loaded_by "$program") | awk '$2 == "=>" {print $1, $3}'
done | sort -u | grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv)\.so'
