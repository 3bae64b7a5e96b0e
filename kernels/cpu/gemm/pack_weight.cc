// SPDX-License-Identifier: Apache-2.0
// Packs rows of a plain matrix into panels, a panel's worth of rows to a task. A slice of K of the panel's rows is
// staged as floats, rounded by the variant's vector code, and scattered into the panel's order. Elements that
// already have the weight's dtype are staged unchanged, or copied directly where the source is laid out like the panel.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/activation/fp8_scale.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/pack_codes.h"
#include "kernels/cpu/gemm/pack_slice.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kStagedElements = kPanelColumns * kStagedStride;
static_assert(kStagedElements * 6 <= static_cast<int64_t>(kScratchBytes));  // floats, then their codes

// The rows of one panel that this call writes, and where they come from.
struct PanelPart {
  const PackWeightParams* params;
  int64_t panel;
  int64_t first_column;  // inside the panel
  int64_t end_column;
  int64_t first_row;  // of the source, for first_column; the others follow

  int64_t columns() const { return end_column - first_column; }
  // The row of the source that fills panel column `column`.
  int64_t SourceRow(int64_t column) const { return first_row + column - first_column; }
  std::byte* PanelStart() const {
    const PackedWeight& weight = *params->weight;
    return static_cast<std::byte*>(weight.data) +
           static_cast<size_t>(panel) * PanelBytes(weight.format, weight.in_features);
  }
};

SliceSource SourceAt(const PanelPart& part, int64_t first) {
  const PackWeightParams& p = *part.params;
  const int64_t element = part.SourceRow(part.first_column) * p.row_stride + first * p.column_stride;
  return {.data = static_cast<const std::byte*>(p.source) + element * static_cast<int64_t>(SizeOf(p.source_dtype)),
          .dtype = p.source_dtype,
          .row_stride = p.row_stride,
          .column_stride = p.column_stride};
}

// The scales of the row that panel column `column` is filled from.
const float* SourceScales(const PanelPart& part, int64_t column) {
  const PackWeightParams& p = *part.params;
  return p.source_scales + part.SourceRow(column) * ScalesPerRow(p.source_scale_block, p.weight->in_features);
}

// The source's values as floats; those of FP8 codes times their scale.
void ReadFloats(const PanelPart& part, int64_t first, int64_t count, float* floats) {
  StageFloats(SourceAt(part, first), part.columns(), count, floats);
  if (part.params->source_dtype != DType::kF8E4M3) return;
  const int64_t block = part.params->source_scale_block;
  for (int64_t c = 0; c < part.columns(); ++c) {
    const float* scales = SourceScales(part, part.first_column + c);
    float* row = floats + c * kStagedStride;
    for (int64_t k = 0; k < count; ++k) row[k] *= scales[block == 0 ? 0 : (first + k) / block];
  }
}

// Rounds staged floats to staged elements of a plain format; returns where these are.
const std::byte* RoundStaged(const KernelTable& kernels, const PanelPart& part, const Fp8Scale* scales, int64_t count,
                             const std::byte* floats, std::byte* codes) {
  const WeightFormat format = part.params->weight->format;
  if (format == WeightFormat::kF32) return floats;
  for (int64_t c = 0; c < part.columns(); ++c) {
    const float* row = reinterpret_cast<const float*>(floats) + c * kStagedStride;
    std::byte* out = codes + c * kStagedStride * static_cast<int64_t>(SizeOf(*Traits(format).dtype));
    if (format == WeightFormat::kBf16) {
      kernels.to_bf16(row, count, reinterpret_cast<uint16_t*>(out));
    } else if (format == WeightFormat::kF16) {
      kernels.to_fp16(row, count, reinterpret_cast<uint16_t*>(out));
    } else {
      kernels.to_e4m3(row, scales[c].factor, count, reinterpret_cast<uint8_t*>(out));
    }
  }
  return codes;
}

// FP8 from wider dtypes: the scales of the part's rows, from a first pass over the source; stored after the panels.
void FindScales(const KernelTable& kernels, const PanelPart& part, float* floats, Fp8Scale* scales) {
  const PackedWeight& weight = *part.params->weight;
  uint32_t largest[kPanelColumns] = {};
  for (int64_t first = 0; first < weight.in_features; first += kSliceDepth) {
    const int64_t count = std::min(kSliceDepth, weight.in_features - first);
    ReadFloats(part, first, count, floats);
    for (int64_t c = 0; c < part.columns(); ++c) {
      largest[c] = std::max(largest[c], kernels.max_magnitude_bits(floats + c * kStagedStride, count));
    }
  }
  float* stored = PanelScales(weight, part.panel) + part.first_column;
  for (int64_t c = 0; c < part.columns(); ++c) {
    scales[c] = ScaleOfRow(largest[c]);
    stored[c] = scales[c].scale;
  }
}

