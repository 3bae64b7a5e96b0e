// SPDX-License-Identifier: Apache-2.0
// Step 3.5 and 3.7: heads, rotations and windows by the kind of a layer, stacks of experts, and limits of gates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kStepHidden = 6;
// As published: lists have an entry for the layer that predicts further tokens, too.
constexpr const char* kStep =
    R"({"model_type": "step3p5", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 3, "vocab_size": 9,
        "num_attention_heads": 2, "num_attention_groups": 1, "head_dim": 4, "max_position_embeddings": 256,
        "num_nextn_predict_layers": 1, "sliding_window": 20,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
        "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 3,
                                    "num_attention_groups": 1, "head_dim": 4, "true_head_dim": 4},
        "rope_theta": [50000.0, 10000.0, 50000.0, 10000.0], "partial_rotary_factors": [0.5, 1.0, 0.5, 1.0],
        "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "yarn_only_types": ["full_attention"],
        "moe_layers_enum": "1,2,3", "moe_num_experts": 3, "moe_top_k": 2, "moe_intermediate_size": 5, "share_expert_dim": 7,
        "moe_router_activation": "sigmoid", "moe_router_scaling_factor": 3.0, "norm_expert_weight": true, "sink": false,
        "swiglu_limits": [0.0, 7.0, null, 0.0], "swiglu_limits_shared": [0.0, 0.0, 16.0, 0.0]})";
constexpr const char* kStepWritten =
    R"({"model_type": "step3p5", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 3, "vocab_size": 9,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 256,
        "sliding_window": 20, "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "num_sliding_attention_heads": 3, "per_layer_config": {"1": {"num_attention_heads": 3}},
        "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0,
                                               "partial_rotary_factor": 0.5},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
        "mlp_layer_types": ["dense", "sparse", "sparse"], "n_routed_experts": 3, "num_experts_per_tok": 2,
        "moe_intermediate_size": 5, "share_expert_dim": 7, "moe_router_scaling_factor": 3.0,
        "swiglu_limits": [null, 7.0, null], "swiglu_limits_shared": [0.0, 0.0, 16.0]})";

void AddStepMlp(const std::string& stem, int64_t ffn, std::vector<TestTensor>* tensors) {
  tensors->insert(tensors->end(), {{stem + "gate_proj.weight", {ffn, kStepHidden}},
                                   {stem + "up_proj.weight", {ffn, kStepHidden}},
                                   {stem + "down_proj.weight", {kStepHidden, ffn}}});
}

std::vector<TestTensor> StepTensors() {
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {9, kStepHidden}},
                                     {"model.norm.weight", {kStepHidden}},
                                     {"lm_head.weight", {9, kStepHidden}}};
  for (int layer = 0; layer < 3; ++layer) {
    const std::string stem = absl::StrCat("model.layers.", layer, ".");
    const int64_t heads = layer == 1 ? 3 : 2;
    tensors.insert(tensors.end(), {{stem + "self_attn.q_proj.weight", {4 * heads, kStepHidden}},
                                   {stem + "self_attn.k_proj.weight", {4, kStepHidden}},
                                   {stem + "self_attn.v_proj.weight", {4, kStepHidden}},
                                   {stem + "self_attn.o_proj.weight", {kStepHidden, 4 * heads}},
                                   {stem + "self_attn.g_proj.weight", {heads, kStepHidden}},
                                   {stem + "self_attn.q_norm.weight", {4}},
                                   {stem + "self_attn.k_norm.weight", {4}},
                                   {stem + "input_layernorm.weight", {kStepHidden}},
                                   {stem + "post_attention_layernorm.weight", {kStepHidden}}});
    if (layer == 0) {
      AddStepMlp(stem + "mlp.", 10, &tensors);
      continue;
    }
    AddStepMlp(stem + "share_expert.", 7, &tensors);
    tensors.insert(tensors.end(), {{stem + "moe.gate.weight", {3, kStepHidden}},
                                   {stem + "moe.router_bias", {3}},
                                   {stem + "moe.gate_proj.weight", {3, 5, kStepHidden}},
                                   {stem + "moe.up_proj.weight", {3, 5, kStepHidden}},
                                   {stem + "moe.down_proj.weight", {3, kStepHidden, 5}}});
  }
  tensors.push_back({"model.layers.3.eh_proj.weight", {kStepHidden, 2 * kStepHidden}});
  return tensors;
}

class Step : public ModelLoading {};

