// SPDX-License-Identifier: Apache-2.0
// What to load: where a model's config and weights come from, and the precisions that are wanted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

// Which model of a directory: the one that it names or, of a multimodal one, its text model; or its encoder of images.
enum class ModelPart : uint8_t { kModel, kImageEncoder };

// Where a model's config and weights come from.
struct ModelSource {
  std::string path;  // a Hugging Face model directory or a GGUF file; empty for random weights
  std::string
      random_shape;  // for random weights: a name of named_shapes.cc, a path to a config.json, or its text ("{...")
  uint64_t random_seed = 0;
  std::vector<Precision> precisions;  // resident precisions, the default first; >= 1, distinct
  bool predictor = false;             // with its layer that predicts further tokens (predictor.h)
  // Ranks among which the model is divided (engine/model/spec/rank_config.h); 1: it is not.
  int32_t num_ranks = 1;
  bool int8_inputs = false;  // PackedWeight::int8_inputs of every matrix in groups of integer codes; CPU
  // An encoder of images: on one rank, in precisions of 16 bits or more.
  ModelPart part = ModelPart::kModel;
};

}  // namespace dunlin::engine
