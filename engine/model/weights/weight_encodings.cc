// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_encodings.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

using kernels::DType;
using kernels::Precision;
using kernels::WeightFormat;

// Tables that are only gathered and added stay BF16: quantising them would save little and round every input.
// A router's products are FP32 in every precision: rounding would change which experts a token takes.
WeightEncoding EncodingOf(const ModelConfig& config, WeightSlot slot, Precision precision) {
  if (slot == WeightSlot::kRouter) return {WeightFormat::kF32, 0};
  const bool gathered_only = slot == WeightSlot::kPositions || slot == WeightSlot::kTokenTypes ||
                             (slot == WeightSlot::kEmbedding && config.is_encoder());
  const WeightFormat format = Traits(precision).format;
  return {gathered_only && Traits(format).code_bits <= 8 ? WeightFormat::kBf16 : format, 0};
}

// FP16 and BF16 keep their bits; FP32 is rounded to BF16.
constexpr WeightEncoding WideEncoding(DType dtype) {
  return {dtype == DType::kF16 ? WeightFormat::kF16 : WeightFormat::kBf16, 0};
}

}  // namespace

WeightEncodings::WeightEncodings(const std::vector<WeightPart>& parts, const TensorSource& source) {
  const auto is_quantized = [](const WeightPart& part) { return part.scales.weight != nullptr; };
  if (std::none_of(parts.begin(), parts.end(), is_quantized)) return;
  for (const WeightPart& part : parts) {
    if (part.is_vector()) continue;
    const auto layer = static_cast<size_t>(part.layer);
    if (fp8_.size() <= layer) fp8_.resize(layer + 1);
    WeightEncoding& encoding = fp8_[layer][static_cast<size_t>(part.slot)];
    encoding = is_quantized(part) ? WeightEncoding{WeightFormat::kE4M3, part.scales.block}
                                  : WideEncoding(*source.Find(part.tensor)->dtype->loadable);
  }
}

WeightEncoding WeightEncodings::Of(const ModelConfig& config, WeightSlot slot, int32_t layer,
                                   Precision precision) const {
  if (precision != Precision::kFp8 || fp8_.empty() || slot == WeightSlot::kRouter)
    return EncodingOf(config, slot, precision);
  return fp8_[static_cast<size_t>(layer)][static_cast<size_t>(slot)];
}

}  // namespace dunlin::engine
