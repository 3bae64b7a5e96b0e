#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts prometheus and promtool into build/prometheus for tests/deploy/monitoring_test.py, out of Debian's package without
# installing it: no service starts, nothing is left on the machine. A second run does nothing, and neither does one where
# they are on PATH. Exits with 1 and the reason where the package cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/prometheus
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
[ -x "$folder/promtool" ] && exit 0
command -v apt-get >/dev/null || { echo "prometheus: needs apt-get, or prometheus and promtool on PATH" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get download -q prometheus >"$work/log" 2>&1); }
# Package lists may be missing, or older than the archive.
download || { apt-get update -q >/dev/null 2>&1; download; } ||
  { echo "prometheus: $(grep -m1 '^E:' "$work/log" || tail -1 "$work/log")" >&2; exit 1; }
dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/prometheus ./usr/bin/promtool
mkdir -p "$folder"
mv "$work"/usr/bin/prom* "$folder/"
