// SPDX-License-Identifier: Apache-2.0
// What the metadata and the tensors of single families amount to, and what is refused. Whole models:
// tests/integration/model/goldens_formats_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/model/gguf/gguf_files.h"

namespace dunlin::engine {
namespace {

std::string Flags(const std::vector<bool>& flags) {
  std::string bytes = LittleEndian(static_cast<uint64_t>(GgufType::kBool), 4) + LittleEndian(flags.size(), 8);
  for (const bool flag : flags) bytes += flag ? '\1' : '\0';
  return bytes;
}

GgufWriter WithLayers(const std::string& arch, uint32_t layers) {
  GgufWriter writer;
  writer.AddText("general.architecture", arch);
  writer.AddUnsigned(arch + ".block_count", layers).AddUnsigned(arch + ".embedding_length", 64);
  writer.AddUnsigned(arch + ".feed_forward_length", 96).AddUnsigned(arch + ".context_length", 128);
  writer.AddUnsigned(arch + ".attention.head_count", 4);
  AddTensorNamed("token_embd.weight", &writer);
  return writer;
}

// A file with 8 experts, of which a token takes 2.
GgufWriter Experts(const std::string& arch) {
  GgufWriter writer = BaseGguf(arch);
  writer.AddUnsigned(arch + ".expert_count", 8).AddUnsigned(arch + ".expert_used_count", 2);
  AddTensorNamed("blk.0.ffn_gate_inp.weight", &writer);
  return writer;
}

ModelConfig ConfigOf(const GgufWriter& writer) {
  const auto parsed = ParseGguf(writer);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->config : ModelConfig();
}

TEST(GgufFamilies, TakeTheirWindowsFromThePatternOrTheFamilysPeriod) {
  GgufWriter gemma = WithLayers("gemma3", 7);
  gemma.AddUnsigned("gemma3.attention.sliding_window", 16).AddFloat("gemma3.rope.freq_base", 1e6F);
  EXPECT_EQ(ConfigOf(gemma).layer_windows, (std::vector<int32_t>{16, 16, 16, 16, 16, 0, 16}));
  EXPECT_EQ(ConfigOf(gemma).layer_rotary, (std::vector<int8_t>{1, 1, 1, 1, 1, 0, 1}));
  GgufWriter period = gemma;
  period.AddUnsigned("gemma3.attention.sliding_window_pattern", 3);
  EXPECT_EQ(ConfigOf(period).layer_windows, (std::vector<int32_t>{16, 16, 0, 16, 16, 0, 16}));
  GgufWriter flags = gemma;
  flags.Add("gemma3.attention.sliding_window_pattern", GgufType::kArray,
            Flags({true, false, false, true, true, true, false}));
  EXPECT_EQ(ConfigOf(flags).layer_windows, (std::vector<int32_t>{16, 0, 0, 16, 16, 16, 0}));
  GgufWriter command = WithLayers("cohere2", 5);
  command.AddUnsigned("cohere2.attention.sliding_window", 16);
  EXPECT_EQ(ConfigOf(command).layer_windows, (std::vector<int32_t>{16, 16, 16, 0, 16}));
  EXPECT_EQ(ConfigOf(command).layer_rotary, (std::vector<int8_t>{0, 0, 0, -1, 0}));
  GgufWriter phi = BaseGguf("phi3");
  EXPECT_EQ(ConfigOf(phi.AddUnsigned("phi3.attention.sliding_window", 20)).layer_windows,
            (std::vector<int32_t>{20, 20}));
}

TEST(GgufFamilies, WithoutWindowsAreTheModelThatHasNone) {
  EXPECT_TRUE(ConfigOf(BaseGguf("gemma3")).layer_windows.empty());
  EXPECT_EQ(ConfigOf(BaseGguf("gemma3")).layer_rotary, (std::vector<int8_t>{0, 0}));
  EXPECT_EQ(ConfigOf(BaseGguf("olmo2")).architecture, "olmo2");
  GgufWriter olmo3 = BaseGguf("olmo2");
  EXPECT_EQ(ConfigOf(olmo3.AddUnsigned("olmo2.attention.sliding_window", 16)).architecture, "olmo3");
  EXPECT_TRUE(ConfigOf(BaseGguf("exaone4")).layer_rotary.empty());
  EXPECT_TRUE(ConfigOf(BaseGguf("phi3")).layer_windows.empty());
}

TEST(GgufFamilies, RefuseWindowsThatAreNone) {
  const auto with = [](const char* key, GgufType type, const std::string& value) {
    GgufWriter writer = WithLayers("gemma3", 4);
    if (std::string(key) != "sliding_window") writer.AddUnsigned("gemma3.attention.sliding_window", 16);
    return writer.Add(std::string("gemma3.attention.") + key, type, value);
  };
  ExpectGgufRefused(with("sliding_window", GgufType::kI32, LittleEndian(static_cast<uint32_t>(-5), 4)),
                    "gemma3.attention.sliding_window is -5; limit is [0, 16777216]");
  ExpectGgufRefused(with("sliding_window_pattern", GgufType::kArray, Flags({true, false, true})),
                    "gemma3.attention.sliding_window_pattern has 3 elements; block_count is 4");
  ExpectGgufRefused(with("sliding_window_pattern", GgufType::kArray, Flags(std::vector<bool>(5000))),
                    "gemma3.attention.sliding_window_pattern has 5000 elements; limit is 1024");
  ExpectGgufRefused(with("sliding_window_pattern", GgufType::kI32, LittleEndian(static_cast<uint32_t>(-1), 4)),
                    "gemma3.attention.sliding_window_pattern is -1; limit is [0, 1024]");
  ExpectGgufRefused(BaseGguf("cohere2"), "cohere2.attention.sliding_window is missing");
  ExpectGgufRefused(Experts("gpt-oss"), "gpt-oss.attention.sliding_window is missing");
}

TEST(GgufFamilies, TakeTheirExpertsFromTheMetadata) {
  const ModelConfig mixtral = ConfigOf(Experts("llama"));
  EXPECT_EQ(mixtral.architecture, "mixtral");
  EXPECT_EQ(mixtral.routing.num_experts, 8);
  EXPECT_EQ(mixtral.routing.num_chosen, 2);
  EXPECT_TRUE(mixtral.routing.normalized);
  EXPECT_EQ(mixtral.expert_ffn_dim, 96);
  const ModelConfig old_qwen = ConfigOf(Experts("qwen2moe"));  // files of the first converters have no widths
  EXPECT_EQ(old_qwen.expert_ffn_dim, 48);
  EXPECT_EQ(old_qwen.shared_ffn_dim, 96);
  EXPECT_FALSE(old_qwen.routing.normalized);
  GgufWriter qwen = Experts("qwen2moe");
  qwen.AddUnsigned("qwen2moe.expert_feed_forward_length", 24);
  qwen.AddUnsigned("qwen2moe.expert_shared_feed_forward_length", 40);
  EXPECT_EQ(ConfigOf(qwen).expert_ffn_dim, 24);
  EXPECT_EQ(ConfigOf(qwen).shared_ffn_dim, 40);
  EXPECT_TRUE(ConfigOf(Experts("qwen3moe")).routing.normalized);
}

TEST(GgufFamilies, RouteByGroupsAndLeaveOutLayersThatPredictFurtherTokens) {
  GgufWriter glm = Experts("glm4moe");
  glm.AddUnsigned("glm4moe.nextn_predict_layers", 1).AddUnsigned("glm4moe.leading_dense_block_count", 1);
  glm.AddUnsigned("glm4moe.expert_group_count", 4).AddUnsigned("glm4moe.expert_group_used_count", 2);
  glm.AddFloat("glm4moe.expert_weights_scale", 1.5F).AddBool("glm4moe.expert_weights_norm", true);
  glm.AddUnsigned("glm4moe.expert_gating_func", 2).AddUnsigned("glm4moe.expert_shared_count", 2);
  glm.AddUnsigned("glm4moe.rope.dimension_count", 8);
  const ModelConfig config = ConfigOf(glm);
  EXPECT_EQ(config.num_layers, 1);
  EXPECT_EQ(config.dense_layers, (std::vector<bool>{true}));
  EXPECT_EQ(config.routing.num_groups, 4);
  EXPECT_EQ(config.routing.num_chosen_groups, 2);
  EXPECT_EQ(config.routing.scale, 1.5F);
  EXPECT_TRUE(config.routing.normalized);
  EXPECT_EQ(config.shared_ffn_dim, 96);  // 2 of 48
  EXPECT_EQ(config.rotary_dim, 8);
  EXPECT_FALSE(config.qk_norm);
  GgufWriter softmax = Experts("glm4moe");
  ExpectGgufRefused(softmax.AddUnsigned("glm4moe.expert_gating_func", 1),
                    "glm4moe.expert_gating_func is 1; must be 2 (sigmoid)");
  GgufWriter none_left = Experts("glm4moe");
  ExpectGgufRefused(none_left.AddUnsigned("glm4moe.nextn_predict_layers", 2),
                    "glm4moe.nextn_predict_layers is 2; limit is [0, 1]");
}

TEST(GgufFamilies, RefuseExpertsThatAreNone) {
  const auto with = [](const char* key, uint32_t value) {
    GgufWriter writer = BaseGguf("llama");
    AddTensorNamed("blk.0.ffn_gate_inp.weight", &writer);
    if (std::string(key) != "expert_count") writer.AddUnsigned("llama.expert_count", 8);
    return writer.AddUnsigned(std::string("llama.") + key, value);
  };
  ExpectGgufRefused(with("expert_count", 1000000000), "llama.expert_count is 1000000000; limit is [0, 1024]");
  ExpectGgufRefused(with("expert_used_count", 9), "llama.expert_used_count is 9; limit is [1, 8]");
  ExpectGgufRefused(with("expert_used_count", 0), "llama.expert_used_count is 0; limit is [1, 8]");
  ExpectGgufRefused(with("vocab_size", 7), "llama.expert_used_count is missing");
  ExpectGgufRefused(BaseGguf("qwen3moe"), "qwen3moe.expert_count is missing");
  GgufWriter shared = Experts("granitemoe");
  ExpectGgufRefused(shared.AddUnsigned("granitemoe.expert_shared_feed_forward_length", 32),
                    "granitemoe.expert_shared_feed_forward_length is above 0: shared experts");
  GgufWriter wide = Experts("qwen3moe");
  ExpectGgufRefused(wide.AddUnsigned("qwen3moe.expert_feed_forward_length", 4000000000U),
                    "qwen3moe.expert_feed_forward_length is 4000000000; limit is [1, 1048576]");
}

TEST(GgufFamilies, TakeTheFactorsOfLongropeFromATensor) {
  GgufWriter writer = BaseGguf("phi3");
  writer.AddUnsigned("phi3.rope.dimension_count", 4).AddUnsigned("phi3.rope.scaling.original_context_length", 100);
  writer.AddFloat("phi3.rope.scaling.attn_factor", 1.25F);
  const std::vector<float> factors = {1.5F, 4.0F};
  const std::string data(reinterpret_cast<const char*>(factors.data()), sizeof(float) * 2);
  writer.AddTensor({.name = "rope_factors_short.weight", .dimensions = {2}, .data = data});
  const ModelConfig config = ConfigOf(writer);
  ASSERT_EQ(config.inv_freq.size(), 2U);
  EXPECT_FLOAT_EQ(config.inv_freq[0], 1.0F / 1.5F);
  EXPECT_FLOAT_EQ(config.inv_freq[1], 0.01F / 4.0F);
  EXPECT_EQ(config.rotary_attention_factor(0), 1.25F);
  EXPECT_EQ(config.max_context, 100);
}

TEST(GgufFamilies, ReadAFactorWithoutATypeAsLinearScaling) {
  GgufWriter writer = BaseGguf("llama");
  const ModelConfig config = ConfigOf(writer.AddFloat("llama.rope.scale_linear", 4.0F));
  EXPECT_FLOAT_EQ(config.inv_freq[0], 0.25F);
  EXPECT_EQ(config.max_context, 512);
  GgufWriter images = BaseGguf("glm4");
  ExpectGgufRefused(images.AddUnsigned("glm4.rope.dimension_sections", 8),
                    "glm4.rope.dimension_sections is set; rotations by image positions");
}

TEST(GgufFamilies, HaveTheBiasesAndNormsOfTheirTensors) {
  GgufWriter writer = BaseGguf("llama");
  AddTensorNamed("blk.0.attn_q.bias", &writer);
  AddTensorNamed("blk.0.ffn_up.bias", &writer);
  const ModelConfig config = ConfigOf(writer);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.out_bias);
  EXPECT_TRUE(config.mlp_bias);
  EXPECT_FALSE(ConfigOf(BaseGguf("qwen2")).qkv_bias);
  GgufWriter sequential = BaseGguf("stablelm");
  sequential.AddBool("stablelm.use_parallel_residual", true);
  EXPECT_TRUE(ConfigOf(sequential).parallel_residual);
  AddTensorNamed("blk.0.ffn_norm.weight", &sequential);
  EXPECT_FALSE(ConfigOf(sequential).parallel_residual);
  GgufWriter falcon = BaseGguf("falcon");
  EXPECT_TRUE(ConfigOf(falcon).shared_norm);
  AddTensorNamed("blk.0.attn_norm_2.weight", &falcon);
  EXPECT_FALSE(ConfigOf(falcon).shared_norm);
}

TEST(GgufFamilies, RefuseTensorsOfVariantsThatAreNotServed) {
  for (const char* arch : {"command-r", "stablelm"}) {
    GgufWriter writer = BaseGguf(arch);
    AddTensorNamed("blk.0.attn_q_norm.weight", &writer);
    ExpectGgufRefused(writer, "blk.0.attn_q_norm.weight is there: a norm for each head of Q and K is not supported");
  }
  GgufWriter falcon = BaseGguf("falcon");
  AddTensorNamed("blk.0.ffn_norm.weight", &falcon);
  ExpectGgufRefused(falcon, "blk.0.ffn_norm.weight is there: a residual of one term after the other");
  GgufWriter heads = BaseGguf("falcon");
  ExpectGgufRefused(heads.AddUnsigned("falcon.attention.key_length", 32),
                    "falcon.attention.key_length is 32; 4 heads of 64 make it 16");
  GgufWriter granite = BaseGguf("granite");
  ExpectGgufRefused(granite.AddBool("granite.rope.scaling.finetuned", false),
                    "granite.rope.scaling.finetuned is false: layers without positions");
}

TEST(GgufFamilies, ScaleAsGraniteAndGemmaDo) {
  GgufWriter granite = BaseGguf("granite");
  granite.AddFloat("granite.embedding_scale", 12.0F).AddFloat("granite.residual_scale", 0.22F);
  granite.AddFloat("granite.logit_scale", 8.0F);
  EXPECT_EQ(ConfigOf(granite).attention_scale, 0.25F);  // of heads of 16: the key is absent
  EXPECT_EQ(ConfigOf(granite).logit_scale, 0.125F);
  EXPECT_EQ(ConfigOf(granite).residual_scale, 0.22F);
  EXPECT_EQ(ConfigOf(granite.AddFloat("granite.attention.scale", 0.5F)).attention_scale, 0.5F);
  EXPECT_EQ(ConfigOf(BaseGguf("gemma3")).attention_scale, 0.25F);
  GgufWriter largest = WithLayers("gemma3", 62);
  largest.AddUnsigned("gemma3.attention.key_length", 32).AddUnsigned("gemma3.attention.value_length", 32);
  EXPECT_EQ(ConfigOf(largest).attention_scale, 0.25F);  // of 64 / 4, not of 32
  EXPECT_EQ(ConfigOf(BaseGguf("gemma3")).norm_weight_offset, 0.0F);
}

}  // namespace
}  // namespace dunlin::engine
