#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 into build/aarch64 and runs tests under qemu-user: all of them here on a processor with everything that
# qemu has, and the kernels also on ones without BF16, I8MM and SVE (Neoverse N1), and without the dot product
# (Cortex-A72). Usage: run.sh [JOBS]. Emulated code takes 10 to 50 times as long, so that what runs is a choice.
set -euo pipefail
cd "$(dirname "$0")/../.."
jobs=${1:-$(nproc)}
build=build/aarch64

# Entries of ctest (the programs that hold them are targets of the same name).
everywhere=(kernels_cpu_device_test kernels_cpu_rounding_test kernels_cpu_gemm_test)
on_the_best=(
  kernels_cpu_thread_pool_test kernels_cpu_roofs_test kernels_cpu_pack_weight_test kernels_cpu_fp8_source_test
  kernels_cpu_layer_ops_test kernels_cpu_shared_scale_test
)

cmake --preset aarch64 >$build.configure.log 2>&1 || { cat $build.configure.log; exit 1; }
cmake --build $build -j "$jobs" --target "${everywhere[@]}" "${on_the_best[@]}"

# PROCESSOR ENTRY...
run_on() {
  local pattern
  pattern="^($(IFS='|'; echo "${*:2}"))$"
  echo "on $1:"
  QEMU_CPU=$1 tests/arm/emulated.sh ctest --test-dir $build -j "$jobs" -R "$pattern" --no-tests=error --output-on-failure
}
run_on max "${everywhere[@]}" "${on_the_best[@]}"
run_on neoverse-n1 "${everywhere[@]}"
run_on cortex-a72 "${everywhere[@]}"
