#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the programs that hold the tests of one folder of tests/ and runs these. Usage: check_room.sh ROOM [JOBS]; ROOM is a path below
# tests/, or the end of one: scheduler, server/access. PRESET: the build, dev if not given.
set -euo pipefail
cd "$(dirname "$0")/.."
room=${1%/}
jobs=${2:-$(nproc)}
preset=${PRESET:-dev}
build=build/$preset

mapfile -t rooms < <(find tests -name CMakeLists.txt -printf '%h\n' | grep -E "(^|/)${room:-[^/]*}$" | sort)
if [ -z "$room" ] || [ "${#rooms[@]}" -eq 0 ]; then
  echo "no folder of tests/ ends in \"$room\"; T is one of:" >&2
  find tests -mindepth 2 -name CMakeLists.txt -printf '%P\n' | sed 's,/CMakeLists.txt,,' | sort | xargs echo >&2
  exit 2
fi
if [ "${#rooms[@]}" -gt 1 ]; then
  echo "\"$room\" is ${rooms[*]}: name more of the path" >&2
  exit 2
fi
folder=${rooms[0]}
[ -f "$build/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build "$build" -j "$jobs" --target "$folder/all"
ctest --test-dir "$build/$folder" -j "$jobs" --no-tests=error --output-on-failure
