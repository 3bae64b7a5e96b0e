// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/sm90/coded_shapes.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "kernels/cuda/gemm/sm90/wgmma_kernels.h"

namespace dunlin::kernels::cuda {
namespace {

// The first row whose bounds hold: rows of the product, and tiles of the shape, at least as many as the device has
// multiprocessors where tiles_min is kAMultiprocessorEach. Not measured. A wide tile's chain over K waits for its own
// expansion, which pays where every multiprocessor has one; 16 outputs, whose stages four warps expand in turn, fill
// the device with a quarter of the weight. From 33 rows on every tile of 16 would read more inputs than codes. A block
// of 128 outputs expands an element for 128 rows, of 64 for 64: below 96 tiles, three quarters of an H100, the smaller
// ones are quicker.
constexpr int64_t kAMultiprocessorEach = 0;
struct CodedRule {
  CodedShape shape;
  int32_t columns;
  int32_t num_rows_max;
  int64_t tiles_min;
};
constexpr CodedRule kRules[] = {
    {CodedShape::kWide8x64, 64, 8, kAMultiprocessorEach},
    {CodedShape::k8x16, 16, 8, 1},
    {CodedShape::kWide16x64, 64, 16, kAMultiprocessorEach},
    {CodedShape::k16x16, 16, 16, 1},
    {CodedShape::kWide32x64, 64, 32, kAMultiprocessorEach},
    {CodedShape::kWide64x64, 64, 64, kAMultiprocessorEach},
    {CodedShape::k64x64, 64, 64, 1},
    {CodedShape::k128x128, 128, INT32_MAX, 96},
    {CodedShape::k64x64, 64, INT32_MAX, 1},
};

}  // namespace

CodedShape CodedShapeOf(const TileCall& call) {
  if (call.tile_shape != 0) return static_cast<CodedShape>(call.tile_shape - 1);
  const auto* found = std::ranges::find_if(kRules, [&](const CodedRule& rule) {
    const int64_t rows = kCodedShapeRows[static_cast<int32_t>(rule.shape)];
    const int64_t tiles = DividedUp(call.num_rows, rows) * DividedUp(call.columns, rule.columns);
    return call.num_rows <= rule.num_rows_max &&
           tiles >= (rule.tiles_min == kAMultiprocessorEach ? call.multiprocessors : rule.tiles_min);
  });
  return found == std::end(kRules) ? CodedShape::k64x64 : found->shape;
}

// By the mean rows of a group; not measured.
GroupedCodedShape GroupedCodedShapeOf(const GroupedTileCall& call) {
  if (call.tile.tile_shape != 0) return static_cast<GroupedCodedShape>(call.tile.tile_shape - 1);
  const int64_t rows = call.tile.num_rows;
  const int64_t mean = DividedUp(rows, std::max<int64_t>(std::min<int64_t>(call.num_groups, rows), 1));
  if (mean <= 16) return GroupedCodedShape::k16x16;
  return mean <= 96 ? GroupedCodedShape::k64x64 : GroupedCodedShape::k128x128;
}

void LaunchWgmmaCodes(const TileCall& call, Stream stream) {
  const CodedShape shape = CodedShapeOf(call);
  TileCall chosen = call;
  chosen.tile_shape = static_cast<int32_t>(shape) + 1;
  shape < CodedShape::k8x16 ? LaunchWgmmaCoded(chosen, stream) : LaunchWgmmaExpanded(chosen, stream);
}

int PrepareWgmmaCodes() {
  const int error = PrepareWgmmaCoded();
  return error != 0 ? error : PrepareWgmmaExpanded();
}

}  // namespace dunlin::kernels::cuda
