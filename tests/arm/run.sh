#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 into build/aarch64 and runs tests under qemu-user, in parts: kernels (products of each code variant on a
# processor that chooses it: one with everything that qemu has, a Neoverse N1, which has no BF16, I8MM or SVE, and a Cortex-A72,
# which has no dot product either; all else on the first), models (goldens and bits of responses, on the first), served (the
# binary, served.py) and units (tests of engine, text and server, on the first). Usage: run.sh [JOBS [PART...]].
# Emulated code takes 10 to 50 times as long, so that what runs is a choice.
set -euo pipefail
cd "$(dirname "$0")/../.."
jobs=${1:-$(nproc)}
parts=("${@:2}")
[ "${#parts[@]}" -gt 0 ] || parts=(kernels models served units)
build=build/aarch64

# Entries of ctest; of those with products and paged attention, which take longest, a choice of tests.
kernel_programs=(kernels_api_test kernels_cpu_test kernels_attention_test)
everywhere=(kernels_cpu_device_test kernels_cpu_rounding_test)
on_the_best=(
  kernels_cpu_thread_pool_test kernels_cpu_roofs_test kernels_cpu_pack_weight_test kernels_cpu_fp8_source_test
  kernels_cpu_layer_ops_test kernels_cpu_shared_scale_test kernels_sampling_test kv_block_test attention_dense_test
)
# Of paged attention every backend, variant and dtype of pages: heads that fit vectors and some that do not, windows, softcaps,
# ALiBi and sinks.
attention=$(printf '*PagedAttentionTest.*%s:' h3_kv3_d64_plain h6_kv2_d20_plain h2_kv1_d256_plain h4_kv2_d33_window65_softcap \
  h4_kv2_d33_alibi_window h4_kv2_d33_window65_sinks)PagedFusionTest.*:ValuesInKeys.*
# Of engine, text and server: what another processor, compiler or Rust target can change. The fronts are left to `served`.
unit_tests=(
  engine_base_test cache_test kv_events_test speculation_test text_test chat_test grammar_test chat_output_test
  config_test json_test process_test access_test quota_test
  parallel_test scheduler_test scheduler_promises_test sampling_test constrained_output_test runtime_test fp8_scaling_test
  draft_model_test engine_test constraint_test engine_allocation_test encoder_test
)
of_pages=(engine_base_test process_test json_test) # again, on a system with pages of 64 KiB
# Programs of models, and which of their tests: of each kind of layer one model.
goldens=device_models_test
goldens_chosen=$(printf '*GoldensLogits*/%s:' gpt2_tiny bloom_tiny llama_gqa gemma3_tiny mixtral_tiny gpt_oss_tiny deepseek_v3_tiny \
  deepseek_v32_tiny llama4_tiny mamba2_tiny lfm2_tiny qwen35_tiny)
bits=integration_model_test
bits_chosen=PortableModelBits.*:$(printf 'Models/BitContract.*/%s:' llama_gqa_neon_bf16)

# WHAT COMMAND...: how long it took, and how much time of processors.
timed() {
  local TIMEFORMAT="$1: %0R s, of processors %0U s and %0S s in the system"
  time "${@:2}"
}

build_targets() { timed "build" cmake --build $build -j "$jobs" --target "$@"; }

# PROCESSOR ENTRY...
run_on() {
  local pattern
  pattern="^($(IFS='|'; echo "${*:2}"))$"
  echo "on $1, pages of $((${QEMU_PAGESIZE:-4096} >> 10)) KiB:"
  QEMU_CPU=$1 tests/arm/emulated.sh ctest --test-dir $build -j "$jobs" -R "$pattern" --no-tests=error --output-on-failure
}

# PROCESSOR PROGRAM FILTER: in as many processes as there are jobs.
run_chosen() {
  echo "on $1, of $2: $3"
  local shard processes=() failed=0
  rm -f $build.tests.*.log
  for ((shard = 0; shard < jobs; ++shard)); do
    QEMU_CPU=$1 GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard tests/arm/emulated.sh "$build/tests/$2" --gtest_brief=1 \
      --gtest_filter="$3" >$build.tests.$shard.log 2>&1 &
    processes+=($!)
  done
  for shard in "${!processes[@]}"; do
    wait "${processes[$shard]}" || failed=1
    cat $build.tests.$shard.log
  done
  [ $failed = 0 ] && grep -q 'PASSED.* [1-9][0-9]* test' $build.tests.*.log # none is no pass
}

# VARIANT: its tests of products.
products() { printf "Variants/%s/$1:" 'Gemm*.*' 'GroupedProducts.*' 'Int8Inputs.*'; }

kernels() {
  build_targets "${kernel_programs[@]}"
  run_on max "${everywhere[@]}" "${on_the_best[@]}"
  run_on neoverse-n1 "${everywhere[@]}"
  run_on cortex-a72 "${everywhere[@]}"
  run_chosen max kernels_cpu_test "GemmGrid.*:$(products neon_bf16)$(products neon_i8mm)$(products portable)"
  run_chosen neoverse-n1 kernels_cpu_test "$(products neon_dot)"
  run_chosen cortex-a72 kernels_cpu_test "$(products neon)"
  run_chosen max kernels_attention_test "$attention"
}

models() {
  build_targets $goldens $bits
  run_chosen max $bits "$bits_chosen"
  run_chosen max $goldens "$goldens_chosen"
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
for part in "${parts[@]}"; do timed "$part" "$part"; done
