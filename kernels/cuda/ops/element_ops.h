// SPDX-License-Identifier: Apache-2.0
// Elementwise operations and row gather: device arithmetic, one call per element or row.
#pragma once

#include <cmath>

#include "kernels/api/layer_ops.h"
#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/ops/row_sources.h"

namespace dunlin::kernels::cuda {

// As SoftcapParams.
DUNLIN_HD inline float Softcapped(float cap, float value) {
  return cap * tanhf(value / cap);
}

// As AddParams, one element.
DUNLIN_HD inline void AddAt(const AddParams& params, int64_t row, int64_t column) {
  const int64_t at = row * params.columns + column;
  float value = params.rows[at];
  if (params.bias != nullptr) value += params.bias[column];
  if (params.residual != nullptr) value += params.residual[at];
  if (params.factor != nullptr) value *= *params.factor;
  params.rows[at] = value;
}

// As CopyRowsParams, one element.
DUNLIN_HD inline void CopyAt(const CopyRowsParams& params, int64_t row, int64_t column) {
  params.out[row * params.columns + column] = params.in[params.rows[row] * params.in_stride + column];
}

// As CopyColumnsParams, element `at` of a row's blocks.
DUNLIN_HD inline void CopyColumnAt(const CopyColumnsParams& params, int64_t row, int64_t at) {
  const int64_t block = at / params.columns;
  const int64_t column = at % params.columns;
  params.out[row * params.out_stride + block * params.out_block_stride + column] =
      params.in[row * params.in_stride + block * params.in_block_stride + column];
}

// Cosine and sine of an angle, rounded to FP32. The device computes in half turns: multiplying by 1 / pi is off by less
// than 1e-10 for any position, and avoids the slow-path range reduction, which spills registers.
DUNLIN_HD inline void CosSin(float angle, float* cos_out, float* sin_out) {
#ifdef __CUDA_ARCH__
  double sine = 0.0;
  double cosine = 0.0;
  sincospi(static_cast<double>(angle) * 0.31830988618379067, &sine, &cosine);
#else
  const double sine = std::sin(static_cast<double>(angle));
  const double cosine = std::cos(static_cast<double>(angle));
#endif
  *cos_out = static_cast<float>(cosine);
  *sin_out = static_cast<float>(sine);
}

// As RotaryTableParams, one token and frequency. The angle is rounded to FP32, its cosine and sine are computed in
// FP64.
DUNLIN_HD inline void RotaryAt(const RotaryTableParams& params, int32_t token, int32_t i) {
  const int32_t half = params.rotary_dim / 2;
  const float angle = static_cast<float>(params.positions[token]) * params.inv_freq[i];
  float* row = params.cos_sin + int64_t{token} * params.rotary_dim;
  CosSin(angle, row + i, row + i + half);
  row[i] *= params.attention_factor;
  row[i + half] *= params.attention_factor;
}

// As GatherRowsParams, for row `index`. An id outside the weight gives zeros: a launch cannot refuse what lies in
// device memory.
struct GatherCall {
  MatrixView weight;
  const int32_t* ids;
  float* out;
  bool accumulate;
  float scale;
};

// An element of a packed row; FP8 without its scale.
DUNLIN_HD inline float PackedElement(Precision precision, const unsigned char* row, int64_t k) {
  switch (precision) {
    case Precision::kFp32:
      return reinterpret_cast<const float*>(row)[k];
    case Precision::kBf16:
      return FromBf16(reinterpret_cast<const uint16_t*>(row)[k]);
    case Precision::kFp16:
      return FromFp16(reinterpret_cast<const uint16_t*>(row)[k]);
    case Precision::kFp8:
      return FromE4M3(row[k]);
    default:  // no weight has another
      break;
  }
  return 0.0F;
}

template <typename Lanes>
DUNLIN_HD void GatherRow(const Lanes& lanes, const GatherCall& call, int64_t index) {
  const MatrixView& weight = call.weight;
  const int64_t id = call.ids[index];
  const bool known = id >= 0 && id < weight.rows;
  const unsigned char* row = weight.row(known ? id : 0);
  float* out = call.out + index * weight.columns;
  for (int64_t k = lanes.index(); k < weight.columns; k += lanes.count()) {
    float value = known ? PackedElement(weight.precision, row, k) : 0.0F;
    if (known && weight.precision == Precision::kFp8) value *= weight.scale(id, k);
    value *= call.scale;
    out[k] = call.accumulate ? out[k] + value : value;
  }
}

}  // namespace dunlin::kernels::cuda
