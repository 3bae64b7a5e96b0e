// SPDX-License-Identifier: Apache-2.0
// QK-norm and rotation of one head of Q or K, and the store of a head's key or value into its page. One group of lanes
// handles one head; no two heads touch the same bytes.
#pragma once

#include <cstdint>

#include "kernels/api/layer_ops.h"
#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/ops/fp8_scale.h"
#include "kernels/cuda/ops/row_sources.h"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {

// Heads of a token's fused row: of Q and, where they are stored, of K and, unless values are in keys, of V.
DUNLIN_HD inline int32_t FusedHeads(const RotateAndStoreKvParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.query_only) return params.num_heads;
  return params.num_heads + (shape.values_in_keys ? 1 : 2) * shape.num_kv_heads;
}

DUNLIN_HD inline bool IsAligned(const float* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Float4) == 0;
}

// RMSNorm of a head in place, as NormParams says. weight: null: all ones.
template <typename Lanes>
DUNLIN_HD void NormHead(const Lanes& lanes, const float* weight, float epsilon, int32_t width, float* row) {
  float squares = 0.0F;
  for (int32_t d = lanes.index(); d < width; d += lanes.count()) squares += row[d] * row[d];
  const float inv_std = 1.0F / sqrtf(lanes.Sum(squares) / static_cast<float>(width) + epsilon);
  for (int32_t d = lanes.index(); d < width; d += lanes.count()) {
    row[d] = weight == nullptr ? row[d] * inv_std : row[d] * inv_std * weight[d];
  }
  lanes.Sync();
}

// With joint_norms, before the heads are rotated: the norm of all heads of Q, or of K (is_key), of a token's fused row,
// by the sums of Norm, with which ranks normalise such rows (engine/layers/joint_norms.h).
template <typename Lanes>
DUNLIN_HD void NormHeadsJointly(const Lanes& lanes, const RotateAndStoreKvParams& params, int32_t token, bool is_key) {
  const KvShape& shape = params.layout.shape;
  const float* norm = is_key ? params.key_norm : params.query_norm;
  if (norm == nullptr || (is_key && params.query_only)) return;
  const int32_t query_width = params.num_heads * shape.head_dim;
  const int32_t key_width = shape.num_kv_heads * shape.head_dim;
  float* row = params.qkv + int64_t{token} * FusedHeads(params) * shape.head_dim;
  float* const heads = is_key ? row + query_width : row;
  const NormSource source{.kind = NormKind::kRmsNorm,
                          .in = heads,
                          .rows = nullptr,
                          .weight = norm,
                          .bias = nullptr,
                          .residual = nullptr,
                          .epsilon = params.norm_epsilon,
                          .columns = is_key ? key_width : query_width,
                          .vector = shape.head_dim % 4 == 0 && IsAligned(params.qkv) && IsAligned(norm)};
  RowTarget target{};
  target.out.columns = source.columns;
  target.rows_out = heads;
  WritePlainRow(lanes, source, target, 0);
  lanes.Sync();
}

// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin) for the halves of the rotated part.
// Each product and sum is rounded by itself, so that the bits are those of every kernel that rotates.
DUNLIN_HD inline void RotatePair(float cosine, float sine, float* x1, float* x2) {
  const float first = *x1;
  const float second = *x2;
#ifdef __CUDA_ARCH__
  *x1 = __fsub_rn(__fmul_rn(first, cosine), __fmul_rn(second, sine));
  *x2 = __fadd_rn(__fmul_rn(second, cosine), __fmul_rn(first, sine));
#else
  *x1 = first * cosine - second * sine;
  *x2 = second * cosine + first * sine;
#endif
}
template <typename Lanes>
DUNLIN_HD void RotateHead(const Lanes& lanes, const float* cos_sin, int32_t rotary_dim, float* row) {
  const int32_t half = rotary_dim / 2;
  for (int32_t i = lanes.index(); i < half; i += lanes.count()) {
    RotatePair(cos_sin[i], cos_sin[i + half], &row[i], &row[i + half]);
  }
  lanes.Sync();
}

