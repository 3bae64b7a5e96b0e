// SPDX-License-Identifier: Apache-2.0
// Groups of a grouped or batched GEMM as one product, of the weight and bias of the first of them. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/api/grouped_gemm.h"

namespace dunlin::kernels::cuda {

// Of the groups from `first` on; rows are those of all groups.
inline GemmParams ProductOf(const GroupedGemmParams& params, int32_t first) {
  GemmParams product{};
  product.in = params.in;
  product.weight = &params.weights[first].weight;
  product.bias = params.weights[first].bias;
  product.out = params.out;
  product.out_stride = params.out_stride;
  product.num_rows = params.num_rows;
  product.next = params.next;
  product.activation = params.activation;
  return product;
}

// Of the batches from `first` on; rows are those of that batch, rounded.
inline GemmParams ProductOf(const BatchedGemmParams& params, int32_t first) {
  GemmParams product{};
  product.in = params.rounded;
  product.weight = &params.weights[first].weight;
  product.bias = params.weights[first].bias;
  product.out = params.out + first * params.out_batch_stride;
  product.out_stride = params.out_stride;
  product.num_rows = params.num_rows;
  return product;
}

}  // namespace dunlin::kernels::cuda
