#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists the shared libraries that programs need beside glibc, "SONAME PATH" a line. glibc stays the system's: its loader,
# name service and locales belong together, and a newer one runs programs of an older. Usage: libraries.sh PROGRAM...
set -euo pipefail
for program in "$@"; do
  ldd "$program" | awk '$2 == "=>" {print $1, $3}'
done | sort -u | grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv)\.so'
