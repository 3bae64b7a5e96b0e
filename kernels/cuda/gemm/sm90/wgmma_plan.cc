// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/sm90/wgmma_plan.h"

#include <algorithm>
#include <iterator>

namespace dunlin::kernels::cuda {
namespace {

// The largest tile first, if the product has as many rows and as many tiles as the device has multiprocessors; the last
// row takes the rest. Measured on an H100 (132 multiprocessors), BF16: of 8192 rows 128x256 took 1381 us and 128x128
// 1647 us for 8192 x 8192; 128x128 took 367 us for 2048 rows, 14336 x 4096 (cuBLASLt 371). Between 2048 and 8192 rows
// nothing was measured: the larger tile starts at half of the rows that it was measured with.
struct TileRule {
  WgmmaTileShape shape;
  int32_t rows;
  int32_t columns;
  int32_t num_rows_min;
};
constexpr TileRule kTileRules[] = {
    {WgmmaTileShape::k128x256, 128, 256, 4096},
    {WgmmaTileShape::k128x128, 128, 128, 65},
    {WgmmaTileShape::k64x128, 64, 128, 1},
};
static_assert(std::size(kTileRules) == kWgmmaTileShapes);

// Row tiles of a raster band, as measured on an H100: 32 for 14336 columns, 16 for the other shapes.
constexpr int64_t kWideColumns = 14336;
constexpr int32_t kRaster = 16;
constexpr int32_t kWideRaster = 32;

int64_t DividedUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(float[2]) == 0;
}

}  // namespace

WgmmaTileShape WgmmaTileShapeOf(const TileCall& call) {
  if (call.tile_shape != 0) return kTileRules[call.tile_shape - 1].shape;
  const auto* found = std::ranges::find_if(kTileRules, [&](const TileRule& rule) {
    return call.num_rows >= rule.num_rows_min &&
           DividedUp(call.num_rows, rule.rows) * DividedUp(call.columns, rule.columns) >= call.multiprocessors;
  });
  return found == std::end(kTileRules) ? WgmmaTileShape::k64x128 : found->shape;
}

int WgmmaCallOf(const TileCall& call, TensorElement element, int32_t rows, int32_t columns, WgmmaCall* planned) {
  const auto stride = static_cast<uint64_t>(call.row_bytes);
  const uint64_t depth = stride / BytesOf(element);
  const auto num_rows = static_cast<uint64_t>(call.num_rows);
  planned->num_rows = call.num_rows;
  planned->depth_tiles = static_cast<int32_t>(DividedUp(call.row_bytes, kTileBytes));
  planned->row_tiles = static_cast<int32_t>(DividedUp(call.num_rows, rows));
  planned->column_tiles = static_cast<int32_t>(DividedUp(call.columns, columns));
  planned->raster = call.columns >= kWideColumns ? kWideRaster : kRaster;
  planned->store = call.store;
  planned->pairs = call.store.out_stride % 2 == 0 && IsAligned(call.store.out) && IsAligned(call.store.residual);
  if (const int error = EncodeTensorMap(
          MatrixShape(call.in, element, num_rows, depth, stride, static_cast<uint32_t>(rows)), &planned->in);
      error != 0) {
    return error;
  }
  return EncodeTensorMap(MatrixShape(call.weight, element, static_cast<uint64_t>(call.columns), depth, stride,
                                     static_cast<uint32_t>(columns)),
                         &planned->weight);
}

int64_t WgmmaBlocksOf(const WgmmaCall& call, int32_t multiprocessors) {
  return std::min<int64_t>(int64_t{call.row_tiles} * call.column_tiles, multiprocessors);
}

}  // namespace dunlin::kernels::cuda
