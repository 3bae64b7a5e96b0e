// SPDX-License-Identifier: Apache-2.0
// The layer of a checkpoint that predicts further tokens (multi-token prediction, MTP), loaded behind the model's own
// layers as layer ModelConfig::num_layers. Such a layer takes a token's embedding and the hidden row before it, and
// shares the model's embedding and head. Source: DeepSeek-V3 Technical Report, section 2.2.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// Adds the layer to the config. FAILED_PRECONDITION names what a model has that such a layer is not served with.
absl::Status AddPredictorLayer(ModelConfig* config);

// Gives the tensors of the first such layer the names of layer num_layers, with those that DeepSeek V3 and GLM have for
// what is the layer's own (enorm, hnorm, eh_proj, shared_head.norm); Qwen 3.5 and Qwen3-Next have them under "mtp.".
// prefix: of the model's names. FAILED_PRECONDITION where the checkpoint has none. *tensors changes, and
// PredictorSpec::own_head where the checkpoint has no such head.
absl::Status FindPredictorTensors(const std::string& prefix, std::unique_ptr<TensorSource>* tensors,
                                  ModelConfig* config);

}  // namespace dunlin::engine
