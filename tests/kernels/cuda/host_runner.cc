// SPDX-License-Identifier: Apache-2.0
// The CUDA device's attention on the host: the blocks of a launch in turn, as plain C++ from the same source. Shared
// memory and the workspace start as NaN and end with a guard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention/efficient/efficient_block.h"
#include "kernels/cuda/attention/flash/sm80/flash_block.h"
#include "kernels/cuda/attention/launch_plan.h"
#include "kernels/cuda/attention/math/math_block.h"
#include "kernels/cuda/attention/support.h"
#include "tests/kernels/attention/attention_runner.h"
#include "tests/kernels/cuda/host_attention.h"

namespace dunlin::kernels::testing {
namespace {

using cuda::Bf16Format;
using cuda::Fp16Format;
using cuda::TensorProducts;

template <typename Run>
void WithShared(size_t bytes, const Run& run) {
  PoisonedMemory shared(bytes);
  run(reinterpret_cast<unsigned char*>(shared.data()));
  EXPECT_TRUE(shared.Intact()) << "wrote past shared memory";
}

template <typename Products>
void RunEfficientBlock(const cuda::AttentionCall& call, const cuda::LaunchPlan& plan, const cuda::BlockPlace& place,
                       const cuda::RowBlock& rows) {
  WithShared(cuda::TileMemory<Products>::kBytes, [&](unsigned char* shared) {
    cuda::RunEfficient<Products>(call, plan.parts, rows, place.column_tile * cuda::kTileDims, place.part, shared);
  });
}

template <typename Format>
void RunFlashBlock(const cuda::AttentionCall& call, const cuda::LaunchPlan& plan, const cuda::BlockPlace& place,
                   const cuda::RowBlock& rows) {
  const auto run = [&](auto slices, auto stages) {
    constexpr int kSlices = decltype(slices)::value;
    constexpr int kStages = decltype(stages)::value;
    WithShared(cuda::FlashMemory<kSlices, kStages>::kBytes, [&](unsigned char* shared) {
      cuda::RunFlash<TensorProducts<Format>, kSlices, kStages>(call, plan.parts, plan.totals, rows, place.part, shared);
    });
  };
  constexpr std::integral_constant<int, 1> kOne;
  constexpr std::integral_constant<int, 2> kTwo;
  if (plan.flash.slices == 1) return run(kOne, kTwo);
  if (plan.flash.slices == 2) return run(kTwo, kTwo);
  constexpr std::integral_constant<int, 4> kFour;
  if (plan.flash.stages == 1) return run(kFour, kOne);
  run(kFour, kTwo);
}

void RunBlock(AttentionBackend backend, const cuda::AttentionCall& call, const cuda::LaunchPlan& plan, int64_t index) {
  const cuda::BlockPlace place = cuda::PlaceOf(plan, call.num_kv_heads, index);
  const cuda::RowBlock rows = cuda::BlockOf(call, place.sequence, place.kv_head, place.row_block);
  if (rows.num_rows == 0) return;
  const DType dtype = call.keys.dtype;
  if (backend == AttentionBackend::kMath) {
    float* scores = plan.scores + index % plan.workers * plan.score_floats;
    WithShared(cuda::TileMemory<cuda::Fp32Products>::kBytes,
               [&](unsigned char* shared) { cuda::RunMath(call, rows, scores, shared); });
  } else if (backend == AttentionBackend::kFlash) {
    if (dtype == DType::kF16) return RunFlashBlock<Fp16Format>(call, plan, place, rows);
    RunFlashBlock<Bf16Format>(call, plan, place, rows);
  } else {
    if (dtype == DType::kF16) return RunEfficientBlock<TensorProducts<Fp16Format>>(call, plan, place, rows);
    if (dtype == DType::kBF16) return RunEfficientBlock<TensorProducts<Bf16Format>>(call, plan, place, rows);
    RunEfficientBlock<cuda::Fp32Products>(call, plan, place, rows);
  }
}

// An A100's shape, and one whose blocks have less shared memory (compute capability 8.6, 8.9 and 12.0).
constexpr cuda::DeviceShape kLarge{132, 163 * 1024};
constexpr cuda::DeviceShape kSmall{132, 99 * 1024};

void Run(AttentionBackend backend, const cuda::AttentionCall& call, const cuda::DeviceShape& device,
         size_t workspace_bytes, Division division) {
  if (call.num_sequences == 0 || call.max_query_tokens == 0) return;
  if (division == Division::kWhole && backend != AttentionBackend::kMath) workspace_bytes = 0;  // no memory for parts
  PoisonedMemory workspace(workspace_bytes);
  cuda::LaunchPlan plan;
  ASSERT_TRUE(cuda::PlanLaunch(backend, call, device, workspace.data(), workspace_bytes, &plan));
  const int64_t tasks = int64_t{call.num_sequences} * call.num_kv_heads;
  const int64_t blocks = backend == AttentionBackend::kMath ? tasks * plan.row_blocks : plan.blocks;
  for (int64_t index = 0; index < blocks; ++index) RunBlock(backend, call, plan, index);
  for (int64_t task = 0; plan.parts.data != nullptr && task < tasks; ++task) {
    const cuda::RowBlock rows = cuda::BlockOf(call, static_cast<int32_t>(task / call.num_kv_heads),
                                              static_cast<int32_t>(task % call.num_kv_heads), 0);
    for (int32_t row = 0; row < rows.num_rows; ++row) {
      for (int32_t dim = 0; dim < call.values.dim; ++dim) {
        cuda::MergeParts(call, plan.parts, rows, plan.part_keys, row, dim);
      }
    }
  }
  EXPECT_TRUE(workspace.Intact()) << "wrote past the workspace";
}

void RunPaged(const PagedAttentionParams& params, const cuda::DeviceShape& device, size_t workspace_bytes,
              Division division) {
  const cuda::SplitCall split = cuda::SplitByRows(cuda::CallOf(params), params.num_one_token_sequences);
  for (int i = 0; i < split.count; ++i) Run(params.backend, split.calls[i], device, workspace_bytes, division);
}

class HostRunner : public AttentionRunner {
 public:
  bool Takes(AttentionBackend backend, const AttentionTraits& traits) const override {
    return cuda::SupportsAttention(80, backend, traits, nullptr);
  }
  const PageFormat& pages() const override { return kCudaPages; }
  std::vector<float> Paged(const PagedBatch& batch, AttentionBackend backend, Division division) const override {
    std::vector<float> out = PagedOn(kLarge, batch, backend, division);
    if (backend == AttentionBackend::kFlash && batch.Plan().traits.head_dim > 128) {
      EXPECT_EQ(PagedOn(kSmall, batch, backend, division), out) << "one stage gives other bits than two";
    }
    return out;
  }
  std::vector<float> Dense(const DenseProblem& problem, AttentionBackend backend) const override {
    PoisonedMemory out(problem.out_bytes());
    const DenseAttentionParams params = problem.Params(backend, out.data());
    const cuda::AttentionCall call = cuda::CallOf(params);
    Run(backend, call, kLarge, cuda::DenseWorkspaceBytes(backend, call, kLarge), Division::kAsPlanned);
    EXPECT_TRUE(out.Intact());
    return Widen(params.dtype, out.data(), out.size());
  }
  DType RoundingOf(AttentionBackend backend, DType dtype, int32_t /*head_dim*/) const override {
    return backend == AttentionBackend::kFlash && dtype == DType::kF8E4M3 ? DType::kBF16 : dtype;
  }
  size_t grid_cases() const override { return 0; }
  bool runs_costly_lengths() const override { return false; }

 private:
  static std::vector<float> PagedOn(const cuda::DeviceShape& device, const PagedBatch& batch, AttentionBackend backend,
                                    Division division) {
    std::vector<float> out(batch.out_floats(), NAN);
    const PagedAttentionPlan plan = batch.Plan();
    size_t bytes = cuda::PagedWorkspaceBytes(backend, plan, device);
    if (backend == AttentionBackend::kMath) {  // two workers, to save time
      bytes = std::min(bytes, sizeof(float) * 2 * static_cast<size_t>(cuda::MathScoreFloats(plan.max_kv_tokens)));
    }
    RunPaged(batch.Params(backend, out.data()), device, bytes, division);
    return out;
  }
};

}  // namespace

void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan) {
  RunPaged(params, kLarge, cuda::PagedWorkspaceBytes(params.backend, plan, kLarge), Division::kAsPlanned);
}

const std::vector<RunnerRow>& Runners() {
  static const auto* runners = new std::vector<RunnerRow>{{"host", [](std::string*) -> const AttentionRunner* {
                                                             static const HostRunner runner;
                                                             return &runner;
                                                           }}};
  return *runners;
}

}  // namespace dunlin::kernels::testing
