// SPDX-License-Identifier: Apache-2.0
// Whether the language-model head shares the embedding's memory, decided as transformers does.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

// For a config that ties them: unties them, with a warning and a new list of parts, when the checkpoint has both
// tensors with different values; loads the embedding from the head's tensor when the checkpoint has only that. Call
// between ListWeightParts and CheckParts. Source: transformers 5.23, tie_weights. compare false (inspection) takes two
// tensors to be equal. DATA_LOSS when a tensor cannot be read.
absl::Status ResolveTying(const CheckpointNames& names, const std::string& prefix, const TensorSource& source,
                          bool compare, ModelConfig* config, std::vector<WeightPart>* parts,
                          std::vector<std::string>* warnings);

}  // namespace dunlin::engine
