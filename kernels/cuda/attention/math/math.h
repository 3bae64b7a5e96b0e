// SPDX-License-Identifier: Apache-2.0
// MATH's row. A block has a row of scores per query row in the workspace: dense calls hold those of all tasks, as
// PyTorch's MATH does; in paged calls a few blocks take tasks in turn.
#pragma once

#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/math/math_block.h"

namespace dunlin::kernels::cuda {

inline constexpr int64_t kPagedScoreBytesMax = int64_t{64} << 20;  // of paged calls, unless one block needs more

struct MathPlan {
  float* scores;         // [workers, score_floats]
  int64_t score_floats;  // MathScoreFloats
  int64_t workers;       // blocks, which take tasks in turn
};

size_t MathPagedBytes(const BlockGeometry& geometry, const PagedAttentionPlan& plan, const DeviceShape& device);
size_t MathDenseBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device);
bool DivideMath(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device, void* workspace,
                size_t workspace_bytes, LaunchPlan* plan);
int PrepareMath();
void LaunchMath(const AttentionCall& call, const LaunchPlan& plan, Stream stream);

inline constexpr AttentionKernel kMathKernel = {
    .backend = AttentionBackend::kMath,
    .phases = kAnyPhase,
    .sm_min = 80,
    .sm_max = kAnyLaterSm,
    .dtypes = Bit(DType::kF32) | Bit(DType::kF16) | Bit(DType::kBF16) | Bit(DType::kF8E4M3),
    .limits = {kAnyHeadDim, true, true},
    .geometry = {.threads = kBlockThreads,
                 .rows = kTileRows,
                 .columns = 0,
                 .part_keys = 0,
                 .stages = 1,
                 .shared_bytes = TileMemory<Fp32Products>::kBytes},
    .plan = {MathPagedBytes, MathDenseBytes, DivideMath},
    .prepare = PrepareMath,
    .launch = LaunchMath,
    .merge = nullptr};

}  // namespace dunlin::kernels::cuda
