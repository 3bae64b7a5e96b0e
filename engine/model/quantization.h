// What a checkpoint's files say about its FP8 weights and about the inputs of its linear layers: one table row for each
// published format. Everything else that is quantised is refused by name. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/json_fields.h"

namespace dunlin::engine {

// What shares a weight scale: the matrix, an output row, or a block of rows and kernels::kScaleBlock columns.
enum class WeightScaling : uint8_t { kTensor, kChannel, kBlock };

struct Quantization;

struct QuantizationFormat {
  const char* name;                            // for messages
  const char* method;                          // quantization_config.quant_method
  bool blocks;                                 // of two rows with one method: whether weight_block_size must be set
  std::span<const char* const> weight_scales;  // endings that stand in the place of "weight"; the first that exists
  std::span<const char* const> input_scales;   // the same, where inputs are static
  void (*parse)(JsonFields& fields, Quantization* quantization);
};

struct Quantization {
  const QuantizationFormat* format = nullptr;  // null: the checkpoint is not quantised
  WeightScaling weights = WeightScaling::kTensor;
  int64_t block_rows = 0;      // kBlock: output rows of a block, > 0
  bool static_inputs = false;  // every quantised linear layer has the scale of its input
  // Dynamic input scales are made as if no magnitude were above this; > 0.
  float input_amax_limit = std::numeric_limits<float>::infinity();
  std::vector<std::string> ignored;   // modules left as they were: full names or name endings; no patterns
  std::vector<std::string> warnings;  // what is served in another way than the files ask for
};

// All formats, in a fixed order.
std::span<const QuantizationFormat> QuantizationFormats();

// Reads quantization_config of config.json (`config`), or the text of hf_quant_config.json, which may be empty.
// INVALID_ARGUMENT names file, field, value and what is known: an unknown method, an algorithm that is not FP8 (NVFP4,
// W4A16, INT8, ...), a strategy or a block size that is not served.
absl::StatusOr<Quantization> ParseQuantization(JsonFields& config, std::string_view hf_quant_text);

// Whether a module ("model.layers.0.mlp.up_proj") is one of `ignored`.
bool IsIgnored(const Quantization& quantization, std::string_view module);

}  // namespace dunlin::engine
