#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Extracts prometheus and promtool from Debian's package into build/prometheus for tests/deploy/monitoring_test.py,
# without installing the package or starting a service. Does nothing if they are already there or on PATH. Exit status
# 1, with the reason, if the package is not available.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/prometheus
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
[ -x "$folder/promtool" ] && exit 0
command -v apt-get >/dev/null || { echo "prometheus: needs apt-get, or prometheus and promtool on PATH" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get download -q prometheus >"$work/log" 2>&1); }
# The package lists may be missing or outdated.
download || { apt-get update -q >/dev/null 2>&1; download; } ||
  { echo "prometheus: $(grep -m1 '^E:' "$work/log" || tail -1 "$work/log")" >&2; exit 1; }
dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/prometheus ./usr/bin/promtool
mkdir -p "$folder"
mv "$work"/usr/bin/prom* "$folder/"
