// The tile GEMM's launches, by operands. Each enqueues one kernel on the stream and reads nothing that lies on the
// device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/tile_call.h"

namespace dunlin::kernels::cuda {

void LaunchTilesFp16(const TileCall& call, cudaStream_t stream);
void LaunchTilesBf16(const TileCall& call, cudaStream_t stream);
// One scale a row and output; and one each 128 codes, where the call has weight_scales.
void LaunchTilesFp8(const TileCall& call, cudaStream_t stream);
// Ends a call that has parts, of at most kMergeRowsMax rows.
inline constexpr int64_t kMergeRowsMax = 65535;
void LaunchMergeSlices(const TileCall& call, cudaStream_t stream);

// Allows each kernel the shared memory it takes; once, when the device is opened.
cudaError_t PrepareTilesFp16();
cudaError_t PrepareTilesBf16();
cudaError_t PrepareTilesFp8();

}  // namespace dunlin::kernels::cuda
