// SPDX-License-Identifier: Apache-2.0
// Launchers of the tile GEMM, by operand type. Each enqueues one kernel on the stream and reads no device memory.
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

void LaunchTilesFp16(const TileCall& call, Stream stream);
void LaunchTilesBf16(const TileCall& call, Stream stream);
// One scale per row and output; one per 128 codes of each.
void LaunchTilesFp8(const TileCall& call, Stream stream);
void LaunchTilesFp8Blocks(const TileCall& call, Stream stream);
// Integer codes; the call has `coded`.
void LaunchTilesCoded(const TileCall& call, Stream stream);
void LaunchExpandCodes(const ExpandCall& call, Stream stream);
// Completes a call that has parts, of at most kMergeRowsMax rows.
inline constexpr int64_t kMergeRowsMax = 65535;
void LaunchMergeSlices(const TileCall& call, Stream stream);

// Raises each kernel's shared memory limit; called once, when the device is opened. Each
// returns a cudaError_t.
int PrepareTilesFp16();
int PrepareTilesBf16();
int PrepareTilesFp8();
int PrepareTilesFp8Blocks();
int PrepareTilesCoded();

}  // namespace dunlin::kernels::cuda
