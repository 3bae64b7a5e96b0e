// SPDX-License-Identifier: Apache-2.0
// Fields of config.json that several architectures read from GGUF files in the same way, for GgufForm::write_fields.
// Source: github.com/ggml-org/llama.cpp, convert_hf_to_gguf.py (what is written), src/models (what is implied).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/checkpoint/gguf/gguf_config.h"

namespace dunlin::engine {

inline constexpr double kGgufLocalTheta = 10000.0;  // of sliding layers, where files do not say
inline constexpr int64_t kGgufSoftmaxGating = 1;    // expert_gating_func
inline constexpr int64_t kGgufSigmoidGating = 2;

// One window for all layers, where the file has it.
void WriteGgufWindow(GgufConfigWriter* config);
// A window without which the family's positions have no meaning.
void RequireGgufWindow(GgufConfigWriter* config);

// The number that all layers of one kind have under a key, of a list or one for all; of the first layer where there is
// no such layer. Records an error, which names the layer, where they differ.
int64_t GgufHeadsOfKind(GgufConfigWriter* config, const char* key, const std::vector<bool>& sliding, bool slides);

// Gemma divides queries by the root of this. Without the key, of the published sizes only 27B has another number than a
// head's size: it is told by its layers. Source: llama.cpp, src/models/gemma2.cpp, gemma3.cpp.
double GgufQueryScalar(GgufConfigWriter* config, int64_t layers_of_27b);

// DeepSeek's rules. num_groups and chosen_groups: where the file has none.
void WriteGgufRouting(GgufConfigWriter* config, int64_t num_groups, int64_t chosen_groups);
// Records an error where expert_gating_func is neither absent (0) nor sigmoid.
void RequireGgufSigmoidGating(GgufConfigWriter* config);
// rope_parameters with the file's scaling and both factors of YaRN, and queries' factor by position.
void WriteGgufQueryScale(GgufConfigWriter* config, double beta, double mscale);
void RefuseGgufSharedExperts(GgufConfigWriter* config);

// Records an error, that `what` is not supported, where the file has the tensor.
void RefuseGgufTensor(GgufConfigWriter* config, const std::string& tensor, const char* what);

void WriteGgufMultipliers(GgufConfigWriter* config);  // Granite's
void WriteGgufGranite(GgufConfigWriter* config);      // the same; every layer has positions
void WriteGgufBert(GgufConfigWriter* config);         // token types of BERT's encoders

}  // namespace dunlin::engine
