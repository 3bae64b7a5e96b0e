// SPDX-License-Identifier: Apache-2.0
// Row gather from a packed weight (token embeddings of a tied model). A row is a strided walk through its panel, bound
// by cache lines and not by arithmetic, so one scalar version serves every variant.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/api/code_levels.h"
#include "kernels/api/float_formats.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/group_numbers.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kGatheredElements = 1 << 13;

float LoadSixBits(const std::byte* panel, int64_t k, int64_t column) {
  const std::byte* at = panel + SixBitWords(k, column);
  uint32_t words[3];
  for (int64_t w = 0; w < 3; ++w) std::memcpy(words + w, at + w * kSixBitWordStride, sizeof(uint32_t));
  return static_cast<float>(SixBitCode(words, k));
}

// Without its scale.
template <WeightFormat kFormat>
float LoadElement(const std::byte* panel, int64_t k, int64_t column) {
  if constexpr (Traits(kFormat).code_bits == 6) return LoadSixBits(panel, k, column);
  const int64_t index = ElementIndex(kFormat, k, column);
  const std::byte* at = panel + index * Traits(kFormat).code_bits / 8;
  if constexpr (Traits(kFormat).code_bits == 4) {
    const int32_t half = static_cast<int32_t>(*at) >> (index % 2 * 4) & 0xF;
    if constexpr (Traits(kFormat).levels != CodeLevels::kIntegers) return RowOf(Traits(kFormat).levels).values[half];
    return static_cast<float>(half < 8 || UnsignedBias(kFormat) == 0 ? half : half - 16);
  } else if constexpr (IsGrouped(kFormat)) {
    return static_cast<float>(static_cast<int8_t>(*at));
  } else if constexpr (kFormat == WeightFormat::kE4M3) {
    return E4M3ToFloat(static_cast<uint8_t>(*at));
  } else if constexpr (kFormat == WeightFormat::kF32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  } else {
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof(bits));
    return kFormat == WeightFormat::kBf16 ? Bf16ToFloat(bits) : Fp16ToFloat(bits);
  }
}

template <WeightFormat kFormat>
void GatherRow(const PackedWeight& weight, int64_t id, float scale, bool accumulate, float* out) {
  const auto* data = static_cast<const std::byte*>(weight.data);
  const int64_t stored = StoredColumn(weight, id);
  const int64_t panel_index = stored / kPanelColumns;
  const int64_t column = stored % kPanelColumns;
  const std::byte* panel = data + static_cast<size_t>(panel_index) * PanelBytes(kFormat, weight.in_features);
  const std::byte* scales = IsGrouped(kFormat) ? PanelGroupScales(weight, panel_index) : nullptr;
  for (int64_t k = 0; k < weight.in_features; ++k) {
    float value = LoadElement<kFormat>(panel, k, column);
    if constexpr (IsGrouped(kFormat)) {
      const GroupNumbers numbers = ReadGroup<kFormat>(scales, k / Traits(kFormat).group, column);
      value = (value - numbers.zero_point) * numbers.scale - numbers.minimum;
    } else if constexpr (kFormat == WeightFormat::kE4M3) {
      const int64_t block = weight.scale_block == 0 ? 0 : k / weight.scale_block;
      value *= PanelScales(weight, panel_index)[block * kPanelColumns + column];
    }
    value *= scale;
    out[k] = accumulate ? out[k] + value : value;
  }
}

using RowGatherer = void (*)(const PackedWeight&, int64_t, float, bool, float*);

template <size_t... kFormats>
constexpr std::array<RowGatherer, sizeof...(kFormats)> GatherersOf(std::index_sequence<kFormats...>) {
  return {GatherRow<static_cast<WeightFormat>(kFormats)>...};
}
constexpr std::array<RowGatherer, kNumWeightFormats> kGatherers =
    GatherersOf(std::make_index_sequence<kNumWeightFormats>());

bool Valid(const GatherRowsParams& p) {
  if (p.weight == nullptr || p.weight->data == nullptr || p.num_rows < 0) return false;
  if (p.num_rows > 0 && (p.ids == nullptr || p.out == nullptr)) return false;
  return std::all_of(p.ids, p.ids + p.num_rows, [&](int32_t id) { return id >= 0 && id < p.weight->out_features; });
}

}  // namespace

KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const PackedWeight& weight = *params.weight;
  const int64_t columns = weight.in_features;
  const int64_t rows_per_task = std::max<int64_t>(1, kGatheredElements / std::max<int64_t>(columns, 1));
  const RowGatherer gather = kGatherers[static_cast<size_t>(weight.format)];
  context->pool.Run((params.num_rows + rows_per_task - 1) / rows_per_task, [&](int64_t task, int) {
    const int64_t end = std::min<int64_t>(params.num_rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) {
      gather(weight, params.ids[row], params.scale, params.accumulate, params.out + row * columns);
    }
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
