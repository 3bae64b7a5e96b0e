// Packs rows of a plain matrix into panels, one panel to a task. A slice of K of the panel's rows is read as floats
// through the source's strides, rounded by the variant's vector code, and scattered into the panel's order. FP8 codes
// that go to an FP8 weight are scattered as they are.
#include <algorithm>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/fp8_scale.h"
#include "kernels/cpu/launchers.h"
#include "kernels/cpu/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kSlice = 256;  // K elements read at once: 48 rows of floats are 48 KiB, and their codes half of it
static_assert(kSlice % 4 == 0 && kPanelColumns * kSlice * 6 <= static_cast<int64_t>(kScratchBytes));

template <DType kDType>
float LoadSource(const void* source, int64_t index) {
  if constexpr (kDType == DType::kF32) return static_cast<const float*>(source)[index];
  if constexpr (kDType == DType::kF8E4M3) return E4M3ToFloat(static_cast<const uint8_t*>(source)[index]);
  const uint16_t bits = static_cast<const uint16_t*>(source)[index];
  return kDType == DType::kBF16 ? Bf16ToFloat(bits) : Fp16ToFloat(bits);
}

// The rows of one panel that this call writes, and where they come from.
struct PanelPart {
  const PackWeightParams* params;
  int64_t panel;
  int64_t first_column;  // inside the panel
  int64_t end_column;
};

// floats[c][k] = source, for the part's columns and K in [first, first + count). Walks the closer stride innermost.
template <DType kDType>
void ReadSlice(const PanelPart& part, int64_t first, int64_t count, float* floats) {
  const PackWeightParams& p = *part.params;
  const int64_t row = part.panel * kPanelColumns - p.row_begin;
  const int64_t columns = part.end_column - part.first_column;
  const bool k_inner = p.column_stride <= p.row_stride;
  const int64_t outer = k_inner ? columns : count;
  const int64_t inner = k_inner ? count : columns;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t c = part.first_column + (k_inner ? i : j);
      const int64_t k = k_inner ? j : i;
      floats[c * kSlice + k] = LoadSource<kDType>(p.source, (row + c) * p.row_stride + (first + k) * p.column_stride);
    }
  }
}

// The scales of the row that panel column `column` is filled from.
const float* SourceScales(const PanelPart& part, int64_t column) {
  const PackWeightParams& p = *part.params;
  const int64_t row = part.panel * kPanelColumns + column - p.row_begin;
  return p.source_scales + row * ScalesPerRow(p.source_scale_block, p.weight->in_features);
}

// floats[c][k] = the code's value * its scale.
void ApplySourceScales(const PanelPart& part, int64_t first, int64_t count, float* floats) {
  const int64_t block = part.params->source_scale_block;
  for (int64_t c = part.first_column; c < part.end_column; ++c) {
    const float* scales = SourceScales(part, c);
    float* row = floats + c * kSlice;
    for (int64_t k = 0; k < count; ++k) row[k] *= scales[block == 0 ? 0 : (first + k) / block];
  }
}

void ReadSlice(const PanelPart& part, int64_t first, int64_t count, float* floats) {
  switch (part.params->source_dtype) {
    case DType::kF32:
      return ReadSlice<DType::kF32>(part, first, count, floats);
    case DType::kF16:
      return ReadSlice<DType::kF16>(part, first, count, floats);
    case DType::kBF16:
      return ReadSlice<DType::kBF16>(part, first, count, floats);
    case DType::kF8E4M3:
      ReadSlice<DType::kF8E4M3>(part, first, count, floats);
      return ApplySourceScales(part, first, count, floats);
  }
}

template <Precision kPrecision, typename Element>
void Scatter(const PanelPart& part, int64_t first, int64_t count, const Element* elements, std::byte* panel) {
  auto* out = reinterpret_cast<Element*>(panel);
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t c = part.first_column; c < part.end_column; ++c) {
      out[ElementIndex(kPrecision, first + k, c)] = elements[c * kSlice + k];
    }
  }
}

void RoundAndScatter(const KernelTable& kernels, const PanelPart& part, const Fp8Scale* scales, int64_t first,
                     int64_t count, const float* floats, std::byte* codes, std::byte* panel) {
  auto* codes16 = reinterpret_cast<uint16_t*>(codes);
  auto* codes8 = reinterpret_cast<uint8_t*>(codes);
  for (int64_t c = part.first_column; c < part.end_column; ++c) {
    const float* row = floats + c * kSlice;
    switch (part.params->weight->precision) {
      case Precision::kFp32:
        break;
      case Precision::kBf16:
        kernels.to_bf16(row, count, codes16 + c * kSlice);
        break;
      case Precision::kFp16:
        kernels.to_fp16(row, count, codes16 + c * kSlice);
        break;
      case Precision::kFp8:
        kernels.to_e4m3(row, scales[c].factor, count, codes8 + c * kSlice);
        break;
    }
  }
  switch (part.params->weight->precision) {
    case Precision::kFp32:
      return Scatter<Precision::kFp32>(part, first, count, floats, panel);
    case Precision::kBf16:
      return Scatter<Precision::kBf16>(part, first, count, codes16, panel);
    case Precision::kFp16:
      return Scatter<Precision::kFp16>(part, first, count, codes16, panel);
    case Precision::kFp8:
      return Scatter<Precision::kFp8>(part, first, count, codes8, panel);
  }
}

