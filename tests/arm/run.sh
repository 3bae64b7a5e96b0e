#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 into build/aarch64 and runs tests under qemu-user, in parts: kernels (on a processor with everything that
# qemu has, on a Neoverse N1, which has no BF16, I8MM or SVE, and on a Cortex-A72, which has no dot product either), models
# (goldens and bits of responses, on the first), served (the binary, served.py) and units (tests of engine, text and server without
# kernels, on the first). Usage: run.sh [JOBS [PART...]].
# Emulated code takes 10 to 50 times as long, so that what runs is a choice.
set -euo pipefail
cd "$(dirname "$0")/../.."
jobs=${1:-$(nproc)}
parts=("${@:2}")
[ "${#parts[@]}" -gt 0 ] || parts=(kernels models served units)
build=build/aarch64

# Entries of ctest (the programs that hold them are targets of the same name).
everywhere=(kernels_cpu_device_test kernels_cpu_rounding_test kernels_cpu_gemm_test)
on_the_best=(
  kernels_cpu_thread_pool_test kernels_cpu_roofs_test kernels_cpu_pack_weight_test kernels_cpu_fp8_source_test
  kernels_cpu_layer_ops_test kernels_cpu_shared_scale_test
)
# Of engine, text and server: what another processor, compiler or Rust target can change. The fronts are left to `served`.
unit_tests=(
  engine_base_test cache_test kv_events_test speculation_test text_test chat_test grammar_test chat_output_test
  config_test json_test process_test access_test quota_test
)
of_pages=(engine_base_test process_test json_test) # again, on a system with pages of 64 KiB
# Programs of models, and which of their tests: of each kind of layer one model.
goldens=device_models_test
goldens_chosen=$(printf '*GoldensLogits*/%s:' gpt2_tiny bloom_tiny llama_gqa gemma3_tiny mixtral_tiny gpt_oss_tiny deepseek_v3_tiny \
  deepseek_v32_tiny llama4_tiny mamba2_tiny lfm2_tiny qwen35_tiny)
bits=integration_model_test
bits_chosen=PortableModelBits.*:$(printf 'Models/BitContract.*/%s:' llama_gqa_neon_bf16)

build_targets() { cmake --build $build -j "$jobs" --target "$@"; }

# PROCESSOR ENTRY...
run_on() {
  local pattern
  pattern="^($(IFS='|'; echo "${*:2}"))$"
  echo "on $1, pages of $((${QEMU_PAGESIZE:-4096} >> 10)) KiB:"
  QEMU_CPU=$1 tests/arm/emulated.sh ctest --test-dir $build -j "$jobs" -R "$pattern" --no-tests=error --output-on-failure
}

# PROGRAM FILTER
run_chosen() {
  echo "of $1: $2"
  QEMU_CPU=max tests/arm/emulated.sh "$build/tests/$1" --gtest_brief=1 --gtest_filter="$2" | tee $build.tests.log
  grep -q 'PASSED.* [1-9][0-9]* test' $build.tests.log # none is no pass
}

kernels() {
  build_targets "${everywhere[@]}" "${on_the_best[@]}"
  run_on max "${everywhere[@]}" "${on_the_best[@]}"
  run_on neoverse-n1 "${everywhere[@]}"
  run_on cortex-a72 "${everywhere[@]}"
}

models() {
  build_targets $goldens $bits
  run_chosen $bits "$bits_chosen"
  run_chosen $goldens "$goldens_chosen"
}

served() {
  build_targets dunlin
  PYTHONDONTWRITEBYTECODE=1 python3 tests/arm/served.py $build/dunlin
}

units() {
  build_targets "${unit_tests[@]}"
  run_on max "${unit_tests[@]}"
  QEMU_PAGESIZE=65536 run_on max "${of_pages[@]}"
}

cmake --preset aarch64 >$build.configure.log 2>&1 || { cat $build.configure.log; exit 1; }
for part in "${parts[@]}"; do
  begin=$SECONDS
  "$part"
  echo "$part: $((SECONDS - begin)) s"
done
