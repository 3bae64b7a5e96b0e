// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/mamba_fields.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxMambaRows = 1 << 20;  // of an input projection

struct LayerWord {
  const char* word;
  char letter;
};
constexpr LayerWord kLayerWords[] = {
    {"mamba", 'M'}, {"linear_attention", 'M'}, {"attention", '*'}, {"full_attention", '*'}, {"mlp", '-'}, {"moe", 'E'}};

}  // namespace

int64_t MambaHeadDim(JsonFields& fields, const MambaFields& names, const ModelConfig& config) {
  const int64_t heads = fields.IntOr(names.num_heads, 1, kMaxHeads, names.default_heads);
  int64_t width = fields.IntOr("mamba_expand", 1, 64, 2) * config.hidden_dim;
  if (names.width != nullptr && (fields.Has(names.width) || !fields.Mentions(names.width))) {
    width = fields.IntOr(names.width, 1, kMaxMambaRows, names.default_width);
  }
  const bool automatic = !fields.Has("mamba_d_head") || fields.IsText("mamba_d_head", "auto");
  const int64_t head_dim = automatic ? width / heads : fields.Int("mamba_d_head", 1, kMaxHeadDim);
  if (fields.status().ok() && (head_dim * heads != width || head_dim > kMaxHeadDim)) {
    fields.Fail(absl::StrCat("mamba_d_head is ", head_dim, " of ", heads, " heads; they must have ", width,
                             " elements (", names.width != nullptr ? names.width : "mamba_expand * hidden_size",
                             "), a head at most ", kMaxHeadDim));
  }
  return head_dim;
}

void ParseStepLimits(JsonFields& fields, MambaSpec* mamba) {
  const auto limits = fields.LimitsOr("time_step_limit", {0.0, std::numeric_limits<double>::infinity()});
  mamba->step_min = static_cast<float>(limits.lower);
  mamba->step_max = static_cast<float>(limits.upper);
}

void ParseMamba(JsonFields& fields, const MambaFields& names, int64_t head_dim, ModelConfig* config) {
  MambaSpec& mamba = config->mamba;
  kernels::SsmShape& shape = mamba.shape;
  shape.num_heads = static_cast<int32_t>(fields.IntOr(names.num_heads, 1, kMaxHeads, names.default_heads));
  shape.num_groups = static_cast<int32_t>(fields.IntOr(names.num_groups, 1, kMaxHeads, names.default_groups));
  shape.state_dim = static_cast<int32_t>(fields.IntOr(names.state_dim, 1, kMaxHeadDim, names.default_state_dim));
  shape.head_dim = static_cast<int32_t>(head_dim);
  mamba.conv_taps = static_cast<int32_t>(fields.IntOr(names.taps, 2, kernels::kConvTapsMax, 4));
  mamba.conv_bias = fields.BoolOr(names.conv_bias, true);
  mamba.bias = fields.BoolOr(names.bias, false);
  if (!fields.status().ok()) return;
  if (shape.num_heads % shape.num_groups != 0) {
    return fields.Fail(absl::StrCat(names.num_groups, " is ", shape.num_groups, ", which does not divide ",
                                    shape.num_heads, " heads"));
  }
  const int64_t rows = 2 * int64_t{shape.num_heads} * head_dim + 2 * int64_t{shape.num_groups} * shape.state_dim;
  if (rows > kMaxMambaRows) {
    fields.Fail(absl::StrCat("the Mamba2 heads take ", rows, " rows; limit is ", kMaxMambaRows));
  }
}

std::string ParseLayerLetters(JsonFields& fields, const char* known) {
  const char* name = fields.Has("layers_block_type") ? "layers_block_type" : "layer_types";
  const std::vector<std::string> types = fields.TextListOr(name, kMaxLayers);
  if (!fields.status().ok() || types.empty()) return "";
  const auto count = static_cast<int64_t>(types.size());
  const int64_t num_layers = fields.IntOr("num_hidden_layers", 1, kMaxLayers, count);
  if (count != num_layers) {
    fields.Fail(absl::StrCat(name, " has ", count, " entries; num_hidden_layers is ", num_layers));
    return "";
  }
  std::string letters;
  for (const std::string& type : types) {
    const auto* word = std::find_if(std::begin(kLayerWords), std::end(kLayerWords), [&](const LayerWord& row) {
      return type == row.word && std::strchr(known, row.letter) != nullptr;
    });
    if (word == std::end(kLayerWords)) {
      std::string words;
      for (const LayerWord& row : kLayerWords) {
        if (std::strchr(known, row.letter) != nullptr) absl::StrAppend(&words, words.empty() ? "" : ", ", row.word);
      }
      fields.Fail(absl::StrCat(name, "[", letters.size(), "] is '", type.substr(0, 32), "'; known: ", words));
      return "";
    }
    letters += word->letter;
  }
  return letters;
}

void SetMixers(JsonFields& fields, const std::string& letters, ModelConfig* config) {
  if (!fields.status().ok()) return;
  for (const char letter : letters) {
    config->mixers.push_back(letter == 'M'   ? MixerKind::kMamba
                             : letter == '*' ? MixerKind::kAttention
                                             : MixerKind::kNone);
  }
  if (config->num_kv_layers() == 0) fields.Fail("no layer has attention, of which a model needs one");
}

std::string GgufTensorOfSome(const GgufConfigWriter& config, const char* name) {
  for (int64_t layer = 0; layer < config.num_layers(); ++layer) {
    std::string tensor = absl::StrCat("blk.", layer, ".", name);
    if (config.HasTensor(tensor)) return tensor;
  }
  return "";
}

int64_t WriteGgufMamba(GgufConfigWriter* config, const MambaFields& names) {
  constexpr LayerWord kTensors[] = {{"ssm_in", 'M'}, {"attn_q", '*'}, {"ffn_gate_inp", 'E'}};
  const int64_t num_heads = config->Required("ssm.time_step_rank", 1, kMaxHeads);
  const int64_t features = config->Required("ssm.inner_size", 1, kMaxHeads * kMaxHeadDim);
  if (features % num_heads != 0) {
    config->fields().Fail(config->Key("ssm.inner_size"),
                          absl::StrCat("is ", features, ", which ", num_heads, " heads do not divide"));
  }
  (*config)[names.num_heads] = num_heads;
  (*config)[names.num_groups] = config->Required("ssm.group_count", 1, kMaxHeads);
  (*config)[names.state_dim] = config->Required("ssm.state_size", 1, kMaxHeadDim);
  (*config)[names.taps] = config->Required("ssm.conv_kernel", 2, kernels::kConvTapsMax);
  (*config)[names.conv_bias] = !GgufTensorOfSome(*config, "ssm_conv1d.bias").empty();
  (*config)[names.bias] = !GgufTensorOfSome(*config, "ssm_in.bias").empty();
  (*config)["attention_bias"] = !GgufTensorOfSome(*config, "attn_q.bias").empty();
  (*config)["layers_block_type"] = GgufConfigWriter::Json::array();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const auto* tensor = std::find_if(std::begin(kTensors), std::end(kTensors), [&](const LayerWord& row) {
      return config->HasTensor(absl::StrCat("blk.", layer, ".", row.word, ".weight"));
    });
    const char letter = tensor == std::end(kTensors) ? '-' : tensor->letter;
    const auto* word = std::find_if(std::begin(kLayerWords), std::end(kLayerWords),
                                    [&](const LayerWord& row) { return row.letter == letter; });
    (*config)["layers_block_type"].push_back(word->word);
  }
  return features / num_heads;
}

}  // namespace dunlin::engine
