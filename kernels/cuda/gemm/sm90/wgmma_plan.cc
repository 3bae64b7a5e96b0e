// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/sm90/wgmma_plan.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/gemm/sm80/tile_plan.h"

namespace dunlin::kernels::cuda {
namespace {

// The first row whose bounds hold: rows of the product, and tiles of the shape, at least as many as the device has
// multiprocessors where tiles_min is kMultiprocessors. Measured on an H100 (132 multiprocessors), BF16: of 8192 rows
// 128x256 took 1381 us and 128x128 1647 us for 8192 x 8192; 128x128 took 367 us for 2048 rows, 14336 x 4096 (cuBLASLt
// 371). Between 2048 and 8192 rows nothing was measured: the larger tile starts at half of the rows that it was
// measured with. Up to 64 rows weights are on the M side: 28672 x 4096 took 79 us for 1 row and 84 us for 64, 2.96 and
// 2.79 TB/s of the 3.10 that the memory gives; 64 blocks draw 2.81 TB/s of it. With fewer, tiles of 16 outputs take
// their place where the inputs, which every tile reads, are few.
constexpr int64_t kMultiprocessors = 0;
constexpr int64_t kDrawingTiles = 64;
struct TileRule {
  WgmmaTileShape shape;
  int32_t rows;
  int32_t columns;
  int32_t num_rows_min;
  int32_t num_rows_max;
  int64_t tiles_min;
};
constexpr int32_t kAnyRows = INT32_MAX;
constexpr TileRule kTileRules[] = {
    {WgmmaTileShape::kSwapped8x64, 8, 64, 1, 8, kDrawingTiles},
    {WgmmaTileShape::kSwapped8x16, 8, 16, 1, 8, 1},
    {WgmmaTileShape::kSwapped16x64, 16, 64, 1, 16, kDrawingTiles},
    {WgmmaTileShape::kSwapped16x16, 16, 16, 1, 16, 1},
    {WgmmaTileShape::kSwapped32x64, 32, 64, 1, 32, 1},
    {WgmmaTileShape::kSwapped64x64, 64, 64, 1, 64, 1},
    {WgmmaTileShape::k128x256, 128, 256, 4096, kAnyRows, kMultiprocessors},
    {WgmmaTileShape::k128x128, 128, 128, 65, kAnyRows, kMultiprocessors},
    {WgmmaTileShape::k64x128, 64, 128, 1, kAnyRows, 1},
};
static_assert(std::size(kTileRules) == kWgmmaTileShapes);

// The same of groups, by the mean rows of one: a tile that most groups fit, else their weights come again, from L2. By
// the rules above, where the rows of a group are a product of their own; not measured.
struct GroupedRule {
  GroupedTileShape shape;
  int32_t rows;
  int32_t columns;
  int32_t mean_rows_max;
  int64_t tiles_min;
};
constexpr GroupedRule kGroupedRules[] = {
    {GroupedTileShape::kSwapped8x64, 8, 64, 4, 1},
    {GroupedTileShape::kSwapped16x64, 16, 64, 10, 1},
    {GroupedTileShape::kSwapped32x64, 32, 64, 24, 1},
    {GroupedTileShape::kSwapped64x64, 64, 64, 64, 1},
    {GroupedTileShape::k64x128, 64, 128, 127, 1},
    {GroupedTileShape::k128x128, 128, 128, 511, 1},
    {GroupedTileShape::k128x256, 128, 256, kAnyRows, kMultiprocessors},
};
static_assert(std::size(kGroupedRules) == kGroupedTileShapes);

// Row tiles of a raster band, as measured on an H100: 32 for 14336 columns, 16 for the other shapes.
constexpr int64_t kWideColumns = 14336;
constexpr int32_t kRaster = 16;
constexpr int32_t kWideRaster = 32;

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(float[2]) == 0;
}

}  // namespace

WgmmaTileShape WgmmaTileShapeOf(const TileCall& call) {
  if (call.tile_shape != 0) return static_cast<WgmmaTileShape>(call.tile_shape - 1);
  const auto* found = std::ranges::find_if(kTileRules, [&](const TileRule& rule) {
    const int64_t tiles = DividedUp(call.num_rows, rule.rows) * DividedUp(call.columns, rule.columns);
    return call.num_rows >= rule.num_rows_min && call.num_rows <= rule.num_rows_max &&
           tiles >= (rule.tiles_min == kMultiprocessors ? call.multiprocessors : rule.tiles_min);
  });
  return found == std::end(kTileRules) ? WgmmaTileShape::k64x128 : found->shape;
}

