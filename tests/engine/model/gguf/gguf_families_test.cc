// SPDX-License-Identifier: Apache-2.0
// What the metadata and the tensors of single families amount to, and what is refused. Whole models:
// tests/integration/model/goldens_formats_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
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

ModelConfig ParsedGgufConfig(const GgufWriter& writer) {
  const auto parsed = ParseGguf(writer);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->config : ModelConfig();
}

TEST(GgufFamilies, TakeTheirWindowsFromThePatternOrTheFamilysPeriod) {
  GgufWriter gemma = WithLayers("gemma3", 7);
  gemma.AddUnsigned("gemma3.attention.sliding_window", 16).AddFloat("gemma3.rope.freq_base", 1e6F);
  EXPECT_EQ(ParsedGgufConfig(gemma).attention.layer_windows, (std::vector<int32_t>{16, 16, 16, 16, 16, 0, 16}));
  EXPECT_EQ(ParsedGgufConfig(gemma).rotary.layer_index, (std::vector<int8_t>{1, 1, 1, 1, 1, 0, 1}));
  GgufWriter period = gemma;
  period.AddUnsigned("gemma3.attention.sliding_window_pattern", 3);
  EXPECT_EQ(ParsedGgufConfig(period).attention.layer_windows, (std::vector<int32_t>{16, 16, 0, 16, 16, 0, 16}));
  GgufWriter flags = gemma;
  flags.Add("gemma3.attention.sliding_window_pattern", GgufType::kArray,
            Flags({true, false, false, true, true, true, false}));
  EXPECT_EQ(ParsedGgufConfig(flags).attention.layer_windows, (std::vector<int32_t>{16, 0, 0, 16, 16, 16, 0}));
  GgufWriter command = WithLayers("cohere2", 5);
  command.AddUnsigned("cohere2.attention.sliding_window", 16);
  EXPECT_EQ(ParsedGgufConfig(command).attention.layer_windows, (std::vector<int32_t>{16, 16, 16, 0, 16}));
  EXPECT_EQ(ParsedGgufConfig(command).rotary.layer_index, (std::vector<int8_t>{0, 0, 0, -1, 0}));
  GgufWriter phi = BaseGguf("phi3");
  EXPECT_EQ(ParsedGgufConfig(phi.AddUnsigned("phi3.attention.sliding_window", 20)).attention.layer_windows,
            (std::vector<int32_t>{20, 20}));
}

TEST(GgufFamilies, WithoutWindowsAreTheModelThatHasNone) {
  EXPECT_TRUE(ParsedGgufConfig(BaseGguf("gemma3")).attention.layer_windows.empty());
  EXPECT_EQ(ParsedGgufConfig(BaseGguf("gemma3")).rotary.layer_index, (std::vector<int8_t>{0, 0}));
  EXPECT_EQ(ParsedGgufConfig(BaseGguf("olmo2")).architecture, "olmo2");
  GgufWriter olmo3 = BaseGguf("olmo2");
  EXPECT_EQ(ParsedGgufConfig(olmo3.AddUnsigned("olmo2.attention.sliding_window", 16)).architecture, "olmo3");
  EXPECT_TRUE(ParsedGgufConfig(BaseGguf("exaone4")).rotary.layer_index.empty());
  EXPECT_TRUE(ParsedGgufConfig(BaseGguf("phi3")).attention.layer_windows.empty());
}

TEST(GgufFamilies, OfSigmoidRoutersRefuseOthers) {
  for (const std::string arch : {"minimax-m2", "dots1", "exaone-moe", "glm4moe"}) {
    GgufWriter writer = BaseGguf(arch.c_str());
    writer.AddUnsigned(arch + ".expert_count", 4).AddUnsigned(arch + ".expert_used_count", 2);
    writer.AddUnsigned(arch + ".expert_gating_func", 1);
    ExpectGgufRefused(writer, arch + ".expert_gating_func is 1; must be 2 (sigmoid)");
  }
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
  const ModelConfig mixtral = ParsedGgufConfig(Experts("llama"));
  EXPECT_EQ(mixtral.architecture, "mixtral");
  EXPECT_EQ(mixtral.experts.routing.num_experts, 8);
  EXPECT_EQ(mixtral.experts.routing.num_chosen, 2);
  EXPECT_TRUE(mixtral.experts.routing.normalized);
  EXPECT_EQ(mixtral.experts.ffn_dim, 96);
  const ModelConfig old_qwen = ParsedGgufConfig(Experts("qwen2moe"));  // files of the first converters have no widths
  EXPECT_EQ(old_qwen.experts.ffn_dim, 48);
  EXPECT_EQ(old_qwen.experts.shared_ffn_dim, 96);
  EXPECT_FALSE(old_qwen.experts.routing.normalized);
  GgufWriter qwen = Experts("qwen2moe");
  qwen.AddUnsigned("qwen2moe.expert_feed_forward_length", 24);
  qwen.AddUnsigned("qwen2moe.expert_shared_feed_forward_length", 40);
  EXPECT_EQ(ParsedGgufConfig(qwen).experts.ffn_dim, 24);
  EXPECT_EQ(ParsedGgufConfig(qwen).experts.shared_ffn_dim, 40);
  EXPECT_TRUE(ParsedGgufConfig(Experts("qwen3moe")).experts.routing.normalized);
}

