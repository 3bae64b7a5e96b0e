// Whether the language-model head shares the embedding's memory, decided as transformers does.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/architecture.h"
#include "engine/model/model_config.h"
#include "engine/model/tensor_source.h"
#include "engine/model/weight_parts.h"

namespace dunlin::engine {

// For a config that ties: a checkpoint that has both tensors with different values unties them (with a warning); one
// that has the head alone lets it stand for the embedding, by renaming the embedding's part. Call between
// ListWeightParts and CheckParts; when it unties, `parts` is listed anew. Source: transformers 5.23, tie_weights.
// With `compare` false (inspection) two tensors are taken to be equal. DATA_LOSS when a tensor cannot be read.
absl::Status ResolveTying(const Architecture& architecture, const std::string& prefix, const TensorSource& source,
                          bool compare, ModelConfig* config, std::vector<WeightPart>* parts,
                          std::vector<std::string>* warnings);

}  // namespace dunlin::engine