// FP8: the scales of the part's rows, from a first pass over the source; stored behind the panels.
void FindScales(const KernelTable& kernels, const PanelPart& part, float* floats, Fp8Scale* scales) {
  const PackedWeight& weight = *part.params->weight;
  uint32_t largest[kPanelColumns] = {};
  for (int64_t first = 0; first < weight.in_features; first += kSlice) {
    const int64_t count = std::min(kSlice, weight.in_features - first);
    ReadSlice(part, first, count, floats);
    for (int64_t c = part.first_column; c < part.end_column; ++c) {
      largest[c] = std::max(largest[c], kernels.max_magnitude_bits(floats + c * kSlice, count));
    }
  }
  float* stored = PanelScales(weight, part.panel);
  for (int64_t c = part.first_column; c < part.end_column; ++c) {
    scales[c] = ScaleOfRow(largest[c]);
    stored[c] = scales[c].scale;
  }
}

// FP8 from FP8: the part's codes and scales as they are.
void CopyPanel(const PanelPart& part) {
  const PackWeightParams& p = *part.params;
  const PackedWeight& weight = *p.weight;
  const auto* codes = static_cast<const uint8_t*>(p.source);
  auto* panel = static_cast<uint8_t*>(weight.data) +
                static_cast<size_t>(part.panel) * PanelBytes(Precision::kFp8, weight.in_features);
  float* stored = PanelScales(weight, part.panel);
  const int64_t row = part.panel * kPanelColumns - p.row_begin;
  for (int64_t c = part.first_column; c < part.end_column; ++c) {
    for (int64_t k = 0; k < PaddedDepth(Precision::kFp8, weight.in_features); ++k) {
      const bool real = k < weight.in_features;
      panel[ElementIndex(Precision::kFp8, k, c)] =
          real ? codes[(row + c) * p.row_stride + k * p.column_stride] : uint8_t{0};
    }
    for (int64_t i = 0; i < ScalesPerRow(weight.scale_block, weight.in_features); ++i) {
      stored[i * kPanelColumns + c] = SourceScales(part, c)[i];
    }
  }
}

void PackPanel(const KernelTable& kernels, const PanelPart& part, std::byte* scratch) {
  const PackedWeight& weight = *part.params->weight;
  if (weight.precision == Precision::kFp8 && part.params->source_dtype == DType::kF8E4M3) return CopyPanel(part);
  auto* floats = reinterpret_cast<float*>(scratch);
  std::byte* codes = scratch + kPanelColumns * kSlice * static_cast<int64_t>(sizeof(float));
  std::byte* panel = static_cast<std::byte*>(weight.data) +
                     static_cast<size_t>(part.panel) * PanelBytes(weight.precision, weight.in_features);
  Fp8Scale scales[kPanelColumns] = {};
  if (weight.precision == Precision::kFp8) FindScales(kernels, part, floats, scales);

  const int64_t padded_depth = PaddedDepth(weight.precision, weight.in_features);
  for (int64_t first = 0; first < padded_depth; first += kSlice) {
    const int64_t count = std::min(kSlice, padded_depth - first);
    const int64_t real = std::min(count, weight.in_features - first);
    ReadSlice(part, first, real, floats);
    for (int64_t c = part.first_column; c < part.end_column; ++c) {
      std::fill(floats + c * kSlice + real, floats + c * kSlice + count, 0.0F);
    }
    RoundAndScatter(kernels, part, scales, first, count, floats, codes, panel);
  }
}

// Zeros (scale 0) in the columns after the last output feature.
void ClearPadding(const PackedWeight& weight) {
  const int64_t panel = NumPanels(weight.out_features) - 1;
  const int64_t used = weight.out_features - panel * kPanelColumns;
  const size_t element = ElementBytes(weight.precision);
  auto* data = static_cast<std::byte*>(weight.data);
  std::byte* start = data + static_cast<size_t>(panel) * PanelBytes(weight.precision, weight.in_features);
  for (int64_t k = 0; k < PaddedDepth(weight.precision, weight.in_features); ++k) {
    for (int64_t c = used; c < kPanelColumns; ++c) {
      std::memset(start + static_cast<size_t>(ElementIndex(weight.precision, k, c)) * element, 0, element);
    }
  }
  if (weight.precision != Precision::kFp8) return;
  float* scales = PanelScales(weight, panel);
  for (int64_t i = 0; i < ScalesPerRow(weight.scale_block, weight.in_features); ++i) {
    std::fill(scales + i * kPanelColumns + used, scales + (i + 1) * kPanelColumns, 0.0F);
  }
}

bool ValidScales(const PackWeightParams& p) {
  const bool from_fp8 = p.source_dtype == DType::kF8E4M3;
  const bool to_fp8 = p.weight->precision == Precision::kFp8;
  if (from_fp8 != (p.source_scales != nullptr)) return false;
  if (p.source_scale_block != 0 && !(from_fp8 && p.source_scale_block == kScaleBlock)) return false;
  return p.weight->scale_block == (to_fp8 ? p.source_scale_block : 0);
}

bool Valid(const PackWeightParams& p) {
  if (p.weight == nullptr || p.weight->data == nullptr || p.source == nullptr) return false;
  const PackedWeight& weight = *p.weight;
  return weight.out_features > 0 && weight.in_features > 0 && p.row_begin >= 0 && p.num_rows >= 0 &&
         p.row_begin <= weight.out_features - p.num_rows && ValidScales(p);
}

}  // namespace

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.num_rows == 0) return KernelStatus::kOk;
  const int64_t row_end = params.row_begin + params.num_rows;
  if (row_end == params.weight->out_features) ClearPadding(*params.weight);
  const int64_t first_panel = params.row_begin / kPanelColumns;
  context->pool.Run(NumPanels(row_end) - first_panel, [&](int64_t task, int worker) {
    const int64_t panel = first_panel + task;
    const int64_t start = panel * kPanelColumns;
    const PanelPart part{&params, panel, std::max<int64_t>(params.row_begin - start, 0),
                         std::min(row_end - start, kPanelColumns)};
    PackPanel(context->kernels, part, context->scratch(worker));
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