TEST(GgufFamilies, RouteByGroupsAndLeaveOutLayersThatPredictFurtherTokens) {
  GgufWriter glm = Experts("glm4moe");
  glm.AddUnsigned("glm4moe.nextn_predict_layers", 1).AddUnsigned("glm4moe.leading_dense_block_count", 1);
  glm.AddUnsigned("glm4moe.expert_group_count", 4).AddUnsigned("glm4moe.expert_group_used_count", 2);
  glm.AddFloat("glm4moe.expert_weights_scale", 1.5F).AddBool("glm4moe.expert_weights_norm", true);
  glm.AddUnsigned("glm4moe.expert_gating_func", 2).AddUnsigned("glm4moe.expert_shared_count", 2);
  glm.AddUnsigned("glm4moe.rope.dimension_count", 8);
  const ModelConfig config = ParsedGgufConfig(glm);
  EXPECT_EQ(config.num_layers, 1);
  EXPECT_EQ(config.experts.dense_layers, (std::vector<bool>{true}));
  EXPECT_EQ(config.experts.routing.num_groups, 4);
  EXPECT_EQ(config.experts.routing.num_chosen_groups, 2);
  EXPECT_EQ(config.experts.routing.scale, 1.5F);
  EXPECT_TRUE(config.experts.routing.normalized);
  EXPECT_EQ(config.experts.shared_ffn_dim, 96);  // 2 of 48
  EXPECT_EQ(config.rotary.dim, 8);
  EXPECT_FALSE(config.attention.qk_norm);
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

GgufWriter WithShortConvs(const std::vector<float>& kv_heads) {
  GgufWriter writer = WithLayers("lfm2", 3);
  writer.AddUnsigned("lfm2.shortconv.l_cache", 4).AddFloat("lfm2.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.AddFloats("lfm2.attention.head_count_kv", kv_heads);
  AddTensorNamed("blk.0.shortconv.conv.weight", &writer);
  AddTensorNamed("blk.2.shortconv.conv.weight", &writer);
  return writer;
}

TEST(GgufFamilies, CountHeadsOfTheLayersThatAttend) {
  const ModelConfig config = ParsedGgufConfig(WithShortConvs({0, 2, 0}));
  EXPECT_EQ(config.mixers,
            (std::vector<MixerKind>{MixerKind::kShortConv, MixerKind::kAttention, MixerKind::kShortConv}));
  EXPECT_EQ(config.attention.num_kv_heads, 2);
  EXPECT_EQ(config.short_conv.taps, 4);
  EXPECT_EQ(config.mlp.ffn_dim, 96) << "as it is";
  ExpectGgufRefused(WithShortConvs({0, 2}), "lfm2.attention.head_count_kv has 2 elements; block_count is 3");
  ExpectGgufRefused(WithShortConvs({4, 2, 0}), "lfm2.attention.head_count_kv has layers of 2 and of 4, which is not");
  ExpectGgufRefused(WithShortConvs({0, 0, 0}), "num_key_value_heads is 0; limit is [1, 1024]");
}

// Of DeepSeek's architecture, one head of 8 + 4 dimensions and values of 6, as the converter writes it, or as it did
// before key and value matrices were apart. Keys of `without` are left out.
GgufWriter Deepseek(bool older, const std::set<std::string>& without = {}, uint32_t num_experts = 8) {
  const std::string arch = "deepseek2.";
  GgufWriter writer = WithLayers("deepseek2", 2);
  const auto add = [&](const std::string& key, uint32_t value) {
    if (!without.contains(key)) writer.AddUnsigned(arch + key, value);
  };
  writer.AddFloat(arch + "attention.layer_norm_rms_epsilon", 1e-6F);
  add("attention.kv_lora_rank", 20);
  add("attention.key_length", older ? 12 : 24);
  add("attention.value_length", older ? 6 : 20);
  if (!older) add("attention.key_length_mla", 12);
  if (!older) add("attention.value_length_mla", 6);
  add("rope.dimension_count", 4);
  add("leading_dense_block_count", 1);
  add("expert_count", num_experts);
  add("expert_used_count", 2);
  add("expert_shared_count", 2);
  add("expert_feed_forward_length", 24);
  if (older) AddTensorNamed("blk.0.attn_kv_b.weight", &writer);
  return writer;
}

TEST(GgufFamilies, HaveTheLatentHeadsOfBothConverters) {
  for (const bool older : {false, true}) {
    const ModelConfig config = ParsedGgufConfig(Deepseek(older));
    EXPECT_EQ(config.architecture, "deepseek_v2");
    EXPECT_EQ(config.attention.latent.kv_rank, 20);
    EXPECT_EQ(config.attention.latent.query_rank, 0);
    EXPECT_EQ(config.attention.latent.plain_dim, 8);
    EXPECT_EQ(config.attention.latent.rope_dim, 4);
    EXPECT_EQ(config.attention.latent.value_dim, 6);
    EXPECT_EQ(config.attention.num_heads, 4);
    EXPECT_EQ(config.attention.head_dim, 24);
    EXPECT_TRUE(config.rotary.interleaved) << "rows are as in a directory";
    EXPECT_FALSE(config.attention.qkv_bias);
    EXPECT_EQ(config.experts.shared_ffn_dim, 48);
    EXPECT_EQ(config.experts.dense_layers, (std::vector<bool>{true, false}));
  }
  GgufWriter ranked = Deepseek(false);
  ranked.AddUnsigned("deepseek2.attention.q_lora_rank", 10);
  AddTensorNamed("blk.0.attn_kv_a_mqa.bias", &ranked);
  EXPECT_EQ(ParsedGgufConfig(ranked).attention.latent.query_rank, 10);
  EXPECT_TRUE(ParsedGgufConfig(ranked).attention.qkv_bias);
}

TEST(GgufFamilies, RouteAsTheVersionOfDeepseekThatTheGatingTells) {
  EXPECT_EQ(ParsedGgufConfig(Deepseek(false)).experts.routing.scoring, kernels::ExpertScoring::kSoftmax);
  EXPECT_EQ(ParsedGgufConfig(Deepseek(false)).experts.routing.scale, 1.0F);
  EXPECT_EQ(ParsedGgufConfig(Deepseek(false)).experts.routing.num_groups, 1);
  GgufWriter limited = Deepseek(false);
  limited.AddUnsigned("deepseek2.expert_group_count", 4).AddUnsigned("deepseek2.expert_group_used_count", 2);
  EXPECT_EQ(ParsedGgufConfig(limited).experts.routing.num_groups, 4);
  EXPECT_EQ(ParsedGgufConfig(limited).experts.routing.num_chosen_groups, 2);
  EXPECT_EQ(ParsedGgufConfig(limited).experts.routing.group_scoring, kernels::GroupScoring::kLargest);
  limited.AddUnsigned("deepseek2.expert_gating_func", 2).AddBool("deepseek2.expert_weights_norm", true);
  limited.AddFloat("deepseek2.expert_weights_scale", 1.5F);
  const ModelConfig third = ParsedGgufConfig(limited);
  EXPECT_EQ(third.architecture, "deepseek_v3");
  EXPECT_EQ(third.experts.routing.scoring, kernels::ExpertScoring::kSigmoid);
  EXPECT_EQ(third.experts.routing.group_scoring, kernels::GroupScoring::kTwoLargest);
  EXPECT_TRUE(third.experts.routing.normalized && third.experts.router_correction);
  EXPECT_EQ(third.experts.routing.scale, 1.5F);
  // Files of older converters, of the published models.
  const ModelConfig v2 = ParsedGgufConfig(Deepseek(true, {}, 160));
  EXPECT_EQ(std::pair(v2.experts.routing.num_groups, v2.experts.routing.num_chosen_groups), std::pair(8, 3));
  GgufWriter older = Deepseek(true, {}, 256);
  const ModelConfig v3 = ParsedGgufConfig(older.AddUnsigned("deepseek2.expert_gating_func", 2));
  EXPECT_EQ(std::pair(v3.experts.routing.num_groups, v3.experts.routing.num_chosen_groups), std::pair(8, 4));
  EXPECT_FALSE(v3.experts.routing.normalized);
  GgufWriter all = Deepseek(false, {}, 256);
  EXPECT_EQ(ParsedGgufConfig(all.AddUnsigned("deepseek2.expert_group_count", 1)).experts.routing.num_groups, 1);
}

TEST(GgufFamilies, ScaleScoresUnderYarnByTheKeyOfTheMultiplier) {
  GgufWriter writer = Deepseek(false);
  writer.AddText("deepseek2.rope.scaling.type", "yarn").AddFloat("deepseek2.rope.scaling.factor", 40.0F);
  writer.AddUnsigned("deepseek2.rope.scaling.original_context_length", 64);
  EXPECT_FLOAT_EQ(ParsedGgufConfig(writer).attention.scale, 1.0F / std::sqrt(12.0F));
  writer.AddFloat("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F);
  const ModelConfig config = ParsedGgufConfig(writer);
  const double mscale = 0.1 * 0.707 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(config.attention.scale, static_cast<float>(mscale * mscale / std::sqrt(12.0)));
  EXPECT_FLOAT_EQ(config.rotary.attention_factor(0), 1.0F);
  EXPECT_EQ(config.max_context, 64 * 40);
}

TEST(GgufFamilies, NameTheKeysThatLatentHeadsNeed) {
  for (const char* key : {"attention.kv_lora_rank", "attention.key_length_mla", "attention.value_length_mla",
                          "rope.dimension_count", "leading_dense_block_count", "expert_shared_count"}) {
    ExpectGgufRefused(Deepseek(false, {key}), std::string("deepseek2.") + key + " is missing");
  }
  ExpectGgufRefused(Deepseek(true, {"attention.key_length"}), "deepseek2.attention.key_length is missing");
  const auto with = [](const std::string& key, uint32_t value) {
    GgufWriter writer = Deepseek(false, {key});
    return writer.AddUnsigned("deepseek2." + key, value);
  };
  ExpectGgufRefused(with("attention.key_length_mla", 4),
                    "deepseek2.attention.key_length_mla is 4; must be above rope.dimension_count 4");
  ExpectGgufRefused(with("attention.kv_lora_rank", 1000000000),
                    "deepseek2.attention.kv_lora_rank is 1000000000; limit is [1, 1024]");
  ExpectGgufRefused(with("attention.value_length_mla", 0), "deepseek2.attention.value_length_mla is 0; limit is [1, ");
  ExpectGgufRefused(with("expert_count", 0), "deepseek2.expert_count is 0; limit is [1, 1024]");
  ExpectGgufRefused(with("expert_shared_count", 0), "deepseek2.expert_shared_count is 0; limit is [1, ");
  ExpectGgufRefused(with("expert_gating_func", 3), "deepseek2.expert_gating_func is 3; must be 1 (softmax) or 2");
  GgufWriter norm = Deepseek(false);
  ExpectGgufRefused(norm.AddBool("deepseek2.expert_weights_norm", true),
                    "deepseek2.expert_weights_norm is true, which is not supported with softmax gating");
  GgufWriter correction = Deepseek(false);
  AddTensorNamed("blk.1.exp_probs_b.bias", &correction);
  ExpectGgufRefused(correction, "blk.1.exp_probs_b.bias is there: a correction of softmax scores");
  GgufWriter temperature = Deepseek(false);
  ExpectGgufRefused(temperature.AddFloat("deepseek2.attention.temperature_scale", 0.1F),
                    "deepseek2.attention.temperature_scale is not 0: scores scaled by position");
}

TEST(GgufFamilies, TakeTheFactorsOfLongropeFromATensor) {
  GgufWriter writer = BaseGguf("phi3");
  writer.AddUnsigned("phi3.rope.dimension_count", 4).AddUnsigned("phi3.rope.scaling.original_context_length", 100);
  writer.AddFloat("phi3.rope.scaling.attn_factor", 1.25F);
  const std::vector<float> factors = {1.5F, 4.0F};
  const std::string data(reinterpret_cast<const char*>(factors.data()), sizeof(float) * 2);
  writer.AddTensor({.name = "rope_factors_short.weight", .dimensions = {2}, .data = data});
  const ModelConfig config = ParsedGgufConfig(writer);
  ASSERT_EQ(config.rotary.inv_freq.size(), 2U);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[0], 1.0F / 1.5F);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[1], 0.01F / 4.0F);
  EXPECT_EQ(config.rotary.attention_factor(0), 1.25F);
  EXPECT_EQ(config.max_context, 100);
}

TEST(GgufFamilies, ReadAFactorWithoutATypeAsLinearScaling) {
  GgufWriter writer = BaseGguf("llama");
  const ModelConfig config = ParsedGgufConfig(writer.AddFloat("llama.rope.scale_linear", 4.0F));
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[0], 0.25F);
  EXPECT_EQ(config.max_context, 512);
  GgufWriter images = BaseGguf("glm4");
  ExpectGgufRefused(images.AddUnsigned("glm4.rope.dimension_sections", 8),
                    "glm4.rope.dimension_sections is set; rotations by image positions");
}

