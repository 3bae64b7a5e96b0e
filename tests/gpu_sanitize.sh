#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA device's operations under compute-sanitizer: memory accesses, then races, on small shapes. Minutes.
# Usage: tests/gpu_sanitize.sh [FOLDER], as gpu_check.sh. Exit status: 0 clean, 1 not, 77 no GPU or no compute-sanitizer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/gpu_folder.sh"
command -v compute-sanitizer >/dev/null || { echo "skipped: compute-sanitizer is not on PATH"; exit 77; }
module=$folder/libdunlin_cuda.so
export DUNLIN_TEST_CUDA_MODULE=$module ${CUBLAS:+DUNLIN_TEST_CUBLAS="$CUBLAS"}
ops=$folder/tests/kernels_device_ops_test
attention=$folder/tests/kernels_device_attention_test
"$ops" --gtest_filter='Cuda/*MemoryStarts*' | grep -q 'SKIPPED' && { echo "skipped: no device behind $module"; exit 77; }
for tool in memcheck racecheck; do
  compute-sanitizer --tool "$tool" --error-exitcode 1 "$ops" --gtest_filter='Cuda/*'
  compute-sanitizer --tool "$tool" --error-exitcode 1 "$attention" \
    --gtest_filter='*TakesWindows*/cuda_*:*WhatARowDoesNotSee*/cuda_*:*AnyDim*/cuda'
done
echo "clean"
