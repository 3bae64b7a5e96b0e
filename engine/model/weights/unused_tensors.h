// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint that no weight of the model takes: those of parts that are not served, told apart by the
// prefix of their names, and others, which nobody expects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

// SkippedTensors::part of what encoders of images take.
inline constexpr const char* kVisionPart = "vision";

// Tensors of a part that is not served.
struct SkippedTensors {
  std::string prefix;  // of their names: "model.visual."
  std::string part;    // "vision"
  int64_t count = 0;   // > 0
};

struct UnusedTensors {
  std::vector<SkippedTensors> skipped;  // by the part, then by prefix
  std::vector<std::string> warnings;    // one line that names up to 8 others; empty when there are none
};

// parts: whose scales have been found. prefix: that of the text model's names. Tensors of vision and audio are expected
// in multimodal models, those that predict further tokens in all: by themselves, or as layers beyond the last; keys and
// values of layers that read those of others (AttentionSpec::kv_sources). Of an encoder of images tensors of vision
// alone count: the others are the text model's.
UnusedTensors FindUnusedTensors(const CheckpointNames& names, const ModelConfig& config, const std::string& prefix,
                                const std::vector<WeightPart>& parts, const TensorSource& source);

}  // namespace dunlin::engine
