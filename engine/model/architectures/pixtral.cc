// SPDX-License-Identifier: Apache-2.0
// The image encoder of Mistral 3 (Mistral Small 3.1 and 3.2, Ministral 3, Devstral 2, Magistral 1.2): Pixtral's, layers
// of the Llama kind without a causal mask, whose heads turn by a patch's row and column; then a projector that merges
// neighbouring patches. Source: transformers 5.24, models/pixtral, models/mistral3.
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/image_encoders.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxPatchSize = 64;  // pixels of a side
constexpr int64_t kMaxImageSize = 1 << 14;
constexpr int64_t kMaxMerge = 16;         // patches of a side
constexpr float kPixtralEpsilon = 1e-5F;  // of its norms, which no field gives

// Even frequencies turn by the row, odd ones by the column.
void SetImageRotary(JsonFields& vision, ModelConfig* config) {
  double theta = vision.NumberOr("rope_theta", 2.0, 1e12, 1e4);
  if (const nlohmann::json* rope = vision.Object("rope_parameters")) {
    JsonFields parameters(*rope, absl::StrCat(vision.where(), ": rope_parameters"));
    const std::string type = parameters.TextOr("rope_type", "axial");
    if (type != "axial" && type != "default") {
      parameters.Fail(absl::StrCat("rope_type is '", type.substr(0, 32), "'; known: axial, default"));
    }
    theta = parameters.NumberOr("rope_theta", 2.0, 1e12, theta);
    vision.Adopt(parameters.status());
  }
  const int32_t dim = config->attention.head_dim;
  if (vision.status().ok() && dim % 2 != 0) {
    vision.Fail(absl::StrCat("head_dim is ", dim, "; rotary positions need an even one"));
  }
  if (!vision.status().ok()) return;
  config->rotary.dim = dim;
  for (const int32_t first : {0, 1}) {
    for (int32_t i = first; i < dim / 2; i += 2) {
      config->rotary.inv_freq.push_back(static_cast<float>(std::pow(theta, -2.0 * i / dim)));
    }
  }
  config->image.num_row_frequencies = (dim / 2 + 1) / 2;
}

void SetPatches(JsonFields& vision, JsonFields& outer, ModelConfig* config) {
  vision.IntOr("num_channels", kImageChannels, kImageChannels, kImageChannels);
  const int64_t patch = vision.IntOr("patch_size", 1, kMaxPatchSize, 16);
  const int64_t image = vision.IntOr("image_size", 1, kMaxImageSize, 1024);
  const int64_t merge = outer.IntOr("spatial_merge_size", 1, kMaxMerge, 2);
  config->image.patch_size = static_cast<int32_t>(patch);
  config->image.merge = static_cast<int32_t>(merge);
  const int64_t side = (image + patch * merge - 1) / (patch * merge) * merge;  // sides are rounded up to merged patches
  config->max_context = static_cast<int32_t>(side * side);
  if (side * side <= kMaxContextTokens) return;
  vision.Fail(
      absl::StrCat("image_size is ", image, ", which makes ", side * side, " patches; limit is ", kMaxContextTokens));
}

void SetProjector(JsonFields& outer, const ModelConfig& text, ModelConfig* config) {
  outer.IntOr("vision_feature_layer", -1, -1, -1);  // rows of the last layer
  config->image.projector_dim = config->image.out_dim = text.hidden_dim;
  config->image.norm_epsilon = text.norm.epsilon;
  config->image.projector_bias = outer.BoolOr("multimodal_projector_bias", false);
  config->image.activation = ParseActivation(outer, "projector_hidden_act", "gelu");
}

void ParsePixtral(JsonFields& vision, JsonFields& outer, const ModelConfig& text, ModelConfig* config) {
  const std::string type = vision.TextOr("model_type", "pixtral");
  if (type != "pixtral") vision.Fail(absl::StrCat("model_type is '", type.substr(0, 64), "'; known: pixtral"));
  config->num_layers = static_cast<int32_t>(vision.IntOr("num_hidden_layers", 1, kMaxLayers, 24));
  config->hidden_dim = static_cast<int32_t>(vision.IntOr("hidden_size", 1, kMaxHiddenDim, 1024));
  config->mlp.ffn_dim = static_cast<int32_t>(vision.IntOr("intermediate_size", 1, kMaxFfnDim, 4096));
  config->mlp.gated = true;
  config->mlp.activation = ParseActivation(vision, "hidden_act", "gelu");
  const int64_t num_heads = vision.IntOr("num_attention_heads", 1, kMaxHeads, 16);
  SetHeads(vision, num_heads, num_heads, 0, config);
  const int64_t head_dim = vision.IntOr("head_dim", 1, kMaxHeadDim, config->attention.head_dim);
  if (vision.status().ok() && head_dim != config->attention.head_dim) {
    vision.Fail(absl::StrCat("head_dim is ", head_dim, "; must be hidden_size / num_attention_heads, ",
                             config->attention.head_dim));
  }
  config->attention.causal = false;
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = kPixtralEpsilon;
  config->embedding.norm = true;
  SetPatches(vision, outer, config);
  SetImageRotary(vision, config);
  SetProjector(outer, text, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kPixtralWeights[] = {
    {kPatchEmbedding, kAll, "vision_tower.patch_conv"},
    {kEmbeddingNorm, kAll, "vision_tower.ln_pre"},
    {kAttentionNorm, kAll, "vision_tower.transformer.layers.#.attention_norm"},
    {kQkv, kQuery, "vision_tower.transformer.layers.#.attention.q_proj"},
    {kQkv, kKey, "vision_tower.transformer.layers.#.attention.k_proj"},
    {kQkv, kValue, "vision_tower.transformer.layers.#.attention.v_proj"},
    {kAttentionOut, kAll, "vision_tower.transformer.layers.#.attention.o_proj"},
    {kMlpNorm, kAll, "vision_tower.transformer.layers.#.ffn_norm"},
    {kMlpUp, kGate, "vision_tower.transformer.layers.#.feed_forward.gate_proj"},
    {kMlpUp, kUp, "vision_tower.transformer.layers.#.feed_forward.up_proj"},
    {kMlpDown, kAll, "vision_tower.transformer.layers.#.feed_forward.down_proj"},
    {kProjectorNorm, kAll, "multi_modal_projector.norm"},
    {kProjectorMerge, kAll, "multi_modal_projector.patch_merger.merging_layer"},
    {kProjectorUp, kAll, "multi_modal_projector.linear_1"},
    {kProjectorDown, kAll, "multi_modal_projector.linear_2"},
};
constexpr const char* kPixtralOuterTypes[] = {"mistral3"};
constexpr const char* kPixtralPrefixes[] = {"model.", ""};  // as transformers 5 has them, and as published

}  // namespace

extern const ImageEncoderForm kPixtral = {.name = "pixtral",
                                          .outer_types = kPixtralOuterTypes,
                                          .parse_config = &ParsePixtral,
                                          .names = {kPixtralPrefixes, kPixtralWeights}};

}  // namespace dunlin::engine
