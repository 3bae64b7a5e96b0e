#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Creates a minimal Debian root (debootstrap's minbase plus the given packages) for testing releases on a system without
# our dependencies. Usage: clean_root.sh SUITE [PACKAGE...]. Prints the folder, build/deploy/debian-SUITE[-PACKAGE...],
# which later runs reuse. Needs root. ARCHITECTURE=arm64: for that one, whose programs run under emulation (arm64_run.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

name=debian-$(tr ' ' - <<<"$*")${ARCHITECTURE:+-$ARCHITECTURE}
root=$PWD/build/deploy/$name
suite=$1
shift
if [ ! -d "$root" ]; then
  command -v debootstrap >/dev/null || { echo "needs debootstrap (a Debian package) and root" >&2; exit 1; }
  mkdir -p build/deploy
  rm -rf "$root.part"
  ${ARCHITECTURE:+deploy/arm64_run.sh} debootstrap ${ARCHITECTURE:+"--arch=$ARCHITECTURE"} --variant=minbase ${1:+"--include=$(tr ' ' , <<<"$*")"} "$suite" "$root.part" >"$root.log" 2>&1 ||
    { tail -5 "$root.log" >&2; exit 1; }
  mv "$root.part" "$root"
fi
echo "$root"