GroupedTileShape GroupedTileShapeOf(const GroupedTileCall& call) {
  if (call.tile.tile_shape != 0) return static_cast<GroupedTileShape>(call.tile.tile_shape - 1);
  const int64_t rows = call.tile.num_rows;
  const int64_t mean = DividedUp(rows, std::max<int64_t>(std::min<int64_t>(call.num_groups, rows), 1));
  const auto* found = std::ranges::find_if(kGroupedRules, [&](const GroupedRule& rule) {
    const int64_t tiles = rows / rule.rows * DividedUp(call.tile.columns, rule.columns);
    return mean <= rule.mean_rows_max && tiles >= (rule.tiles_min == kMultiprocessors ? call.tile.multiprocessors : 0);
  });
  return found == std::end(kGroupedRules) ? GroupedTileShape::k128x128 : found->shape;
}

namespace {

// The weights of a launch: one, or those of all groups at equal distances, along a dimension of their own.
struct WeightStack {
  int32_t count = 0;  // 0: one weight, without that dimension
  int64_t stride = 0;
};

void AddDimension(const WeightStack& weights, TensorShape* shape) {
  if (weights.count == 0) return;
  shape->strides[shape->rank - 1] = static_cast<uint64_t>(weights.stride);
  shape->dims[shape->rank] = static_cast<uint64_t>(weights.count);
  shape->box[shape->rank++] = 1;
}

// Scales per block of 128 of K, [tiles, stride], from `scales` on; `count` of a block.
TensorShape ScalesShape(const float* scales, int64_t count, int64_t stride, int32_t tiles, int32_t box) {
  return {scales,
          TensorElement::kFp32,
          false,
          2,
          {static_cast<uint64_t>(count), static_cast<uint64_t>(tiles)},
          {static_cast<uint64_t>(stride) * sizeof(float)},
          {static_cast<uint32_t>(box), 1}};
}

int EncodeScales(const TileCall& call, const WeightStack& weights, int32_t rows, int32_t columns, WgmmaCall* planned) {
  // A map begins at a multiple of 16 bytes, in_scales at any row.
  planned->in_scale_lead = static_cast<int32_t>(reinterpret_cast<uintptr_t>(call.in_scales) / sizeof(float) % 4);
  const int32_t lead = planned->in_scale_lead;
  const int error = EncodeTensorMap(
      ScalesShape(call.in_scales - lead, lead + call.num_rows, call.in_scale_stride, planned->depth_tiles, rows),
      &planned->in_scales);
  if (error != 0) return error;
  TensorShape scales =
      ScalesShape(call.weight_scales, call.columns, call.weight_scale_stride, planned->depth_tiles, columns);
  AddDimension(weights, &scales);
  return EncodeTensorMap(scales, &planned->weight_scales);
}

// The weight as its pairs lie in a tile: [spans][eights of a span][first or second][8][depth], boxes of `columns`
// outputs. half: of the pairs, a multiple of 8; eights of a box divide those of a span, or these divide them, or there
// is one span.
TensorShape PairedShape(const TileCall& call, TensorElement element, uint64_t depth, int32_t columns) {
  const auto row = static_cast<uint64_t>(call.row_bytes);
  const auto half = static_cast<uint64_t>(call.paired.half);
  const auto eights = half / 8;
  const auto box_eights = static_cast<uint64_t>(columns / kPairedOutputs);
  const uint64_t within = std::min(box_eights, eights);
  const bool one_span = call.paired.use == GemmOutputs::kGated;
  return {call.weight,
          element,
          true,
          5,
          {depth, 8, 2, eights, static_cast<uint64_t>(call.columns) / (2 * half)},
          {row, half * row, 8 * row, 2 * half * row},
          {128 / BytesOf(element), 8, 2, static_cast<uint32_t>(one_span ? box_eights : within),
           static_cast<uint32_t>(one_span ? 1 : box_eights / within)}};
}

int EncodeWeight(const TileCall& call, const WeightStack& weights, TensorElement element, uint64_t depth,
                 int32_t columns, TensorMap* map) {
  if (call.paired.use != GemmOutputs::kRows) {
    TensorShape pairs = PairedShape(call, element, depth, columns);
    if (weights.count > 0) --pairs.rank;  // in place of the spans, of which a gated weight has one
    AddDimension(weights, &pairs);
    return EncodeTensorMap(pairs, map);
  }
  TensorShape matrix = MatrixShape(call.weight, element, static_cast<uint64_t>(call.columns), depth,
                                   static_cast<uint64_t>(call.row_bytes), static_cast<uint32_t>(columns));
  AddDimension(weights, &matrix);
  return EncodeTensorMap(matrix, map);
}

int EncodeCall(const TileCall& call, const WeightStack& weights, TensorElement element, int32_t rows, int32_t columns,
               WgmmaCall* planned) {
  const auto stride = static_cast<uint64_t>(call.row_bytes);
  const uint64_t depth = stride / BytesOf(element);
  const auto num_rows = static_cast<uint64_t>(call.num_rows);
  planned->num_rows = call.num_rows;
  planned->depth_tiles = static_cast<int32_t>(DividedUp(call.row_bytes, kTileBytes));
  planned->row_tiles = static_cast<int32_t>(DividedUp(call.num_rows, rows));
  planned->column_tiles = static_cast<int32_t>(DividedUp(call.columns, columns));
  planned->raster = call.columns >= kWideColumns ? kWideRaster : kRaster;
  planned->store = call.store;
  planned->fp16 = element == TensorElement::kFp16;
  planned->pairs = call.store.out_stride % 2 == 0 && IsAligned(call.store.out) && IsAligned(call.store.residual);
  planned->coded = call.coded;
  planned->groups = {};
  if (call.weight_scales != nullptr) {
    if (const int error = EncodeScales(call, weights, rows, columns, planned); error != 0) return error;
  }
  if (const int error = EncodeTensorMap(
          MatrixShape(call.in, element, num_rows, depth, stride, static_cast<uint32_t>(rows)), &planned->in);
      error != 0) {
    return error;
  }
  if (call.coded.data != nullptr) return 0;
  planned->paired = call.paired;
  planned->span_eights = std::max(call.paired.half / 8, 1);
  return EncodeWeight(call, weights, element, depth, columns, &planned->weight);
}

}  // namespace

