// SPDX-License-Identifier: Apache-2.0
// A model directory's linear layers as integer codes: writes a compressed-tensors checkpoint (pack-quantized) that
// transformers, vLLM and Dunlin read. Embeddings, norms, biases and the head are copied as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/request/types.h"

namespace dunlin::engine {

struct QuantizeOptions {
  std::string directory;     // a Hugging Face model directory that is not quantised
  std::string out;           // exists; gets the weights and config.json
  int32_t bits = 4;          // 4 or 8
  int64_t group = 32;        // columns that share a scale; 0: a whole row
  bool by_activity = false;  // of GPTQ: see GptqFactor
  int num_threads = 1;       // of GPTQ's rounding
  // Moments that are kept at once. More inputs are observed in several runs over the text; one is always kept.
  size_t moments_bytes = size_t{4} << 30;
  std::function<void(const std::string& line)> progress = [](const std::string&) {};
};

struct QuantizeReport {
  int64_t matrices = 0;       // quantised
  int64_t parameters = 0;     // of them
  uint64_t bytes_before = 0;  // of all tensors
  uint64_t bytes_after = 0;
};

// Whether QuantizeCheckpoint has a layout for every matrix: its errors that come of names and shapes, before anything
// is computed. A GGUF file is INVALID_ARGUMENT.
absl::Status CheckQuantizable(const QuantizeOptions& options);

// Rounds to nearest without a model, by GPTQ with one: it is the directory's own on a CPU, and `tokens` the text whose
// inputs it observes. INVALID_ARGUMENT names the tensor or field and what is wrong: a model that is quantised already,
// a tensor stored [in_features, out_features], columns that the group doesn't divide, a weight that is not finite.
// Other errors as LoadModel, TextWindows and SafetensorsWriter.
absl::StatusOr<QuantizeReport> QuantizeCheckpoint(const QuantizeOptions& options, const Model* model,
                                                  std::span<const TokenId> tokens);

}  // namespace dunlin::engine
