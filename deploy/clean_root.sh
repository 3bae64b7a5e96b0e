#!/usr/bin/env bash
# A bare Debian in a folder, for running what we ship where nothing of ours is installed: debootstrap's minbase.
# Usage: clean_root.sh SUITE. Prints the folder, build/deploy/debian-SUITE, which a second run finds there. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build/deploy/debian-$1
if [ ! -d "$root" ]; then
  command -v debootstrap >/dev/null || { echo "needs debootstrap (a Debian package) and root" >&2; exit 1; }
  mkdir -p build/deploy
  rm -rf "$root.part"
  debootstrap --variant=minbase "$1" "$root.part" >build/deploy/debootstrap.log 2>&1 ||
    { tail -5 build/deploy/debootstrap.log >&2; exit 1; }
  mv "$root.part" "$root"
fi
echo "$root"
