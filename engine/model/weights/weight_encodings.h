// SPDX-License-Identifier: Apache-2.0
// How each matrix of a model is stored in each precision. FP8, INT8 and INT4 quantise every matrix but the tables that
// are only gathered. In FP8 an FP8 checkpoint decides: matrices that it quantised keep their codes and scales, the
// others keep their 16-bit dtype.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/model/weights/weight_parts.h"
#include "engine/model/weights/weight_slot.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct WeightEncoding {
  kernels::WeightFormat format;
  int32_t scale_block;  // PackedWeight's
};

class WeightEncodings {
 public:
  // Of a checkpoint that is not quantised.
  WeightEncodings() = default;
  // REQUIRES: FindScales(..., &parts) is OK; every part's tensor is in `source`.
  WeightEncodings(const std::vector<WeightPart>& parts, const TensorSource& source);

  // The encoding of a slot when the model runs in `precision`.
  WeightEncoding Of(const ModelConfig& config, WeightSlot slot, int32_t layer, kernels::Precision precision) const;

 private:
  // By layer, then slot; empty when the checkpoint is not quantised.
  std::vector<std::array<WeightEncoding, kNumWeightSlots>> fp8_;
};

}  // namespace dunlin::engine
