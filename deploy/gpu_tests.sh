#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adds the tests of the CUDA device to a folder with the server and lib/: test programs, goldens, the demo model and
# gpu_check.sh. Usage: gpu_tests.sh BUILD_DIR HOME PROGRAMS, where PROGRAMS is the server's folder: HOME or HOME/bin.
# FAKE=1 adds the fake module for a rehearsal without a GPU (gpu_check.sh --rehearse).
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
home=$2
programs=$3
mkdir -p "$home"/{lib,tests} "$programs/tests"
names=(kernels_device_ops_test kernels_device_attention_test device_models_test)
[ "${FAKE:-0}" = 1 ] && names+=(libfake_cuda.so)
for name in "${names[@]}"; do
  [ -e "$build/tests/$name" ] || { echo "gpu_tests: no $build/tests/$name; run make test" >&2; exit 1; }
  strip -o "$programs/tests/$name" "$build/tests/$name"
done
deploy/libraries.sh "${names[@]/#/$build/tests/}" | while read -r soname path; do
  cp -L "$path" "$home/lib/$soname"
done
mkdir -p "$home/tests/gpu_check"
cp tests/gpu_*.sh "$home/tests/"
cp tests/gpu_check/*.{py,sh} "$home/tests/gpu_check/"
[ -d "$home/configs" ] || cp -r configs "$home/"
cp -r --parents models/demo tests/golden/{models,adapters,predictors,encoders,image_encoders} "$home/"
