// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters: 2 kernels, one for each product, of the groups of a launch. Matrices are read once for up to four
// rows. 16 ranks of 4,096 inputs in BF16 are 128 KB: two blocks, whose lanes have four loads each in flight.
#include "kernels/cuda/low_rank/low_rank.h"
#include "kernels/cuda/low_rank/low_rank_plan.h"
#include "kernels/cuda/low_rank/low_rank_tile.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kBlocks = 8;  // of 128 threads: 64 registers each

__global__ void __launch_bounds__(kLowRankThreads, kBlocks) LowRankDown(const __grid_constant__ LowRankCall call) {
  const LowRankPlace place = FindLowRankTile<DownTiles>(call, blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kLowRankLanes;
  const int32_t rank = place.first + static_cast<int32_t>(threadIdx.x) / kLowRankLanes;
  WithLowRankTile(place, [&](auto dtype, auto rows) {
    float sums[rows()];
    SumDownLane<dtype(), rows()>(call, place, rank, lane, sums);
    DUNLIN_UNROLL
    for (int i = 0; i < rows(); ++i) {
      float sum = sums[i];
      DUNLIN_UNROLL
      for (int distance = kLowRankLanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(~0U, sum, distance);
      }
      if (lane == 0 && i < place.num_rows && rank < place.group->rank) {
        LowRankHidden(call, place, i)[rank] = place.group->scale * sum;
      }
    }
  });
}

__global__ void __launch_bounds__(kLowRankThreads, kBlocks) LowRankUp(const __grid_constant__ LowRankCall call) {
  const LowRankPlace place = FindLowRankTile<UpTiles>(call, blockIdx.x);
  WithLowRankTile(place, [&](auto dtype, auto rows) {
    AddUpColumn<dtype(), rows()>(call, place, static_cast<int32_t>(threadIdx.x));
  });
}

template <typename Tiles>
unsigned Blocks(const LowRankCall& call) {
  return static_cast<unsigned>(NumLowRankTiles<Tiles>(call));
}

}  // namespace

KernelStatus AddLowRank(DeviceContext* context, const AddLowRankParams& params) {
  if (!IsValid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_uses == 0) return KernelStatus::kOk;
  const auto launch = [context](const LowRankCall& call) {
    LowRankDown<<<Blocks<DownTiles>(call), kLowRankThreads, 0, context->stream>>>(call);
    LowRankUp<<<Blocks<UpTiles>(call), kLowRankThreads, 0, context->stream>>>(call);
  };
  LowRankLaunches(params, launch).Run();
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
