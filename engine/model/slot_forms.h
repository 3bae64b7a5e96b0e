// How each matrix of a model is kept in each precision. In FP8 an FP8 checkpoint decides: what it quantised keeps its
// codes and scales, what it left alone stays as wide as it was. From other checkpoints every matrix is quantised.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/model/weight_parts.h"
#include "engine/model/weight_slot.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct SlotForm {
  kernels::Precision precision;
  int32_t scale_block;  // PackedWeight's
};

class SlotForms {
 public:
  // A checkpoint that is not quantised.
  SlotForms() = default;
  // REQUIRES: FindScales(..., &parts) is OK; every part's tensor is in `source`.
  SlotForms(const std::vector<WeightPart>& parts, const TensorSource& source);

  // The form of a slot when the model runs in `precision`.
  SlotForm Of(const ModelConfig& config, WeightSlot slot, int32_t layer, kernels::Precision precision) const;

 private:
  // By layer, then slot; empty when the checkpoint is not quantised.
  std::vector<std::array<SlotForm, kNumWeightSlots>> fp8_;
};

}  // namespace dunlin::engine
