#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs everything needed to test the CUDA device on another machine: server, CUDA module, its tests, goldens, the demo
# model and gpu_check.sh. Usage: gpu_bundle.sh BUILD_DIR OUT_DIR. On the other machine: tar xf, then tests/gpu_check.sh,
# which needs a GPU's driver, bash, Python 3.10 and a cuBLASLt: PyTorch's, or the system's.
# `make test` builds the module for 9.0 and the GPUs of its machine; for others `make cuda CUDA_ARCHITECTURES=LIST` goes before this,
# where LIST is 89, or 90a;80. The output says what the build folder is configured for.
# The last line on stdout is the file. FAKE=1 packs the fake module, and the CUDA module only if it was built, for a
# rehearsal without a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
out=$2
limit_bytes=67108864 # 64 MiB
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/dunlin-gpu-check
mkdir -p "$stage/lib"
programs=(dunlin)
[ "${FAKE:-0}" = 1 ] && [ ! -e "$build/libdunlin_cuda.so" ] || programs+=(libdunlin_cuda.so)
for program in "${programs[@]}"; do
  [ -e "$build/$program" ] || { echo "gpu_bundle: no $build/$program; run make test, and make cuda for other GPUs than this machine's" >&2; exit 1; }
  strip -o "$stage/$program" "$build/$program"
done
deploy/libraries.sh "${programs[@]/#/$build/}" | while read -r soname path; do
  cp -L "$path" "$stage/lib/$soname"
done
deploy/gpu_tests.sh "$build" "$stage" "$stage"
mkdir -p "$out"
file=$out/dunlin-gpu-check.tar.gz
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -czf "$file" dunlin-gpu-check
bytes=$(stat -c %s "$file")
[ "$bytes" -le "$limit_bytes" ] || { echo "gpu_bundle: $bytes bytes, limit $limit_bytes" >&2; exit 1; }
architectures=$(sed -n 's/^DUNLIN_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt")
echo "$bytes bytes, CUDA architectures: ${architectures:-all}"
echo "$file"