TEST(GgufFamilies, HaveTheBiasesAndNormsOfTheirTensors) {
  GgufWriter writer = BaseGguf("llama");
  AddTensorNamed("blk.0.attn_q.bias", &writer);
  AddTensorNamed("blk.0.ffn_up.bias", &writer);
  const ModelConfig config = ParsedGgufConfig(writer);
  EXPECT_TRUE(config.attention.qkv_bias);
  EXPECT_FALSE(config.attention.out_bias);
  EXPECT_TRUE(config.mlp.bias);
  EXPECT_FALSE(ParsedGgufConfig(BaseGguf("qwen2")).attention.qkv_bias);
  GgufWriter sequential = BaseGguf("stablelm");
  sequential.AddBool("stablelm.use_parallel_residual", true);
  EXPECT_TRUE(ParsedGgufConfig(sequential).parallel_residual);
  AddTensorNamed("blk.0.ffn_norm.weight", &sequential);
  EXPECT_FALSE(ParsedGgufConfig(sequential).parallel_residual);
  GgufWriter falcon = BaseGguf("falcon");
  EXPECT_TRUE(ParsedGgufConfig(falcon).norm.shared);
  AddTensorNamed("blk.0.attn_norm_2.weight", &falcon);
  EXPECT_FALSE(ParsedGgufConfig(falcon).norm.shared);
}

