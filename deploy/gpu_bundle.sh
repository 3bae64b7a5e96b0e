#!/usr/bin/env bash
# Packs what checks the CUDA device on another machine: server, CUDA module, its tests, the demo model and gpu_check.sh.
# Usage: gpu_bundle.sh BUILD_DIR OUT_DIR. There: tar xf, then tests/gpu_check.sh. The last line on stdout is the file.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/dunlin-gpu-check
mkdir -p "$stage"/{lib,tests}
programs=(dunlin libdunlin_cuda.so tests/kernels_device_ops_test tests/kernels_device_attention_test)
for program in "${programs[@]}"; do
  [ -e "$build/$program" ] || { echo "gpu_bundle: no $build/$program; run make cuda and make test" >&2; exit 1; }
  strip -o "$stage/$program" "$build/$program"
  ldd "$build/$program" | awk '$2 == "=>" {print $1, $3}'
done | sort -u | grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv)\.so' | while read -r soname path; do
  cp -L "$path" "$stage/lib/$soname"
done
cp tests/gpu_check.sh tests/gpu_check.py tests/gpu_sanitize.sh "$stage/tests/"
cp -r configs "$stage/"
cp -r --parents models/demo "$stage/"
mkdir -p "$out"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/dunlin-gpu-check.tar.gz" dunlin-gpu-check
echo "$out/dunlin-gpu-check.tar.gz"
