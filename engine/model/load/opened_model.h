// SPDX-License-Identifier: Apache-2.0
// A ModelSource, opened: the parsed config, the checked list of weight parts, and the tensors that fill them. Loading
// and inspection both start here.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/load/model_source.h"
#include "engine/model/spec/adaptable.h"
#include "engine/model/spec/model_weights.h"
#include "engine/model/weights/unused_tensors.h"
#include "engine/model/weights/weight_encodings.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

struct OpenedModel {
  ParsedModel parsed;
  std::vector<WeightPart> parts;  // checked against `tensors`
  WeightEncodings encodings;
  InputScales calibrated;  // from kInputScalesFile; empty when the model has none
  std::vector<SkippedTensors> skipped;
  AdaptableModules adaptable;
  std::unique_ptr<TensorSource> tensors;
};

// Errors: as LoadModel, prefixed with the path or shape. read_weights: also reads tensors to compare a tied pair and
// to check the values of KV scales.
absl::StatusOr<OpenedModel> OpenModelSource(const ModelSource& source, bool read_weights);

}  // namespace dunlin::engine
