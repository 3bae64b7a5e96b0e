// SPDX-License-Identifier: Apache-2.0
// Launchers of the tile GEMM, by operand type. Each enqueues one kernel on the stream and reads no device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

void LaunchTilesFp16(const TileCall& call, cudaStream_t stream);
void LaunchTilesBf16(const TileCall& call, cudaStream_t stream);
// One scale per row and output; or, where the call has weight_scales, one per 128 codes.
void LaunchTilesFp8(const TileCall& call, cudaStream_t stream);
// Integer codes; the call has `coded`.
void LaunchTilesCoded(const TileCall& call, cudaStream_t stream);
void LaunchExpandCodes(const ExpandCall& call, cudaStream_t stream);
// Completes a call that has parts, of at most kMergeRowsMax rows.
inline constexpr int64_t kMergeRowsMax = 65535;
void LaunchMergeSlices(const TileCall& call, cudaStream_t stream);

// Raises each kernel's shared memory limit; called once, when the device is opened.
cudaError_t PrepareTilesFp16();
cudaError_t PrepareTilesBf16();
cudaError_t PrepareTilesFp8();
cudaError_t PrepareTilesCoded();

}  // namespace dunlin::kernels::cuda