TEST_F(Step, BothSpellingsAreOneModel) {
  for (const char* text : {kStep, kStepWritten}) {
    const ModelConfig config = ParsedConfig(text);
    EXPECT_EQ(config.attention.heads(0), (HeadShape{2, 1, 4}));
    EXPECT_EQ(config.attention.heads(1), (HeadShape{3, 1, 4}));
    EXPECT_EQ(config.attention.gate_features(1), 3);
    EXPECT_THAT(config.attention.layer_windows, ElementsAre(0, 20, 0));
    EXPECT_THAT(config.rotary.layer_index, ElementsAre(0, 1, 0));
    EXPECT_THAT(config.rotary.dims, ElementsAre(2, 4));
    EXPECT_EQ(config.rotary.dim, 4);
    EXPECT_THAT(config.rotary.inv_freq, ElementsAre(0.5F, 1.0F, 0.01F));
    EXPECT_EQ(config.max_context, 512);
    EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, false));
    EXPECT_EQ(config.experts.routing.num_experts, 3);
    EXPECT_EQ(config.experts.routing.num_chosen, 2);
    EXPECT_EQ(config.experts.routing.scale, 3.0F);
    EXPECT_EQ(config.experts.shared_ffn_dim, 7);
    EXPECT_THAT(config.experts.limits, ElementsAre(0.0F, 7.0F, 0.0F));
    EXPECT_THAT(config.mlp.limits, ElementsAre(0.0F, 0.0F, 16.0F));
    EXPECT_EQ(config.norm.weight_offset, 1.0F);
    EXPECT_EQ(config.attention.scale, 0.5F);
  }
}

TEST_F(Step, WhatIsNotGivenIsTransformersDefault) {
  const ModelConfig config = ParsedConfig(
      R"({"model_type": "step3p5", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 5, "vocab_size": 9,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4})");
  EXPECT_THAT(config.attention.layer_heads, IsEmpty());
  EXPECT_THAT(config.attention.layer_windows, IsEmpty());
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, true, true, false, false));
  EXPECT_EQ(config.experts.routing.num_experts, 288);
  EXPECT_THAT(config.mlp.limits, IsEmpty());
  EXPECT_THAT(config.rotary.dims, ElementsAre(4, 4));
  EXPECT_EQ(config.max_context, 128000);
}

TEST_F(Step, ExpertsAreStackedAndNormsHaveAnOffset) {
  const auto model = Load(kStep, StepTensors());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->warnings(), IsEmpty());
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[1];
  const std::string stem = "model.layers.1.";
  EXPECT_EQ(ElementOf(layer.experts.up[1].weight, 7, 4),
            ValueOf(stem + "moe.up_proj.weight", (5 + 2) * kStepHidden + 4));
  EXPECT_EQ(ElementOf(layer.experts.down[2].weight, 1, 3),
            ValueOf(stem + "moe.down_proj.weight", (2 * kStepHidden + 1) * 5 + 3));
  EXPECT_EQ(ElementOf(layer.shared_expert.up.weight, 8, 2),
            ValueOf(stem + "share_expert.up_proj.weight", kStepHidden + 2));
  EXPECT_EQ(ElementOf(layer.attention_gate.weight, 2, 5),
            ValueOf(stem + "self_attn.g_proj.weight", 2 * kStepHidden + 5));
  EXPECT_EQ(layer.query_norm.weight[3], 1.0F + ValueOf(stem + "self_attn.q_norm.weight", 3));
}

