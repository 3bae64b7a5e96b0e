// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/cublaslt/gemm_form.h"

#include <bit>

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/gemm/coded_weight.h"

namespace dunlin::kernels::cuda {
namespace {

bool Aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Forms tuned by number of rows: one per power of two.
int32_t RowsOf(const GemmParams& params, int32_t num_rows) {
  return params.deterministic ? 0 : static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(num_rows)));
}

// The alignment of every row of `out` and `residual`, at most 16 bytes.
uint32_t AlignmentOf(const GemmParams& params) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(params.out) | reinterpret_cast<uintptr_t>(params.residual) |
                         static_cast<uintptr_t>(params.out_stride) * sizeof(float) | 16U;
  return static_cast<uint32_t>(bits & -bits);
}

// Transformer Engine's rule: fast where the scales are per tensor, whose error is larger than the accumulator's.
bool AccumulatesFast(const GemmParams& params) {
  return params.weight->precision == Precision::kFp8 && params.in->scaling != InputScaling::kPerRow;
}

}  // namespace

bool NeedsStaging(const GemmParams& params, int64_t first_row) {
  if (params.weight->precision != Precision::kFp8) return false;
  if (first_row % kScaleRows != 0) return true;
  const bool whole = params.weight->out_features % kMatrixMultiple == 0 && params.out_stride % 4 == 0;
  return !whole || !Aligned(params.out) || !Aligned(params.residual);
}

bool TakesActivation(const GemmParams& params) {
  const PackedWeight& weight = *params.weight;
  const Activation& next = *params.next;
  if (IsCoded(weight.format)) return false;
  return params.activation == ActivationKind::kGeluTanh && weight.precision != Precision::kFp8 &&
         next.precision == weight.precision && next.amax == nullptr && next.columns == weight.out_features &&
         weight.out_features % kMatrixMultiple == 0 && weight.out_features <= kActivatedColumnsMax;
}

GemmForm FormOf(const GemmParams& params, bool staged, int32_t num_rows) {
  const PackedWeight& weight = *params.weight;
  GemmForm form{.precision = weight.precision,
                .out_features = weight.out_features,
                .in_features = weight.in_features,
                .out_stride = staged ? PaddedRows(weight.out_features) : params.out_stride,
                .bias = params.bias != nullptr && weight.precision != Precision::kFp8 && Aligned(params.bias),
                .residual = params.residual != nullptr && !staged,
                .fast_accumulation = AccumulatesFast(params),
                .alignment = staged ? 16 : AlignmentOf(params),
                .rows = RowsOf(params, num_rows)};
  if (params.next == nullptr) return form;
  form.out_stride = PaddedDepth(weight.out_features);
  form.bias = params.bias != nullptr;  // copied to an aligned buffer
  form.gelu = true;
  form.alignment = 16;
  form.rows = 0;
  return form;
}

std::string NameOf(const GemmForm& form, int32_t num_rows) {
  std::string name = std::string(Name(form.precision)) + " " + std::to_string(form.out_features) + " x " +
                     std::to_string(form.in_features) + " into " + std::to_string(form.out_stride);
  if (form.bias) name += " bias";
  if (form.residual) name += " residual";
  if (form.gelu) name += " gelu";
  if (form.fast_accumulation) name += " fast";
  if (form.alignment != 16) name += " aligned to " + std::to_string(form.alignment);
  if (form.rows != 0) return name + " of up to " + std::to_string(form.rows) + " rows";
  return name + " of " + std::to_string(num_rows) + " rows and any other number";
}

}  // namespace dunlin::kernels::cuda
