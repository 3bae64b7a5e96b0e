// SPDX-License-Identifier: Apache-2.0
// The tensors and the config of compressed-tensors' format pack-quantized. Pure.
// Source: compressed-tensors 0.20, compressors/pack_quantized.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/quantize/group_codes.h"
#include "tools/quantize/safetensors_writer.h"

namespace dunlin::engine {

// What a module's weight [rows, columns] becomes: weight_packed I32 [rows, words], weight_scale [rows, groups] and
// weight_shape I64 [2].
std::vector<OutputTensor> PackedTensorsOf(const std::string& module, const CodeLayout& layout, int64_t rows,
                                          int64_t columns);

// The bytes of those three tensors, in that order.
std::vector<std::vector<std::byte>> PackedBytesOf(const CodedMatrix& matrix);

// quantization_config of config.json. ignored: modules that keep their weights.
nlohmann::ordered_json PackedConfig(const CodeLayout& layout, bool whole_rows, bool by_activity,
                                    const std::vector<std::string>& ignored);

}  // namespace dunlin::engine
