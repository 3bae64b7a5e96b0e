#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A bare Debian in a folder, for running what we ship where nothing of ours is installed: debootstrap's minbase, with
# further packages if they are named. Usage: clean_root.sh SUITE [PACKAGE...]. Prints the folder, which a second run finds
# there: build/deploy/debian-SUITE[-PACKAGE...]. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

name=debian-$(tr ' ' - <<<"$*")
root=$PWD/build/deploy/$name
suite=$1
shift
if [ ! -d "$root" ]; then
  command -v debootstrap >/dev/null || { echo "needs debootstrap (a Debian package) and root" >&2; exit 1; }
  mkdir -p build/deploy
  rm -rf "$root.part"
  debootstrap --variant=minbase ${1:+"--include=$(tr ' ' , <<<"$*")"} "$suite" "$root.part" >"$root.log" 2>&1 ||
    { tail -5 "$root.log" >&2; exit 1; }
  mv "$root.part" "$root"
fi
echo "$root"
