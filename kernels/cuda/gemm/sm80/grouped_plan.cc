// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/sm80/grouped_plan.h"

#include <algorithm>

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/gemm/grouped_product.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"

namespace dunlin::kernels::cuda {
namespace {

bool AreValid(const BiasedWeight* weights, int32_t count, const Activation& in) {
  const PackedWeight& first = weights[0].weight;
  if (!Multiplies(first.format) || first.int8_inputs || first.out_features < 1 || first.in_features < 1) return false;
  if (in.data == nullptr || in.precision != first.precision || in.columns != first.in_features ||
      in.scale_block != first.scale_block) {
    return false;
  }
  return std::all_of(weights, weights + count, [&](const BiasedWeight& weight) {
    return weight.weight.data != nullptr && AreAlike(weights[0], weight);
  });
}

// All of K in one slice, as a prefill row's. rows: of `in`.
GroupedCall CallOf(const GemmParams& product, const BiasedWeight* weights, int32_t count) {
  GroupedCall call{};
  call.tile = TileCallOf(product, 0, product.num_rows, false, nullptr);
  const PackedWeight& weight = *product.weight;
  if (weight.precision == Precision::kFp8) {
    call.weight_scales_offset = ScalesOffset(weight.precision, weight.out_features, weight.in_features);
  }
  call.num_groups = count;
  for (int32_t i = 0; i < count; ++i) {
    call.weights[i] = static_cast<const unsigned char*>(weights[i].weight.data);
    call.biases[i] = weights[i].bias;
  }
  return call;
}

}  // namespace

bool IsValid(const GroupedGemmParams& p) {
  if (p.in == nullptr || p.weights == nullptr || p.groups == nullptr || p.num_rows < 0) return false;
  if (p.num_groups < 1 || p.num_groups > kExpertsMax || p.num_rows > p.in->capacity_rows) return false;
  if (!AreValid(p.weights, p.num_groups, *p.in)) return false;
  if (p.next == nullptr) return p.out != nullptr && p.out_stride >= p.weights[0].weight.out_features;
  return p.out == nullptr && p.next->data != nullptr && p.next->data != p.in->data &&
         p.num_rows <= p.next->capacity_rows;
}

bool IsValid(const BatchedGemmParams& p) {
  if (p.in == nullptr || p.rounded == nullptr || p.weights == nullptr || p.out == nullptr) return false;
  if (p.num_batches < 1 || p.num_rows < 0 || p.num_rows > p.rounded->capacity_rows || p.in_batch_stride < 0) {
    return false;
  }
  return AreValid(p.weights, p.num_batches, *p.rounded) && p.in_stride >= p.weights[0].weight.in_features &&
         p.out_stride >= p.weights[0].weight.out_features;
}

GroupedCall CallOf(const GroupedGemmParams& params, int32_t first, int32_t num_groups) {
  GroupedCall call = CallOf(ProductOf(params, first), params.weights + first, num_groups);
  call.groups = params.groups + first;
  return call;
}

GroupedCall CallOf(const BatchedGemmParams& params, int32_t first, int32_t num_batches) {
  GroupedCall call = CallOf(ProductOf(params, first), params.weights + first, num_batches);
  call.tile.num_rows *= num_batches;
  call.rows_per_group = params.num_rows;
  call.out_group_stride = params.out_batch_stride;
  call.tile.store.vector = call.tile.store.vector && params.out_batch_stride % 4 == 0;
  return call;
}

int32_t BatchesPerLaunch(const BatchedGemmParams& params) {
  return std::min({params.num_batches, params.rounded->capacity_rows / params.num_rows, kGroupsPerLaunch});
}

int RowGroupsOf(const GroupedCall& call, Precision precision) {
  if (precision == Precision::kFp32 || call.tile.num_rows <= int64_t{kGroupRows} * call.num_groups) return 1;
  return call.tile.weight_scales != nullptr ? 2 : 4;
}

// Each group's last block may be partial.
int64_t BlocksOf(const GroupedCall& call, int row_groups) {
  const int64_t rows = call.tile.num_rows;
  const int64_t row_blocks = rows / (int64_t{row_groups} * kGroupRows) + std::min<int64_t>(call.num_groups, rows);
  return row_blocks * ((call.tile.columns + kTileColumns - 1) / kTileColumns);
}

}  // namespace dunlin::kernels::cuda
