#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a CUDA toolkit available to the build: the one whose nvcc is on PATH, or the pinned wheels of cuda_toolkit.lock,
# installed into build/cuda-toolkit. A second run does nothing. Exit status 1, with the reason, if neither is available.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v nvcc >/dev/null && exit 0
target=build/cuda-toolkit
lock=deploy/cuda_toolkit.lock
cmp -s "$lock" "$target/installed.lock" && exit 0

fail() { echo "no CUDA toolkit: $1" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || fail "the pinned wheels are for x86_64"
python3 -m pip --version >/dev/null 2>&1 || fail "nvcc is not on PATH, and python3 has no pip to install the wheels with"

echo "installing the CUDA toolkit into $target"
rm -rf "$target" "$target.partial"
mkdir -p build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout 240 python3 -m pip install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 30 --no-deps \
  --require-hashes --only-binary :all: --no-compile --target "$target.partial" -r "$lock" >"$log" 2>&1 </dev/null ||
  { rm -rf "$target.partial"; fail "$(grep -m1 ERROR "$log" || echo "pip did not finish")"; }
chmod +x "$target.partial"/nvidia/cu13/bin/* "$target.partial"/nvidia/cu13/nvvm/bin/*
cp "$lock" "$target.partial/installed.lock"
mv "$target.partial" "$target"
