// SPDX-License-Identifier: Apache-2.0
// The image encoder of Qwen 3.5 to 3.8: layers of the GPT-2 kind without a causal mask, whose heads turn by a patch's
// row and column, over patches with learned positions; then a projector that reads neighbouring patches as one row.
// Qwen 3 VL has the same with deepstack, rows of inner layers for the decoder's, which are not served.
// Source: transformers 5.24, models/qwen3_5, models/qwen3_vl.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/image_encoders.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxVisionPatchSize = 64;  // pixels of a side
constexpr int64_t kMaxVisionMerge = 16;      // patches of a side
constexpr int64_t kMaxFrames = 16;
constexpr int64_t kMaxPositions = 1 << 20;
constexpr float kVisionEpsilon = 1e-6F;  // of its norms, which no field gives
// No field gives the largest image either; released processors make at most 2^24 pixels of it, in patches of 16 x 16.
constexpr int32_t kMaxVisionPatches = 1 << 16;
constexpr const char* kDeepstack = "deepstack_visual_indexes";

constexpr const char* kVisionTypes[] = {"qwen3_5",  "qwen3_5_vision",  "qwen3_5_moe",  "qwen3_5_moe_vision",
                                        "qwen3_vl", "qwen3_vl_vision", "qwen3_vl_moe", "qwen3_vl_moe_vision"};

void CheckVisionType(JsonFields& vision) {
  const std::string type = vision.TextOr("model_type", kVisionTypes[0]);
  if (std::find(std::begin(kVisionTypes), std::end(kVisionTypes), type) != std::end(kVisionTypes)) return;
  vision.Fail(absl::StrCat("model_type is '", type.substr(0, 64), "'; known: ", absl::StrJoin(kVisionTypes, ", ")));
}

// Half of the frequencies by the row, then the same by the column.
void SetVisionRotary(JsonFields& vision, ModelConfig* config) {
  double theta = 1e4;
  if (const nlohmann::json* rope = vision.Object("rope_parameters")) {
    JsonFields parameters(*rope, absl::StrCat(vision.where(), ": rope_parameters"));
    const std::string type = parameters.TextOr("rope_type", "axial");
    if (type != "axial") parameters.Fail(absl::StrCat("rope_type is '", type.substr(0, 32), "'; known: axial"));
    theta = parameters.NumberOr("rope_theta", 2.0, 1e12, theta);
    vision.Adopt(parameters.status());
  }
  const int32_t dim = config->attention.head_dim;
  if (vision.status().ok() && dim % 4 != 0) {
    vision.Fail(absl::StrCat("hidden_size / num_heads is ", dim, "; positions by row and column need a multiple of 4"));
  }
  if (!vision.status().ok()) return;
  config->rotary.dim = dim;
  config->image.num_row_frequencies = dim / 4;
  for (int32_t i = 0; i < dim / 2; ++i) {
    config->rotary.inv_freq.push_back(static_cast<float>(std::pow(theta, -4.0 * (i % (dim / 4)) / dim)));
  }
}

void SetVisionPatches(JsonFields& vision, ModelConfig* config) {
  ImageSpec& image = config->image;
  vision.IntOr("in_channels", kImageChannels, kImageChannels, kImageChannels);
  image.patch_size = static_cast<int32_t>(vision.IntOr("patch_size", 1, kMaxVisionPatchSize, 16));
  image.num_frames = static_cast<int32_t>(vision.IntOr("temporal_patch_size", 1, kMaxFrames, 2));
  image.merge = static_cast<int32_t>(vision.IntOr("spatial_merge_size", 1, kMaxVisionMerge, 2));
  image.patch_bias = true;
  const int64_t positions = vision.IntOr("num_position_embeddings", 1, kMaxPositions, 2304);
  image.position_side = static_cast<int32_t>(std::lround(std::sqrt(static_cast<double>(positions))));
  config->max_context = kMaxVisionPatches;
  if (int64_t{image.position_side} * image.position_side == positions) return;
  vision.Fail(absl::StrCat("num_position_embeddings is ", positions, "; must be a square"));
}