int32_t CodedTileRowsOf(const TileCall& call) {
  if (call.tile_shape != 0) return kCodedTileRows[call.tile_shape - 1];
  const auto* found = std::ranges::find_if(kCodedTileRows, [&](int32_t rows) { return call.num_rows <= rows; });
  return found == std::end(kCodedTileRows) ? kCodedTileRows[kCodedTileShapes - 1] : *found;
}

int WgmmaCallOf(const TileCall& call, TensorElement element, int32_t rows, int32_t columns, WgmmaCall* planned) {
  return EncodeCall(call, {}, element, rows, columns, planned);
}

int WgmmaCallOf(const GroupedTileCall& call, TensorElement element, int32_t rows, int32_t columns, WgmmaCall* planned) {
  const WeightStack weights{call.num_groups, call.weight_stride};
  if (const int error = EncodeCall(call.tile, weights, element, rows, columns, planned); error != 0) return error;
  planned->groups = {.rows = call.groups,
                     .count = call.num_groups,
                     .rows_each = call.rows_per_group,
                     .scale_stride = call.weight_stride / static_cast<int64_t>(sizeof(float)),
                     .bias_stride = call.bias_stride,
                     .out_skip = call.out_skip};
  planned->pairs = planned->pairs && call.out_skip % 2 == 0;
  // Each group's last tile may be partial.
  planned->row_tiles = call.tile.num_rows / rows + std::min(call.num_groups, call.tile.num_rows);
  return 0;
}

int64_t WgmmaBlocksOf(const WgmmaCall& call, int32_t blocks_at_once) {
  return std::min<int64_t>(int64_t{call.row_tiles} * call.column_tiles, blocks_at_once);
}

}  // namespace dunlin::kernels::cuda