// The queries of a head times their factor.
template <typename Lanes>
DUNLIN_HD void ScaleQuery(const Lanes& lanes, const QueryScale& scale, int32_t place, int32_t head_dim, float* row) {
  const int32_t periods = (scale.positions[place] + scale.offset) / scale.period;
  const float factor = 1.0F + scale.beta * logf(static_cast<float>(1 + periods));
  for (int32_t d = lanes.index(); d < head_dim; d += lanes.count()) row[d] *= factor;
  lanes.Sync();
}

// Rounds a head's row into slot `slot` of a block; an odd dim is padded with a zero.
template <typename Lanes>
DUNLIN_HD void StoreHead(const Lanes& lanes, const KvLayout& layout, unsigned char* block, int32_t dim, int32_t slot,
                         const float* row) {
  const int64_t first = KvElement(dim, slot, 0);
  Fp8Scale scale{1.0F, 1.0F};
  if (layout.dtype == DType::kF8E4M3) {
    scale = ScaleOfRow(LargestMagnitude(lanes, CopySource::Row{row}, 0, dim, false));
    if (lanes.index() == 0) {
      *reinterpret_cast<float*>(block + KvScaleOffset(dim, layout.tokens_per_page, slot)) = scale.scale;
    }
  }
  for (int32_t d = lanes.index(); d < PaddedHeadDim(dim); d += lanes.count()) {
    const float value = d < dim ? row[d] : 0.0F;
    const int64_t at = first + d;
    switch (layout.dtype) {
      case DType::kF32:
        reinterpret_cast<float*>(block)[at] = value;
        break;
      case DType::kF16:
        reinterpret_cast<uint16_t*>(block)[at] = ToFp16(value);
        break;
      case DType::kBF16:
        reinterpret_cast<uint16_t*>(block)[at] = ToBf16(value);
        break;
      case DType::kF8E4M3:
        block[at] = ToE4M3(value * scale.factor);
        break;
    }
  }
}

// Head `head` of a token's fused row: Q heads, then K heads, then V heads.
template <typename Lanes>
DUNLIN_HD void RotateAndStoreHead(const Lanes& lanes, const RotateAndStoreKvParams& params, int32_t token,
                                  int32_t head) {
  const KvShape& shape = params.layout.shape;
  const int32_t head_dim = shape.head_dim;
  float* row = params.qkv + (int64_t{token} * FusedHeads(params) + head) * head_dim;
  const int32_t kv_head = head - params.num_heads;
  const bool is_value = kv_head >= shape.num_kv_heads;
  const int32_t place = params.rows == nullptr ? token : params.rows[token];  // in cos_sin and positions
  if (is_value) {
    if (params.value_norm) NormHead(lanes, nullptr, params.norm_epsilon, head_dim, row);
  } else {
    const float* norm = kv_head < 0 ? params.query_norm : params.key_norm;
    const bool normed = norm != nullptr && !params.joint_norms;
    if (normed && !params.norms_after) NormHead(lanes, norm, params.norm_epsilon, head_dim, row);
    if (params.cos_sin != nullptr) {
      RotateHead(lanes, params.cos_sin + int64_t{place} * params.rotary_dim, params.rotary_dim, row);
    }
    if (normed && params.norms_after) NormHead(lanes, norm, params.norm_epsilon, head_dim, row);
  }
  if (kv_head < 0) {
    if (params.query_scale.positions != nullptr) ScaleQuery(lanes, params.query_scale, place, head_dim, row);
    return;
  }
  const int32_t page = params.token_page[token];
  const int64_t offset = is_value ? ValueBlockOffset(params.layout, page, params.layer, kv_head - shape.num_kv_heads)
                                  : KeyBlockOffset(params.layout, page, params.layer, kv_head);
  StoreHead(lanes, params.layout, static_cast<unsigned char*>(params.kv_pool) + offset, head_dim,
            params.token_slot[token], row);
}

}  // namespace dunlin::kernels::cuda