// FP8 from FP8: the scales unchanged.
void CopyScales(const PanelPart& part) {
  const PackedWeight& weight = *part.params->weight;
  float* stored = PanelScales(weight, part.panel);
  for (int64_t c = part.first_column; c < part.end_column; ++c) {
    for (int64_t i = 0; i < ScalesPerRow(weight.scale_block, weight.in_features); ++i) {
      stored[i * kPanelColumns + c] = SourceScales(part, c)[i];
    }
  }
}

// Zeros the staged elements [real, count) of every column.
void PadStaged(std::byte* staged, size_t element_bytes, int64_t columns, int64_t real, int64_t count) {
  for (int64_t c = 0; c < columns && real < count; ++c) {
    std::byte* row = staged + static_cast<size_t>(c * kStagedStride) * element_bytes;
    std::memset(row + static_cast<size_t>(real) * element_bytes, 0, static_cast<size_t>(count - real) * element_bytes);
  }
}

// Grouped formats, rounded from wide weights.
void PackGroups(const PanelPart& part, std::byte* scratch) {
  const PackedWeight& weight = *part.params->weight;
  auto* floats = reinterpret_cast<float*>(scratch);
  std::byte* codes = scratch + kStagedElements * static_cast<int64_t>(sizeof(float));
  auto* words = reinterpret_cast<uint16_t*>(PanelGroupScales(weight, part.panel)) + part.first_column;
  for (int64_t first = 0; first < weight.in_features; first += kSliceDepth) {
    const int64_t real = std::min(kSliceDepth, weight.in_features - first);
    const int64_t count = RoundUp(real, kWeightGroup);
    ReadFloats(part, first, real, floats);
    PadStaged(scratch, sizeof(float), part.columns(), real, count);
    RoundGroups(weight.format, floats, part.columns(), count, reinterpret_cast<int8_t*>(codes),
                words + first / kWeightGroup * kPanelColumns);
    ScatterCodes(weight.format, reinterpret_cast<const int8_t*>(codes), kStagedStride, part.first_column,
                 part.columns(), first, PaddedDepth(weight.format, real), part.PanelStart());
  }
}

void PackPanel(const KernelTable& kernels, const PanelPart& part, std::byte* scratch) {
  const PackedWeight& weight = *part.params->weight;
  if (part.params->codes != nullptr) {
    return PackCodes(weight, *part.params->codes, part.first_row, part.panel, part.first_column, part.columns(),
                     scratch);
  }
  if (IsGrouped(weight.format)) return PackGroups(part, scratch);
  const size_t element = SizeOf(*Traits(weight.format).dtype);
  const bool as_it_is = part.params->source_dtype == Traits(weight.format).dtype;
  if (as_it_is && part.params->row_stride == 1 && weight.format != WeightFormat::kE4M3) {
    return CopyTransposed(weight.format, SourceAt(part, 0), part.first_column, part.columns(), weight.in_features,
                          part.PanelStart());
  }
  auto* floats = reinterpret_cast<float*>(scratch);
  std::byte* codes = scratch + kStagedElements * static_cast<int64_t>(sizeof(float));
  Fp8Scale scales[kPanelColumns] = {};
  if (weight.format == WeightFormat::kE4M3) as_it_is ? CopyScales(part) : FindScales(kernels, part, floats, scales);

  const int64_t padded_depth = PaddedDepth(weight.format, weight.in_features);
  for (int64_t first = 0; first < padded_depth; first += kSliceDepth) {
    const int64_t count = std::min(kSliceDepth, padded_depth - first);
    const int64_t real = std::min(count, weight.in_features - first);
    if (as_it_is) {
      StageElements(SourceAt(part, first), part.columns(), real, scratch);
    } else {
      ReadFloats(part, first, real, floats);
    }
    PadStaged(scratch, as_it_is ? element : sizeof(float), part.columns(), real, count);
    const std::byte* staged = as_it_is ? scratch : RoundStaged(kernels, part, scales, count, scratch, codes);
    ScatterStaged(weight.format, staged, part.first_column, part.columns(), first, count, part.PanelStart());
  }
}

