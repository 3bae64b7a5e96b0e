// SPDX-License-Identifier: Apache-2.0
// How a checkpoint's files describe its quantised weights and the input scales of its linear layers: one table row per
// published format. FP8 weights keep their codes; integers, tables of 4 bits and floats scaled in small groups become
// plain tensors as they are read (integer/integer_tensors.h, microscaled_tensors.h), with codes where products take
// them. Matrices of several of these may be mixed: tensors tell what each is. Other quantisations are refused by name.
// Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json_fields.h"
#include "engine/model/checkpoint/integer/integer_weight.h"

namespace dunlin::engine {

// The elements that share a weight scale: the matrix, an output row, or a block of rows by kernels::kScaleBlock
// columns.
enum class WeightScaling : uint8_t { kTensor, kChannel, kBlock };

// NVIDIA Model Optimizer's file beside config.json.
inline constexpr const char* kHfQuantFile = "hf_quant_config.json";

struct Quantization;

struct QuantizationFormat {
  const char* name;                            // for messages
  const char* method;                          // quantization_config.quant_method
  bool blocks;                                 // whether weight_block_size must be set; tells apart rows of one method
  std::span<const char* const> weight_scales;  // suffixes that replace "weight"; the first that exists counts
  std::span<const char* const> input_scales;   // the same, for static inputs
  void (*parse)(JsonFields& fields, Quantization* quantization);
};

struct Quantization {
  const QuantizationFormat* format = nullptr;  // null: the checkpoint is not quantised
  WeightScaling weights = WeightScaling::kTensor;
  int64_t block_rows = 0;       // kBlock: output rows of a block, > 0
  bool static_inputs = false;   // every quantised linear layer has an input scale
  IntegerQuantization integer;  // its layout is kNone where no codes are integers
  bool microscaled = false;     // some matrices are NVFP4, MXFP4 or MXFP8
  // Dynamic input scales saturate larger magnitudes; > 0.
  float input_amax_limit = std::numeric_limits<float>::infinity();
  std::vector<std::string> ignored;   // modules that are not quantised: full names or suffixes, no patterns; sorted
  std::vector<std::string> warnings;  // where serving differs from what the files ask for
};

// All formats, in a fixed order.
std::span<const QuantizationFormat> QuantizationFormats();

// Reads quantization_config of config.json (`config`), or the text of hf_quant_config.json, which may be empty.
// INVALID_ARGUMENT names file, field, value and the known values: an unknown method, an algorithm of ModelOpt other
// than FP8, NVFP4 and MXFP8 (W4A16, ...), an unsupported number of bits, layout, strategy or block size.
absl::StatusOr<Quantization> ParseQuantization(JsonFields& config, std::string_view hf_quant_text);

// Whether a module ("model.layers.0.mlp.up_proj") is one of `ignored`.
bool IsIgnored(const Quantization& quantization, std::string_view module);

}  // namespace dunlin::engine
