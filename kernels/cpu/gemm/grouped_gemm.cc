// SPDX-License-Identifier: Apache-2.0
// Products of several matrices, one after another: each has work for all threads, and its bits are gemm's.
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_rows.h"
#include "kernels/cpu/rows/layer_ops.h"

namespace dunlin::kernels::cpu {
namespace {

GemmParams ProductOf(const GroupedGemmParams& params, const BiasedWeight& weight) {
  return {.in = params.in,
          .weight = &weight.weight,
          .bias = weight.bias,
          .residual = nullptr,
          .out = params.out,
          .out_stride = params.out_stride,
          .num_rows = params.num_rows,
          .next = params.next,
          .activation = params.activation};
}

bool ValidGroups(const KernelTable& kernels, const GroupedGemmParams& params) {
  if (params.weights == nullptr || params.groups == nullptr) return false;
  if (params.num_groups < 1 || params.num_groups > kExpertsMax) return false;
  int64_t rows = 0;
  for (int32_t i = 0; i < params.num_groups; ++i) {
    if (!AreAlike(params.weights[0], params.weights[i])) return false;
    if (!IsValid(kernels, ProductOf(params, params.weights[i]))) return false;
    if (params.groups[i].count < 0 || params.groups[i].first != rows) return false;
    rows += params.groups[i].count;
  }
  return rows == params.num_rows;
}

}  // namespace

KernelStatus GroupedGemm(DeviceContext* context, const GroupedGemmParams& params) {
  if (!ValidGroups(context->kernels, params)) return KernelStatus::kInvalidArgument;
  if (params.num_rows == 0) return KernelStatus::kOk;
  PrepareInput(context, *params.in, params.weights[0].weight, params.num_rows);
  const bool rounds_later = params.next != nullptr && TakesWholeRows(*params.next);
  Activation floats = rounds_later ? FloatsIn(*params.next) : Activation{};
  for (int32_t i = 0; i < params.num_groups; ++i) {
    const ExpertRows& group = params.groups[i];
    if (group.count == 0) continue;
    GemmParams product = ProductOf(params, params.weights[i]);
    product.num_rows = group.first + group.count;
    if (rounds_later) product.next = &floats;
    MultiplyRows(context, product, group.first);
  }
  return rounds_later ? RoundFloats(context, floats, params.next, params.num_rows) : KernelStatus::kOk;
}

// Batch by batch, so that the rounded rows stay in the cache.
KernelStatus BatchedGemm(DeviceContext* context, const BatchedGemmParams& params) {
  if (params.in == nullptr || params.rounded == nullptr || params.weights == nullptr || params.num_batches < 1 ||
      params.in_batch_stride < 0 || params.out == nullptr) {
    return KernelStatus::kInvalidArgument;
  }
  Activation rounded = *params.rounded;
  for (int32_t i = 0; i < params.num_batches; ++i) {
    const KernelStatus status = Quantize(context, {.in = params.in + i * params.in_batch_stride,
                                                   .in_stride = params.in_stride,
                                                   .out = &rounded,
                                                   .num_rows = params.num_rows});
    if (status != KernelStatus::kOk) return status;
    const KernelStatus multiplied = Gemm(context, {.in = &rounded,
                                                   .weight = &params.weights[i].weight,
                                                   .bias = params.weights[i].bias,
                                                   .residual = nullptr,
                                                   .out = params.out + i * params.out_batch_stride,
                                                   .out_stride = params.out_stride,
                                                   .num_rows = params.num_rows});
    if (multiplied != KernelStatus::kOk) return multiplied;
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
