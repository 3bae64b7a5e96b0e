// SPDX-License-Identifier: Apache-2.0
// Which tile a product of the wgmma GEMM takes, and the launch's division. Host code.
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/sm90/grouped_tile_call.h"
#include "kernels/cuda/gemm/sm90/wgmma_call.h"

namespace dunlin::kernels::cuda {

// By rows x columns; kSwapped: with weights on the M side (SwappedTile). Bits do not depend on it.
enum class WgmmaTileShape : uint8_t {
  k128x256,
  k128x128,
  k64x128,
  kSwapped64x64,
  kSwapped32x64,
  kSwapped16x64,
  kSwapped8x64,
  kSwapped16x16,
  kSwapped8x16,
};
inline constexpr int32_t kWgmmaTileShapes = 9;

// By the call's shape and call.multiprocessors, or as call.tile_shape says.
WgmmaTileShape WgmmaTileShapeOf(const TileCall& call);

// The same of GroupedTile. The weights of groups are many, so that no tile has 16 outputs.
enum class GroupedTileShape : uint8_t {
  k128x256,
  k128x128,
  k64x128,
  kSwapped64x64,
  kSwapped32x64,
  kSwapped16x64,
  kSwapped8x64,
};
inline constexpr int32_t kGroupedTileShapes = 7;
GroupedTileShape GroupedTileShapeOf(const GroupedTileCall& call);

// Of CodedTile, by the call's rows or as call.tile_shape says. Products of more rows have several tiles of 64.
inline constexpr int32_t kCodedTileRows[] = {8, 16, 32, 64};
inline constexpr int32_t kCodedTileShapes = 4;
int32_t CodedTileRowsOf(const TileCall& call);

// Of a tile of `rows` by `columns`, for call.num_rows > 0 and a row of call.row_bytes that is a multiple of 16.
// A cudaError_t: of EncodeTensorMap.
int WgmmaCallOf(const TileCall& call, TensorElement element, int32_t rows, int32_t columns, WgmmaCall* planned);
// row_tiles is what any division of the rows needs at most.
int WgmmaCallOf(const GroupedTileCall& call, TensorElement element, int32_t rows, int32_t columns, WgmmaCall* planned);
// blocks_at_once: that the device runs.
int64_t WgmmaBlocksOf(const WgmmaCall& call, int32_t blocks_at_once);

}  // namespace dunlin::kernels::cuda