TEST(GgufFamilies, RefuseTensorsOfVariantsThatAreNotServed) {
  for (const char* arch : {"command-r", "stablelm"}) {
    GgufWriter writer = BaseGguf(arch);
    AddTensorNamed("blk.0.attn_q_norm.weight", &writer);
    ExpectGgufRefused(writer, "blk.0.attn_q_norm.weight is there: a norm for each head of Q and K is not supported");
  }
  GgufWriter falcon = BaseGguf("falcon");
  AddTensorNamed("blk.0.ffn_norm.weight", &falcon);
  ExpectGgufRefused(falcon, "blk.0.ffn_norm.weight is there: parallel_attn false with alibi true, as of Falcon RW");
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
  EXPECT_EQ(ParsedGgufConfig(granite).attention.scale, 0.25F);  // of heads of 16: the key is absent
  EXPECT_EQ(ParsedGgufConfig(granite).head.scale, 0.125F);
  EXPECT_EQ(ParsedGgufConfig(granite).residual_scale, 0.22F);
  EXPECT_EQ(ParsedGgufConfig(granite.AddFloat("granite.attention.scale", 0.5F)).attention.scale, 0.5F);
  EXPECT_EQ(ParsedGgufConfig(BaseGguf("gemma3")).attention.scale, 0.25F);
  GgufWriter largest = WithLayers("gemma3", 62);
  largest.AddUnsigned("gemma3.attention.key_length", 32).AddUnsigned("gemma3.attention.value_length", 32);
  EXPECT_EQ(ParsedGgufConfig(largest).attention.scale, 0.25F);  // of 64 / 4, not of 32
  EXPECT_EQ(ParsedGgufConfig(BaseGguf("gemma3")).norm.weight_offset, 0.0F);
}

}  // namespace
}  // namespace dunlin::engine
