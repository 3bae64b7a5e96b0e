// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_encodings.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dunlin::engine {
namespace {

using kernels::DType;
using kernels::Precision;
using kernels::WeightFormat;

// Tables that are only gathered and added stay BF16: quantising them would save little and round every input. So does
// the head of a classifier, which has one row a text.
// A router's products are FP32 in every precision: rounding would change which experts a token takes.
WeightEncoding EncodingOf(const ModelConfig& config, WeightSlot slot, Precision precision) {
  const SlotStorage storage = RowOf(slot).storage;
  if (storage == SlotStorage::kFp32) return {WeightFormat::kF32, 0};
  const bool wide = storage == SlotStorage::kWide || (storage == SlotStorage::kWideWhenGathered && config.is_encoder());
  const WeightFormat format = Traits(precision).format;
  return {wide && Traits(format).code_bits <= 8 ? WeightFormat::kBf16 : format, 0};
}

// FP16 and BF16 keep their bits; FP32 is rounded to BF16.
constexpr WeightEncoding WideEncoding(DType dtype) {
  return {dtype == DType::kF16 ? WeightFormat::kF16 : WeightFormat::kBf16, 0};
}

bool HasFourBits(const kernels::CodeTraits& codes) {
  return codes.levels != kernels::CodeLevels::kIntegers || codes.code_max - codes.code_min < 16;
}

int64_t ElementsOf(const WeightPart& part) {
  return part.num_rows * part.shape[part.transposed ? 0 : 1];
}

}  // namespace

std::optional<WeightFormat> SmallestFormatOf(std::span<const kernels::CodeTraits> codes) {
  std::optional<WeightFormat> smallest;
  for (const kernels::WeightFormatTraits& row : kernels::kWeightFormatTable) {
    if (row.scales == kernels::GroupScales::kNone) continue;  // of floats
    const auto held = [&row](const kernels::CodeTraits& traits) { return kernels::Holds(row.format, traits); };
    if (!std::all_of(codes.begin(), codes.end(), held)) continue;
    if (!smallest || BytesPerElement(row.format) < BytesPerElement(*smallest)) smallest = row.format;
  }
  return smallest;
}

// By the matrices of the layers: embedding and head often have more bits.
void WeightEncodings::ChooseOwnPrecision(const std::vector<WeightPart>& parts) {
  int64_t all = 0;
  int64_t coded = 0;
  int64_t four_bits = 0;
  for (const WeightPart& part : parts) {
    if (part.is_vector() || !IsPerLayer(part.slot)) continue;
    all += ElementsOf(part);
    if (!part.codes) continue;
    coded += ElementsOf(part);
    if (HasFourBits(*part.codes)) four_bits += ElementsOf(part);
  }
  if (coded == 0 || 2 * coded < all) return;
  own_precision_ = 2 * four_bits >= coded ? Precision::kInt4 : Precision::kInt8;
}

void WeightEncodings::ChooseCodeFormats(const std::vector<WeightPart>& parts, const TensorSource& source) {
  struct Fused {
    std::vector<kernels::CodeTraits> codes;
    std::optional<DType> stored;  // of the first part
    size_t parts = 0;
  };
  std::map<std::pair<size_t, size_t>, Fused> matrices;  // by layer and slot
  for (const WeightPart& part : parts) {
    if (part.is_vector()) continue;
    Fused& fused = matrices[{static_cast<size_t>(part.layer), static_cast<size_t>(part.slot)}];
    if (part.codes) fused.codes.push_back(*part.codes);
    if (fused.parts++ == 0) fused.stored = source.Find(part.tensor)->dtype->loadable;
  }
  for (const auto& [place, fused] : matrices) {
    const auto [layer, slot] = place;
    if (own_.size() <= layer) own_.resize(layer + 1);
    if (fused.codes.size() == fused.parts) {
      if (const auto format = SmallestFormatOf(fused.codes)) own_[layer][slot] = WeightEncoding{*format, 0};
    } else if (fused.codes.empty() && (fused.stored == DType::kF16 || fused.stored == DType::kBF16)) {
      own_[layer][slot] = WideEncoding(*fused.stored);
    }
  }
}

WeightEncodings::WeightEncodings(const std::vector<WeightPart>& parts, const TensorSource& source) {
  ChooseOwnPrecision(parts);
  if (own_precision_) ChooseCodeFormats(parts, source);
  const auto is_quantized = [](const WeightPart& part) { return part.scales.weight != nullptr; };
  if (std::none_of(parts.begin(), parts.end(), is_quantized)) return;
  for (const WeightPart& part : parts) {
    if (part.is_vector()) continue;
    const auto layer = static_cast<size_t>(part.layer);
    if (fp8_.size() <= layer) fp8_.resize(layer + 1);
    WeightEncoding& encoding = fp8_[layer][static_cast<size_t>(part.slot)];
    const bool wide = RowOf(part.slot).storage == SlotStorage::kWide;
    encoding = is_quantized(part) && !wide ? WeightEncoding{WeightFormat::kE4M3, part.scales.block}
                                           : WideEncoding(*source.Find(part.tensor)->dtype->loadable);
  }
}

WeightEncoding WeightEncodings::Of(const ModelConfig& config, WeightSlot slot, int32_t layer,
                                   Precision precision) const {
  if (RowOf(slot).storage == SlotStorage::kFp32) return EncodingOf(config, slot, precision);
  if (precision == own_precision_) {
    const auto& own = own_[static_cast<size_t>(layer)][static_cast<size_t>(slot)];
    return own ? *own : WideEncoding(DType::kBF16);  // what has no codes is not rounded to integers
  }
  if (precision != Precision::kFp8 || fp8_.empty()) return EncodingOf(config, slot, precision);
  return fp8_[static_cast<size_t>(layer)][static_cast<size_t>(slot)];
}

}  // namespace dunlin::engine
