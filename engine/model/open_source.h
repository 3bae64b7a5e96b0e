// From a ModelSource to a checked list of weight parts and the tensors that fill them: what loading and inspection
// share.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/model_directory.h"
#include "engine/model/slot_forms.h"
#include "engine/model/tensor_source.h"
#include "engine/model/weight_parts.h"

namespace dunlin::engine {

struct OpenedModel {
  ParsedModel parsed;
  std::vector<WeightPart> parts;  // checked against `tensors`
  SlotForms forms;
  InputScales calibrated;  // of kInputScalesFile; empty when the model has none
  std::unique_ptr<TensorSource> tensors;
};

// Errors as Model::Load's, with the path or shape in front. `read_weights`: whether tensors may be read: two that the
// config ties are then compared, and KV scales checked.
absl::StatusOr<OpenedModel> OpenModelSource(const ModelSource& source, bool read_weights);

}  // namespace dunlin::engine
