// SPDX-License-Identifier: Apache-2.0
// Index keys and the choice of keys: a warp per row that is stored, a thread per score, a block per row that chooses,
// and one per row whose choice is listed. Rows choose kSelectionRows at a time, whose scores there is memory for.
#include <algorithm>

#include "kernels/cuda/attention/gathered_keys.h"
#include "kernels/cuda/attention/key_selection.h"
#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/device/launchers.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kScoreThreads = 128;  // keys of a block

// One warp per index query and key; blockIdx.x is the token.
__global__ void __launch_bounds__(kRowThreads, kRowBlocks) StoreIndexRows(StoreIndexKeysParams params) {
  constexpr int kWarps = kRowThreads / kWarp;
  const int32_t head = static_cast<int32_t>(blockIdx.y) * kWarps + static_cast<int32_t>(threadIdx.x) / kWarp;
  if (head <= params.num_heads) StoreIndexRow(WarpLanes(), params, static_cast<int32_t>(blockIdx.x), head);
}

// blockIdx.y: of the rows from first_row on.
__global__ void __launch_bounds__(kScoreThreads) ScoreIndexKeys(SelectKeysParams params, int32_t first_row) {
  const auto query = first_row + static_cast<int32_t>(blockIdx.y);
  const IndexRow row = IndexRowOf(params, query);
  const auto key = static_cast<int32_t>(blockIdx.x * kScoreThreads + threadIdx.x);
  if (!NeedsScores(params, row) || key >= row.limit) return;
  params.scores[int64_t{blockIdx.y} * params.max_kv_tokens + key] = IndexScore(params, row, query, key);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) ChooseIndexKeys(SelectKeysParams params, int32_t first_row) {
  __shared__ ChoiceMemory<kRowThreads> memory;
  const auto query = first_row + static_cast<int32_t>(blockIdx.x);
  const IndexRow row = IndexRowOf(params, query);
  ChooseKeys(BlockLanes(), params.scores + int64_t{blockIdx.x} * params.max_kv_tokens, row.limit, params.top_k,
             params.selected + query * params.selected_stride, &memory);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) ListChosenKeys(const __grid_constant__ KeyListCall gather) {
  __shared__ KeyListMemory<kRowThreads> memory;
  ListKeys(BlockLanes(), gather, static_cast<int32_t>(blockIdx.x), &memory);
}

}  // namespace

void LaunchListKeys(const KeyListCall& gather, Stream stream) {
  ListChosenKeys<<<static_cast<unsigned>(gather.num_slots), kRowThreads, 0, stream>>>(gather);
}

KernelStatus StoreIndexKeys(DeviceContext* context, const StoreIndexKeysParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_tokens == 0) return KernelStatus::kOk;
  constexpr int32_t kWarps = kRowThreads / kWarp;
  const dim3 grid(static_cast<unsigned>(params.num_tokens),
                  static_cast<unsigned>((params.num_heads + 1 + kWarps - 1) / kWarps));
  StoreIndexRows<<<grid, kRowThreads, 0, context->stream>>>(params);
  return Launched(context);
}

KernelStatus SelectKeys(DeviceContext* context, const SelectKeysParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_sequences == 0 || params.max_kv_tokens == 0) return KernelStatus::kOk;
  const auto tiles = static_cast<unsigned>((params.max_kv_tokens + kScoreThreads - 1) / kScoreThreads);
  for (int32_t first = 0; first < params.num_rows; first += kSelectionRows) {
    const auto rows = static_cast<unsigned>(std::min(kSelectionRows, params.num_rows - first));
    if (params.max_kv_tokens > params.top_k) {
      ScoreIndexKeys<<<dim3(tiles, rows), kScoreThreads, 0, context->stream>>>(params, first);
    }
    ChooseIndexKeys<<<rows, kRowThreads, 0, context->stream>>>(params, first);
  }
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