// As published in FP8: the blocks' scales are stacked beside the experts' matrices.
TEST_F(Step, StackedExpertsInFp8HaveStackedScales) {
  std::vector<TestTensor> tensors = StepTensors();
  std::vector<TestTensor> scales;
  for (TestTensor& tensor : tensors) {
    if (!tensor.name.ends_with("_proj.weight") || !tensor.name.starts_with("model.layers.1.moe.")) continue;
    tensor.dtype = "F8_E4M3";
    scales.push_back({tensor.name + "_scale_inv",
                      {3, (tensor.shape[1] + 3) / 4, 1},
                      "F32",
                      {0.5F, 0.25F, 2.0F, 4.0F, 8.0F, 0.125F}});
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  const std::string config =
      WithField(kStep, "quantization_config", R"({"quant_method": "fp8", "weight_block_size": [4, 128]})");
  const auto model = Load(config, tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  const LayerWeights& layer = (*model)->weights(Precision::kFp32).layers[1];
  const auto code = [](const char* name, int64_t index) {
    return kernels::E4M3ToFloat(kernels::FloatToE4M3(ValueOf(absl::StrCat("model.layers.1.moe.", name), index)));
  };
  EXPECT_EQ(ElementOf(layer.experts.up[1].weight, 5 + 2, 4), code("up_proj.weight", (5 + 2) * kStepHidden + 4) * 2.0F);
  EXPECT_EQ(ElementOf(layer.experts.up[1].weight, 5 + 4, 4), code("up_proj.weight", (5 + 4) * kStepHidden + 4) * 4.0F);
  EXPECT_EQ(ElementOf(layer.experts.down[2].weight, 5, 3),
            code("down_proj.weight", (2 * kStepHidden + 5) * 5 + 3) * 0.125F);

  for (TestTensor& tensor : tensors) {
    if (tensor.name == "model.layers.1.moe.up_proj.weight_scale_inv") tensor.shape = {2, 3, 1};
  }
  EXPECT_THAT(std::string(Load(config, tensors).status().message()),
              HasSubstr("moe.up_proj.weight_scale_inv' holds 2 matrices; config.json makes it 3"));
}

// Of both spellings: what lists have behind the model's layers, or lists of its own.
TEST_F(Step, TheLayerThatPredictsIsLikeOneOfItsKind) {
  const ModelConfig published = ParsedConfig(kStep);
  EXPECT_EQ(published.predictor.like_layer, 1);
  EXPECT_FALSE(published.predictor.dense);  // moe_layers_enum has it
  EXPECT_TRUE(published.predictor.own_head);
  EXPECT_TRUE(published.predictor.unnormed);
  const ModelConfig full = ParsedConfig(WithField(WithField(kStepWritten, "mtp_layer_types", R"(["full_attention"])"),
                                                  "mtp_mlp_layer_types", R"(["dense"])"));
  EXPECT_EQ(full.predictor.like_layer, 0);
  EXPECT_TRUE(full.predictor.dense);
  EXPECT_EQ(ParsedConfig(kStepWritten).predictor.like_layer, -1);
}

TEST_F(Step, TheTextPartOfAMultimodalModelIsServed) {
  const auto parsed = ParseModelConfig(
      absl::StrCat(R"({"model_type": "step3p7", "vision_config": {}, "text_config": )", kStep, "}"), "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->config.text_part);
  EXPECT_EQ(parsed->config.architecture, "step3p7");
}

const BadField kStepRefused[] = {
    {kStep, "attention_bias", "true", "attention_bias is true, which is not supported"},
    {kStep, "sink", "true", "sink is true, which is not supported"},
    {kStep, "use_head_wise_attn_gate", "false", "use_head_wise_attn_gate is false, which is not supported"},
    {kStep, "zero_centered", "false", "zero_centered is false, which is not supported"},
    {kStep, "use_rope_layers", "[1]", "use_rope_layers is not empty, which is not supported"},
    {kStep, "yarn_only_types", R"(["sliding_attention"])", "yarn_only_types is not full_attention alone"},
    {kStep, "moe_router_activation", R"("softmax")", "moe_router_activation is 'softmax'; known: sigmoid"},
    {kStep, "moe_layers_enum", R"("1,x")", "moe_layers_enum is not a list of layers"},
    {kStep, "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 3"},
    {kStep, "layer_types", R"(["full_attention", "chunked_attention", "full_attention"])",
     "layer_types[1] is 'chunked_attention'; known: full_attention, sliding_attention"},
    {kStep, "sliding_window", "null", "layer_types[1] is 'sliding_attention', but no sliding_window is in use"},
    {kStep, "attention_other_setting", R"({"num_attention_groups": 2})", "num_attention_groups is 2; must be 1"},
    {kStep, "rope_theta", "[5e4, 1e4, 4e4]", "rope_theta[2] is 40000; other layers of its kind have 50000"},
    {kStep, "partial_rotary_factors", "[0.25, 1.0, 0.25]", "which rotates 1 of 4 dimensions"},
    {kStep, "swiglu_limits", "[1.0, 2.0]", "swiglu_limits has 2 entries; num_hidden_layers is 3"},
    {kStep, "swiglu_limits", "[1.0, -2.0, 0.0]", "swiglu_limits is "},
    {kStepWritten, "mlp_layer_types", R"(["dense", "wide", "sparse"])",
     "mlp_layer_types[1] is 'wide'; known: dense, sparse"},
    {kStepWritten, "per_layer_config", R"({"0": {"num_attention_heads": 3}})", "per_layer_config.0 is not the number"},
    {kStepWritten, "per_layer_config", R"({"1": {"head_dim": 4}})", "per_layer_config.1 is not the number"},
    {kStepWritten, "num_key_value_heads", "2", "sliding layers have 3 heads, which 2 key-value heads do not divide"},
};

TEST_F(Step, WhatIsNotServedIsRefusedByName) {
  for (const BadField& bad : kStepRefused) ExpectRefused(bad);
}

}  // namespace
}  // namespace dunlin::engine
