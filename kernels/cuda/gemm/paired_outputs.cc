// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/paired_outputs.h"

#include <bit>

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/gemm/coded_weight.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kHeadDimMin = 16;  // two halves of 8
constexpr int32_t kHeadDimMax = 256;
constexpr int32_t kOneSpan = 31;

bool Is16Bit(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16;
}

bool TakesGates(const GemmParams& params) {
  const PackedWeight& weight = *params.weight;
  const Activation& next = *params.next;
  const bool known = params.activation == ActivationKind::kSilu || params.activation == ActivationKind::kGeluTanh;
  return known && (weight.precision == Precision::kBf16 || weight.precision == Precision::kFp16) &&
         next.precision == weight.precision && next.amax == nullptr &&
         2 * int64_t{next.columns} == weight.out_features && next.columns % kMatrixMultiple == 0;
}

bool TakesHeads(const GemmParams& params) {
  const PackedWeight& weight = *params.weight;
  const RotateAndStoreKvParams& heads = *params.heads;
  const KvShape& shape = heads.layout.shape;
  const int64_t features = (heads.num_heads + 2 * int64_t{shape.num_kv_heads}) * shape.head_dim;
  const bool whole = heads.cos_sin == nullptr || heads.rotary_dim == shape.head_dim;
  const bool plain = heads.query_norm == nullptr && heads.key_norm == nullptr && !heads.value_norm &&
                     heads.query_scale.positions == nullptr && heads.rows == nullptr;
  return weight.precision != Precision::kFp32 && weight.out_features == features && shape.head_dim >= kHeadDimMin &&
         shape.head_dim <= kHeadDimMax && std::has_single_bit(static_cast<uint32_t>(shape.head_dim)) &&
         shape.v_head_dim == shape.head_dim && !shape.values_in_keys && !heads.query_only && whole && plain &&
         Is16Bit(heads.layout.dtype);
}

// As `rows` rows later.
void Advance(RotateAndStoreKvParams* heads, int64_t rows) {
  if (heads->cos_sin != nullptr) heads->cos_sin += rows * heads->rotary_dim;
  heads->token_page += rows;
  heads->token_slot += rows;
}

}  // namespace

GemmOutputs OutputsOf(const GemmParams& params) {
  if (params.heads != nullptr) return GemmOutputs::kHeads;
  return params.next != nullptr && params.weight->gated ? GemmOutputs::kGated : GemmOutputs::kRows;
}

bool TakesPairs(const GemmParams& params) {
  const PackedWeight& weight = *params.weight;
  if (IsCoded(weight.format) || weight.scale_block != 0) return false;
  return OutputsOf(params) == GemmOutputs::kHeads ? TakesHeads(params) : TakesGates(params);
}

PairedOutputs PairedOutputsOf(const GemmParams& params, int64_t first) {
  PairedOutputs paired{.use = OutputsOf(params), .activation = params.activation};
  if (paired.use == GemmOutputs::kGated) {
    paired.half = static_cast<int32_t>(params.weight->out_features / 2);
    paired.half_shift = kOneSpan;
  } else if (paired.use == GemmOutputs::kHeads) {
    paired.heads = *params.heads;
    paired.half = paired.heads.layout.shape.head_dim / 2;
    paired.half_shift = std::countr_zero(static_cast<uint32_t>(paired.half));
    Advance(&paired.heads, first);
  }
  return paired;
}

}  // namespace dunlin::kernels::cuda
