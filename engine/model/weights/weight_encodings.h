// SPDX-License-Identifier: Apache-2.0
// How each matrix of a model is stored in each precision. FP8, INT8 and INT4 quantise every matrix but the tables that
// are only gathered. In FP8 an FP8 checkpoint decides: matrices that it quantised keep their codes and scales but where
// a slot has 16 bits in every precision, the others keep their 16-bit dtype. A checkpoint of integer codes has one
// precision of its own, INT4 where most of its codes have up to 4 bits and INT8 otherwise, in which each matrix keeps
// its codes: fused parts of several types share the smallest format that holds all of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/spec/weight_slot.h"
#include "engine/model/weights/weight_parts.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct WeightEncoding {
  kernels::WeightFormat format;
  int32_t scale_block;  // PackedWeight's
};

// The format of the fewest bytes that holds all of these codes; none where no format does.
std::optional<kernels::WeightFormat> SmallestFormatOf(std::span<const kernels::CodeTraits> codes);

class WeightEncodings {
 public:
  // Of a checkpoint that is not quantised.
  WeightEncodings() = default;
  // REQUIRES: FindScales(..., &parts) and FindCodes have filled the parts; every part's tensor is in `source`.
  WeightEncodings(const std::vector<WeightPart>& parts, const TensorSource& source);

  // The encoding of a slot when the model runs in `precision`.
  WeightEncoding Of(const ModelConfig& config, WeightSlot slot, int32_t layer, kernels::Precision precision) const;
  // The precision in which the checkpoint's own integer codes are multiplied; none where most matrices have no codes.
  std::optional<kernels::Precision> own_precision() const { return own_precision_; }

 private:
  void ChooseOwnPrecision(const std::vector<WeightPart>& parts);
  void ChooseCodeFormats(const std::vector<WeightPart>& parts, const TensorSource& source);

  // By layer, then slot; empty when the checkpoint is not quantised.
  std::vector<std::array<WeightEncoding, kNumWeightSlots>> fp8_;
  std::optional<kernels::Precision> own_precision_;
  // Of own_precision_, by layer, then slot; none: as of any checkpoint.
  std::vector<std::array<std::optional<WeightEncoding>, kNumWeightSlots>> own_;
};

}  // namespace dunlin::engine
