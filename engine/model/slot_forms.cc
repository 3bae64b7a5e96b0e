#include "engine/model/slot_forms.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

using kernels::DType;
using kernels::Precision;

// Tables that are only ever gathered and added stay BF16: quantising them would save little and round every input.
SlotForm QuantizedForm(const ModelConfig& config, WeightSlot slot) {
  const bool gathered_only = slot == WeightSlot::kPositions || slot == WeightSlot::kTokenTypes ||
                             (slot == WeightSlot::kEmbedding && config.is_encoder());
  return {gathered_only ? Precision::kBf16 : Precision::kFp8, 0};
}

// FP16 keeps its bits; BF16 keeps its own, and FP32 is cut to them.
constexpr SlotForm WideForm(DType dtype) {
  return {dtype == DType::kF16 ? Precision::kFp16 : Precision::kBf16, 0};
}

}  // namespace

SlotForms::SlotForms(const std::vector<WeightPart>& parts, const TensorSource& source) {
  const auto is_quantized = [](const WeightPart& part) { return part.scales.weight != nullptr; };
  if (std::none_of(parts.begin(), parts.end(), is_quantized)) return;
  for (const WeightPart& part : parts) {
    if (part.is_vector()) continue;
    const auto layer = static_cast<size_t>(part.layer);
    if (fp8_.size() <= layer) fp8_.resize(layer + 1);
    SlotForm& form = fp8_[layer][static_cast<size_t>(part.slot)];
    form = is_quantized(part) ? SlotForm{Precision::kFp8, part.scales.block}
                              : WideForm(*source.Find(part.tensor)->dtype->loadable);
  }
}

SlotForm SlotForms::Of(const ModelConfig& config, WeightSlot slot, int32_t layer, Precision precision) const {
  if (precision != Precision::kFp8) return {precision, 0};
  return fp8_.empty() ? QuantizedForm(config, slot) : fp8_[static_cast<size_t>(layer)][static_cast<size_t>(slot)];
}

}  // namespace dunlin::engine