// Zeros (scale 0) in the columns after the last output feature, where any bits could be a NaN.
void ClearPadding(const PackedWeight& weight) {
  if (IsGrouped(weight.format)) return;
  const int64_t panel = NumPanels(weight.out_features) - 1;
  const int64_t used = weight.out_features - panel * kPanelColumns;
  const size_t element = SizeOf(*Traits(weight.format).dtype);
  auto* data = static_cast<std::byte*>(weight.data);
  std::byte* start = data + static_cast<size_t>(panel) * PanelBytes(weight.format, weight.in_features);
  for (int64_t k = 0; k < PaddedDepth(weight.format, weight.in_features); ++k) {
    for (int64_t c = used; c < kPanelColumns; ++c) {
      std::memset(start + static_cast<size_t>(ElementIndex(weight.format, k, c)) * element, 0, element);
    }
  }
  if (weight.format != WeightFormat::kE4M3) return;
  float* scales = PanelScales(weight, panel);
  for (int64_t i = 0; i < ScalesPerRow(weight.scale_block, weight.in_features); ++i) {
    std::fill(scales + i * kPanelColumns + used, scales + (i + 1) * kPanelColumns, 0.0F);
  }
}

// Integer codes, or a plain matrix to a format that wide weights are rounded to.
bool ValidSource(const PackWeightParams& p) {
  if (p.codes == nullptr) return p.source != nullptr && !Traits(Traits(p.weight->format).scales).keeps_codes;
  const WeightCodes& codes = *p.codes;
  return Holds(p.weight->format, codes.traits) && codes.codes != nullptr &&
         (codes.traits.wide ? codes.wide_factors != nullptr : codes.factors != nullptr) &&
         (!codes.traits.zero_points || codes.zero_points != nullptr) &&
         (!codes.traits.scales || codes.scales != nullptr) &&
         (!codes.traits.minimums || (codes.min_factors != nullptr && codes.minimums != nullptr));
}

bool ValidScales(const PackWeightParams& p) {
  if (p.codes != nullptr) return p.weight->scale_block == 0;

  const bool from_fp8 = p.source_dtype == DType::kF8E4M3;
  const bool to_fp8 = p.weight->format == WeightFormat::kE4M3;
  if (from_fp8 != (p.source_scales != nullptr)) return false;
  if (p.source_scale_block != 0 && !(from_fp8 && p.source_scale_block == kScaleBlock)) return false;
  return p.weight->scale_block == (to_fp8 ? p.source_scale_block : 0);
}

// Output features [begin, end) in parts of one panel each; they are stored in their own order.
void PackFeatures(const KernelTable& kernels, const PackWeightParams& params, int64_t begin, int64_t end,
                  std::byte* scratch) {
  while (begin < end) {
    const int64_t stored = StoredColumn(*params.weight, begin);
    const int64_t column = stored % kPanelColumns;
    const int64_t count = std::min(end - begin, kPanelColumns - column);
    const PanelPart part{&params, stored / kPanelColumns, column, column + count, begin - params.row_begin};
    PackPanel(kernels, part, scratch);
    begin += count;
  }
}

bool Valid(const PackWeightParams& p) {
  if (p.weight == nullptr || p.weight->data == nullptr || !ValidSource(p)) return false;
  const PackedWeight& weight = *p.weight;
  return weight.precision == Traits(weight.format).compute && weight.out_features > 0 && weight.in_features > 0 &&
         !(weight.gated && weight.out_features % 2 != 0) && p.row_begin >= 0 && p.num_rows >= 0 &&
         p.row_begin <= weight.out_features - p.num_rows && ValidScales(p);
}

}  // namespace

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.num_rows == 0) return KernelStatus::kOk;
  const int64_t row_end = params.row_begin + params.num_rows;
  if (row_end == params.weight->out_features) ClearPadding(*params.weight);
  // A chunk: up to 48 features that are stored in their own order, from a multiple of 48 of them on.
  const int64_t in_order = FeaturesInOrder(*params.weight);
  const auto chunk_of = [&](int64_t row) {
    return row / in_order * NumPanels(in_order) + row % in_order / kPanelColumns;
  };
  const int64_t first_chunk = chunk_of(params.row_begin);
  context->pool.Run(chunk_of(row_end - 1) + 1 - first_chunk, [&](int64_t task, int worker) {
    const int64_t chunk = first_chunk + task;
    const int64_t first = chunk / NumPanels(in_order) * in_order;
    const int64_t begin = first + chunk % NumPanels(in_order) * kPanelColumns;
    const int64_t end = std::min({begin + kPanelColumns, first + in_order, row_end});
    PackFeatures(context->kernels, params, std::max(begin, params.row_begin), end, context->scratch(worker));
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
