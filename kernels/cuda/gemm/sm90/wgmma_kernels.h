// SPDX-License-Identifier: Apache-2.0
// Launchers of the wgmma GEMM, by operand type, and the tiles that they choose from. Each enqueues one kernel on the
// stream and reads no device memory; a call that cannot be encoded becomes a launch without blocks, whose error the
// caller finds.
#pragma once

#include "kernels/cuda/block/tensor_core.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/gemm/sm90/wgmma_plan.h"
#include "kernels/cuda/sm90/wgmma.h"

namespace dunlin::kernels::cuda {

// 192 KB of stages each, of the 227 KB that a block may have.
template <typename Format>
using Wgmma128x256 = WgmmaTile<Format, 2, 256, 4>;
template <typename Format>
using Wgmma128x128 = WgmmaTile<Format, 2, 128, 6>;
template <typename Format>
using Wgmma64x128 = WgmmaTile<Format, 1, 128, 8>;

// Two blocks share the 228 KB of a multiprocessor.
template <typename Format>
using Swapped64x64 = SwappedTile<Format, 64, 64>;
template <typename Format>
using Swapped32x64 = SwappedTile<Format, 32, 64>;
template <typename Format>
using Swapped16x64 = SwappedTile<Format, 16, 64>;
template <typename Format>
using Swapped8x64 = SwappedTile<Format, 8, 64>;
template <typename Format>
using Swapped16x16 = SwappedTile<Format, 16, 16>;
template <typename Format>
using Swapped8x16 = SwappedTile<Format, 8, 16>;

// run(tile) with a value of the shape's tile type.
template <typename Format, typename Run>
auto WithWgmmaTile(WgmmaTileShape shape, const Run& run) {
  switch (shape) {
    case WgmmaTileShape::k128x256:
      return run(Wgmma128x256<Format>());
    case WgmmaTileShape::k128x128:
      return run(Wgmma128x128<Format>());
    case WgmmaTileShape::k64x128:
      return run(Wgmma64x128<Format>());
    case WgmmaTileShape::kSwapped64x64:
      return run(Swapped64x64<Format>());
    case WgmmaTileShape::kSwapped32x64:
      return run(Swapped32x64<Format>());
    case WgmmaTileShape::kSwapped16x64:
      return run(Swapped16x64<Format>());
    case WgmmaTileShape::kSwapped8x64:
      return run(Swapped8x64<Format>());
    case WgmmaTileShape::kSwapped16x16:
      return run(Swapped16x16<Format>());
    case WgmmaTileShape::kSwapped8x16:
      break;
  }
  return run(Swapped8x16<Format>());
}

// run(tile) with a value of the tile type of one of kCodedTileRows.
template <typename Run>
auto WithCodedTile(int32_t rows, const Run& run) {
  if (rows == 8) return run(CodedTile<8>());
  if (rows == 16) return run(CodedTile<16>());
  if (rows == 32) return run(CodedTile<32>());
  return run(CodedTile<64>());
}

// The call has one slice and multiprocessors.
void LaunchWgmmaBf16(const TileCall& call, Stream stream);
void LaunchWgmmaFp16(const TileCall& call, Stream stream);
// One scale per row and output; one per 128 codes of each.
void LaunchWgmmaFp8(const TileCall& call, Stream stream);
void LaunchWgmmaFp8Blocks(const TileCall& call, Stream stream);
// The same with paired outputs; the call has `paired`.
void LaunchWgmmaPairsBf16(const TileCall& call, Stream stream);
void LaunchWgmmaPairsFp16(const TileCall& call, Stream stream);
void LaunchWgmmaPairsFp8(const TileCall& call, Stream stream);
// Integer codes; the call has `coded`.
void LaunchWgmmaCoded(const TileCall& call, Stream stream);

// Raises each kernel's shared memory limit; called once, when the device is opened. Each returns a cudaError_t.
int PrepareWgmmaBf16();
int PrepareWgmmaFp16();
int PrepareWgmmaFp8();
int PrepareWgmmaFp8Blocks();
int PrepareWgmmaPairsBf16();
int PrepareWgmmaPairsFp16();
int PrepareWgmmaPairsFp8();
int PrepareWgmmaCoded();

}  // namespace dunlin::kernels::cuda
