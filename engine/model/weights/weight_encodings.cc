// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_encodings.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

using kernels::DType;
using kernels::Precision;

// Tables that are only gathered and added stay BF16: quantising them would save little and round every input.
WeightEncoding QuantizedEncoding(const ModelConfig& config, WeightSlot slot) {
  const bool gathered_only = slot == WeightSlot::kPositions || slot == WeightSlot::kTokenTypes ||
                             (slot == WeightSlot::kEmbedding && config.is_encoder());
  return {gathered_only ? Precision::kBf16 : Precision::kFp8, 0};
}

// FP16 and BF16 keep their bits; FP32 is rounded to BF16.
constexpr WeightEncoding WideEncoding(DType dtype) {
  return {dtype == DType::kF16 ? Precision::kFp16 : Precision::kBf16, 0};
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
    encoding = is_quantized(part) ? WeightEncoding{Precision::kFp8, part.scales.block}
                                  : WideEncoding(*source.Find(part.tensor)->dtype->loadable);
  }
}

WeightEncoding WeightEncodings::Of(const ModelConfig& config, WeightSlot slot, int32_t layer,
                                   Precision precision) const {
  if (precision != Precision::kFp8) return {precision, 0};
  return fp8_.empty() ? QuantizedEncoding(config, slot) : fp8_[static_cast<size_t>(layer)][static_cast<size_t>(slot)];
}

}  // namespace dunlin::engine
