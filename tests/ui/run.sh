#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the page in headless Chromium: packages and screenshots are in build/ui.
# Usage: run.sh BINARY [NAME]; NAME: of one test. CHROMIUM: the browser, /usr/bin/chromium by default.
set -euo pipefail

readonly limit_s=180
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=$(realpath "$1")
work=$root/build/ui

mkdir -p "$work"
if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
  cp "$here/package.json" "$here/package-lock.json" "$work"
  # Scripts of packages are not run: they could download what no lock file has.
  (cd "$work" && npm ci --no-audit --no-fund --ignore-scripts)
  cp "$here/package-lock.json" "$work/installed.json"
fi
cp "$here"/*.mjs "$work"  # packages are looked for beside the program
cd "$work"
exec timeout "$limit_s" node page_test.mjs "$binary" "$root" ${2:+"$2"}
