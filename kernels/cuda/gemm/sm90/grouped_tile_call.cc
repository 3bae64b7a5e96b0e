// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/sm90/grouped_tile_call.h"

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/gemm/grouped_product.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"

namespace dunlin::kernels::cuda {
namespace {

// As a model's storage has them. False: not so, or a distance that a tensor map cannot have.
bool PlaceWeights(const BiasedWeight* weights, int32_t count, GroupedTileCall* call) {
  const PackedWeight& first = weights[0].weight;
  const auto address = [&](int32_t i) { return reinterpret_cast<intptr_t>(weights[i].weight.data); };
  const auto bias = [&](int32_t i) { return reinterpret_cast<intptr_t>(weights[i].bias); };
  int64_t stride = MatrixBytes(first.precision, first.out_features, first.in_features, first.scale_block);
  int64_t bias_stride = 0;
  if (count > 1) {
    stride = address(1) - address(0);
    bias_stride = bias(1) - bias(0);
  }
  if (stride <= 0 || stride % 16 != 0 || bias_stride % static_cast<int64_t>(sizeof(float)) != 0) return false;
  for (int32_t i = 2; i < count; ++i) {
    if (address(i) - address(i - 1) != stride || bias(i) - bias(i - 1) != bias_stride) return false;
  }
  call->num_groups = count;
  call->weight_stride = stride;
  call->bias_stride = bias_stride / static_cast<int64_t>(sizeof(float));
  return true;
}

}  // namespace

bool GroupedTileCallOf(const GroupedGemmParams& params, int32_t first, int32_t count, GroupedTileCall* call) {
  if (!PlaceWeights(params.weights + first, count, call)) return false;
  call->tile = TileCallOf(ProductOf(params, first), 0, params.num_rows, false, nullptr);
  call->groups = params.groups + first;
  return true;
}

bool GroupedTileCallOf(const BatchedGemmParams& params, int32_t first, int32_t count, GroupedTileCall* call) {
  if (!PlaceWeights(params.weights + first, count, call)) return false;
  GemmParams product = ProductOf(params, first);
  product.num_rows *= count;
  call->tile = TileCallOf(product, 0, product.num_rows, false, nullptr);
  call->rows_per_group = params.num_rows;
  call->out_skip = params.out_batch_stride - params.num_rows * params.out_stride;
  return true;
}

}  // namespace dunlin::kernels::cuda