void SetVisionProjector(JsonFields& vision, const ModelConfig& text, ModelConfig* config) {
  ImageSpec& image = config->image;
  const int64_t out = vision.IntOr("out_hidden_size", 1, kMaxHiddenDim, 3584);
  if (vision.status().ok() && out != text.hidden_dim) {
    vision.Fail(absl::StrCat("out_hidden_size is ", out, "; must be the text model's hidden_size, ", text.hidden_dim));
  }
  image.out_dim = text.hidden_dim;
  image.merge_matrix = false;
  image.projector_dim = image.patches_per_row() * config->hidden_dim;
  image.norm_epsilon = kVisionEpsilon;
  image.projector_bias = true;
  image.activation = kernels::ActivationKind::kGeluErf;
}

void ParseQwenVision(JsonFields& vision, JsonFields& /*outer*/, const ModelConfig& text, ModelConfig* config) {
  CheckVisionType(vision);
  config->num_layers = static_cast<int32_t>(vision.IntOr("depth", 1, kMaxLayers, 27));
  config->hidden_dim = static_cast<int32_t>(vision.IntOr("hidden_size", 1, kMaxHiddenDim, 1152));
  config->mlp.ffn_dim = static_cast<int32_t>(vision.IntOr("intermediate_size", 1, kMaxFfnDim, 4304));
  config->mlp.activation = ParseActivation(vision, "hidden_act", "gelu_pytorch_tanh");
  config->mlp.bias = true;
  const int64_t num_heads = vision.IntOr("num_heads", 1, kMaxHeads, 16);
  SetHeads(vision, num_heads, num_heads, 0, config);
  config->attention.causal = false;
  config->attention.qkv_bias = config->attention.out_bias = true;
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = kVisionEpsilon;
  config->norm.bias = true;
  SetVisionPatches(vision, config);
  SetVisionRotary(vision, config);
  SetVisionProjector(vision, text, config);
}

// transformers gives Qwen 3 VL layers of deepstack where the field is absent, the others none.
std::string WhyNotQwenVision(JsonFields& vision, JsonFields& outer) {
  const bool absent = !vision.Has(kDeepstack);
  const bool by_default = absent && outer.TextOr("model_type", "").starts_with("qwen3_vl");
  const auto layers = vision.IntListOr(kDeepstack, 0, kMaxLayers - 1, kMaxLayers);
  if (layers.empty() && !by_default) return "";
  return absl::StrCat(kDeepstack, by_default ? " is absent, which means three" : absl::StrCat(" has ", layers.size()),
                      " layers, whose rows the decoder's layers would add: this model is served without images");
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kQwenVisionWeights[] = {
    {kPatchEmbedding, kAll, "visual.patch_embed.proj"}, {kPatchPositions, kAll, "visual.pos_embed"},
    {kAttentionNorm, kAll, "visual.blocks.#.norm1"},    {kQkv, kAll, "visual.blocks.#.attn.qkv"},
    {kAttentionOut, kAll, "visual.blocks.#.attn.proj"}, {kMlpNorm, kAll, "visual.blocks.#.norm2"},
    {kMlpUp, kAll, "visual.blocks.#.mlp.linear_fc1"},   {kMlpDown, kAll, "visual.blocks.#.mlp.linear_fc2"},
    {kProjectorNorm, kAll, "visual.merger.norm"},       {kProjectorUp, kAll, "visual.merger.linear_fc1"},
    {kProjectorDown, kAll, "visual.merger.linear_fc2"},
};
constexpr const char* kQwenVisionOuterTypes[] = {"qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"};
constexpr const char* kQwenVisionPrefixes[] = {"model.", ""};

}  // namespace

extern const ImageEncoderForm kQwenVision = {.name = "qwen_vision",
                                             .outer_types = kQwenVisionOuterTypes,
                                             .parse_config = &ParseQwenVision,
                                             .why_not_served = &WhyNotQwenVision,
                                             .names = {kQwenVisionPrefixes, kQwenVisionWeights}};

}  // namespace dunlin::engine
