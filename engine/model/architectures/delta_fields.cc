// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/delta_fields.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxDeltaRows = 1 << 20;  // of a delta net's input projection

}  // namespace

void ParseDelta(JsonFields& fields, const DeltaDefaults& defaults, ModelConfig* config) {
  kernels::DeltaShape& shape = config->delta.shape;
  const auto read = [&fields](const char* name, int64_t max, int64_t fallback) {
    const int64_t value = fields.IntOr(name, 1, max, fallback);
    if (value < 1 || value > max)
      fields.Fail(absl::StrCat(name, " is ", value, " by default; limit is [1, ", max, "]"));
    return static_cast<int32_t>(value);
  };
  shape.key_heads = read("linear_num_key_heads", kMaxHeads, defaults.key_heads);
  shape.value_heads = read("linear_num_value_heads", kMaxHeads, defaults.value_heads);
  shape.key_dim = read("linear_key_head_dim", kMaxHeadDim, defaults.key_dim);
  shape.value_dim = read("linear_value_head_dim", kMaxHeadDim, defaults.value_dim);
  config->delta.conv_taps = static_cast<int32_t>(fields.IntOr("linear_conv_kernel_dim", 2, kernels::kConvTapsMax, 4));
  if (!fields.status().ok()) return;
  if (shape.value_heads % shape.key_heads != 0) {
    return fields.Fail(absl::StrCat("linear_num_key_heads is ", shape.key_heads, ", which does not divide ",
                                    shape.value_heads, " value heads"));
  }
  const int64_t rows = 2 * int64_t{shape.key_heads} * shape.key_dim + 2 * int64_t{shape.value_heads} * shape.value_dim;
  if (rows > kMaxDeltaRows) {
    fields.Fail(absl::StrCat("the heads of linear attention take ", rows, " rows; limit is ", kMaxDeltaRows));
  }
}

std::string IntervalLetters(int32_t num_layers, int64_t interval) {
  std::string letters;
  for (int32_t layer = 0; layer < num_layers; ++layer) letters += (layer + 1) % interval == 0 ? '*' : 'M';
  return letters;
}

void SetDeltaMixers(JsonFields& fields, const std::string& letters, const char* names, ModelConfig* config) {
  for (const char letter : letters) {
    config->mixers.push_back(letter == '*' ? MixerKind::kAttention : MixerKind::kDelta);
  }
  if (config->num_kv_layers() == 0) {
    fields.Fail(absl::StrCat("no layer has full attention, of which a model needs one (", names, ")"));
  }
}

void ParseDeltaLayers(JsonFields& fields, ModelConfig* config) {
  const int64_t interval = fields.IntOr("full_attention_interval", 1, kMaxLayers, 4);
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  if (!fields.status().ok()) return;
  if (!types.empty() && types.size() != static_cast<size_t>(config->num_layers)) {
    return fields.Fail(
        absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", config->num_layers));
  }
  std::string letters = types.empty() ? IntervalLetters(config->num_layers, interval) : "";
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "linear_attention") {
      return fields.Fail(absl::StrCat("layer_types[", letters.size(), "] is '", type.substr(0, 32),
                                      "'; known: full_attention, linear_attention"));
    }
    letters += type == "full_attention" ? '*' : 'M';
  }
  SetDeltaMixers(fields, letters, "layer_types, full_attention_interval", config);
}

}  // namespace dunlin::engine
