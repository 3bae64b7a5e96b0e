// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/sm80/tile_plan.h"

#include <algorithm>

#include "kernels/cuda/device/layout.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kDecodeBlocks = 4 * 132;
constexpr int64_t kSliceTilesMin = 4;

bool Aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Float4) == 0;
}

TileStore StoreOf(const GemmParams& params, int64_t first, const float* weight_scales, const float* in_scales) {
  const int64_t offset = first * params.out_stride;
  const bool activated = params.next != nullptr;
  const MatrixView next = activated ? ViewOf(*params.next) : MatrixView{};
  return {.weight_scales = weight_scales,
          .in_scales = in_scales,
          .bias = params.bias,
          .residual = params.residual == nullptr ? nullptr : params.residual + offset,
          .out = activated ? nullptr : params.out + offset,
          .out_stride = params.out_stride,
          .columns = params.weight->out_features,
          .vector = params.out_stride % 4 == 0 && Aligned(params.out),
          .next = activated ? next.row(first) : nullptr,
          .next_row_bytes = activated ? RowBytes(next.precision, next.columns) : 0,
          .next_precision = next.precision};
}

}  // namespace

SliceRule SlicesOf(int64_t columns, int64_t row_bytes, bool decodes) {
  const int64_t tiles = DividedUp(row_bytes, kTileBytes);
  const int64_t wanted = decodes ? DividedUp(kDecodeBlocks, DividedUp(columns, kTileColumns)) : 1;
  const int64_t slices = std::clamp<int64_t>(tiles / kSliceTilesMin, 1, wanted);
  const int64_t tiles_per_slice = DividedUp(tiles, slices);
  return {static_cast<int32_t>(tiles), static_cast<int32_t>(tiles_per_slice),
          static_cast<int32_t>(DividedUp(tiles, tiles_per_slice))};
}

int64_t PartFloatsPerRow(const PackedWeight& weight, bool decodes) {
  const int64_t row_bytes = RowBytes(weight.precision, weight.in_features);
  const SliceRule rule = SlicesOf(weight.out_features, row_bytes, decodes);
  return rule.slices == 1 ? 0 : rule.slices * RoundUpTo(weight.out_features, 4);
}

TileCall TileCallOf(const GemmParams& params, int64_t first, int32_t count, bool decodes, float* parts) {
  const MatrixView weight = ViewOf(*params.weight);
  const bool coded = IsCoded(params.weight->format);
  const MatrixView in = ViewOf(*params.in);
  const int64_t row_bytes = RowBytes(weight.precision, weight.columns);
  const SliceRule rule = SlicesOf(weight.rows, row_bytes, decodes);
  const bool blocks = params.weight->scale_block != 0;
  const float* weight_scales = weight.precision == Precision::kFp8 ? weight.scales() : nullptr;
  const float* in_scales = weight.precision == Precision::kFp8 ? in.scales() + first : nullptr;
  return {.weight = coded ? nullptr : weight.data,
          .coded = coded ? CodedViewOf(*params.weight) : CodedView{},
          .in = in.row(first),
          .row_bytes = row_bytes,
          .columns = weight.rows,
          .num_rows = count,
          .weight_scales = blocks ? weight_scales : nullptr,
          .weight_scale_stride = PaddedRows(weight.rows),
          .in_scales = blocks ? in_scales : nullptr,
          .in_scale_stride = PaddedRows(in.rows),
          .tiles = rule.tiles,
          .tiles_per_slice = rule.tiles_per_slice,
          .slices = rule.slices,
          .parts = rule.slices == 1 ? nullptr : parts,
          .parts_stride = RoundUpTo(weight.rows, 4),
          .store = StoreOf(params, first, blocks ? nullptr : weight_scales, in_scales),
          .paired = PairedOutputsOf(params, first)};
}

int GroupsOf(const TileCall& call) {
  if (call.num_rows <= kGroupRows) return 1;
  return call.num_rows <= 2 * kGroupRows || call.weight_scales != nullptr ? 2 : 4;
}

int64_t TileBlocksOf(const TileCall& call, int groups) {
  return DividedUp(call.num_rows, groups * kGroupRows) * DividedUp(call.columns, kTileColumns) * call.slices;
}

}  // namespace dunlin::kernels::cuda
