// SPDX-License-Identifier: Apache-2.0
// What the metadata and the tensors of GGUF files of Gemma 4, MiMo V2, Step and Llama 4, whose layers differ, amount
// to, and what is refused. Whole models: tests/integration/model/goldens_formats_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/gguf/gguf_files.h"

namespace dunlin::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Gemma4File {
  std::vector<float> kv_heads = {2, 1, 2, 1, 2, 1};
  std::vector<float> widths = {96, 96, 96, 96, 192, 192};
  std::vector<float> factors = {1.0F, 1.0F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F};
  uint32_t shared_layers = 2;
  std::set<std::string> without = {};  // keys
};

// Six layers, sliding and full ones in turn: heads of 8 and 16.
GgufWriter Gemma4(const Gemma4File& file) {
  const std::string arch = "gemma4.";
  GgufWriter writer;
  writer.AddText("general.architecture", "gemma4");
  const auto add = [&](const std::string& key, uint32_t value) {
    if (!file.without.contains(key)) writer.AddUnsigned(arch + key, value);
  };
  add("block_count", 6);
  add("embedding_length", 64);
  add("context_length", 128);
  add("attention.head_count", 4);
  add("attention.key_length", 16);
  add("attention.value_length", 16);
  add("attention.key_length_swa", 8);
  add("attention.value_length_swa", 8);
  add("rope.dimension_count", 16);
  add("rope.dimension_count_swa", 8);
  add("attention.sliding_window", 20);
  add("attention.sliding_window_pattern", 2);
  add("attention.shared_kv_layers", file.shared_layers);
  add("embedding_length_per_layer_input", 4);
  writer.AddFloat(arch + "attention.layer_norm_rms_epsilon", 1e-6F).AddFloat(arch + "rope.freq_base", 1e6F);
  writer.AddFloat(arch + "rope.freq_base_swa", 1e4F).AddFloat(arch + "final_logit_softcapping", 30.0F);
  writer.AddFloats(arch + "attention.head_count_kv", file.kv_heads);
  writer.AddFloats(arch + "feed_forward_length", file.widths);
  AddTensorNamed("token_embd.weight", &writer);
  AddTensorNamed("per_layer_token_embd.weight", &writer);
  const std::string data(reinterpret_cast<const char*>(file.factors.data()), sizeof(float) * file.factors.size());
  writer.AddTensor({.name = "rope_freqs.weight", .dimensions = {file.factors.size()}, .data = data});
  return writer;
}

TEST(GgufGemma4, HasTheNumbersOfEachLayer) {
  const auto parsed = ParseGguf(Gemma4({}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_EQ(config.architecture, "gemma4_text");
  EXPECT_EQ(config.attention.heads(0), (HeadShape{4, 2, 8}));
  EXPECT_EQ(config.attention.heads(1), (HeadShape{4, 1, 16}));
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(20, 0, 20, 0, 20, 0));
  EXPECT_THAT(config.attention.kv_sources, ElementsAre(0, 1, 2, 3, 2, 3));
  EXPECT_TRUE(config.attention.has_keys_as_values(1)) << "without blk.1.attn_v";
  EXPECT_FALSE(config.attention.has_keys_as_values(0));
  EXPECT_THAT(config.mlp.layer_dims, ElementsAre(96, 96, 96, 96, 192, 192));
  EXPECT_EQ(config.layer_inputs.width, 4);
  EXPECT_EQ(config.head.softcap, 30.0F);
  EXPECT_EQ(config.norm.weight_offset, 0.0F);
  // The frequencies of full layers, of which a quarter rotate, then those of the sliding ones.
  ASSERT_EQ(config.rotary.inv_freq.size(), 12U);
  const std::vector<float> unrotated(config.rotary.inv_freq.begin() + 2, config.rotary.inv_freq.begin() + 8);
  EXPECT_THAT(unrotated, Each(0.0F));
  EXPECT_GT(config.rotary.inv_freq[1], 0.0F);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[9], 0.1F);
}

TEST(GgufGemma4, HasValuesOfTheirOwnWhereTheFileHas) {
  GgufWriter writer = Gemma4({.kv_heads = {2, 2, 2, 2, 2, 2}, .widths = {96, 96, 96, 96, 96, 96}, .shared_layers = 0});
  AddTensorNamed("blk.1.attn_v.weight", &writer);
  const auto parsed = ParseGguf(writer);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->config.attention.has_keys_as_values(1));
  EXPECT_TRUE(parsed->config.attention.kv_sources.empty());
  EXPECT_TRUE(parsed->config.mlp.layer_dims.empty());
}

TEST(GgufGemma4, HasExpertsNextToTheMlpInOneStackOrTwo) {
  for (const char* tensor : {"blk.0.ffn_gate_up_exps.weight", "blk.0.ffn_gate_exps.weight"}) {
    GgufWriter writer = Gemma4({});
    writer.AddUnsigned("gemma4.expert_count", 6).AddUnsigned("gemma4.expert_used_count", 2);
    ExpectGgufRefused(writer, "gemma4.expert_count is 6; this architecture has none");
    AddTensorNamed(tensor, &writer);
    ExpectGgufRefused(writer, "gemma4.expert_feed_forward_length is missing");
    const auto parsed = ParseGguf(writer.AddUnsigned("gemma4.expert_feed_forward_length", 24));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(parsed->config.experts.beside_mlp);
    EXPECT_EQ(parsed->config.experts.routing.num_experts, 6);
    EXPECT_EQ(parsed->config.experts.routing.num_chosen, 2);
    EXPECT_EQ(parsed->config.experts.ffn_dim, 24);
  }
}

TEST(GgufGemma4, RefusesWhatTheLayersCannotBe) {
  ExpectGgufRefused(Gemma4({.kv_heads = {2, 1, 2, 1, 2}}),
                    "gemma4.attention.head_count_kv has 5 elements; block_count is 6");
  ExpectGgufRefused(Gemma4({.kv_heads = {2, 1, 2, 1, 2, 2000}}),
                    "gemma4.attention.head_count_kv is 2000 in layer 5; limit is [1, 1024]");
  ExpectGgufRefused(Gemma4({.kv_heads = {2, 1, 4, 1, 2, 1}}), "layer 2 has other heads than layer 0, of the same type");
  ExpectGgufRefused(Gemma4({.widths = {96, 96, 96, 96, 96, 192}}),
                    "gemma4.feed_forward_length is 96 in layer 4; must be 192");
  ExpectGgufRefused(Gemma4({.widths = {96, 96, 192, 96, 96, 96}}),
                    "gemma4.feed_forward_length is 192 in layer 2; must be 96");
  ExpectGgufRefused(Gemma4({.factors = {1.0F, 1e30F}}), "tensor 'rope_freqs.weight' must be F32 of [8]");
  ExpectGgufRefused(Gemma4({.factors = {1.0F, 2.0F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F}}),
                    "rope_freqs.weight has other factors than 1 and, after those, 1e30");
  ExpectGgufRefused(Gemma4({.without = {"attention.key_length_swa"}}), "gemma4.attention.key_length_swa is missing");
  GgufWriter part = Gemma4({.without = {"rope.dimension_count_swa"}});
  ExpectGgufRefused(part.AddUnsigned("gemma4.rope.dimension_count_swa", 4),
                    "gemma4.rope.dimension_count_swa is 4; must be attention.key_length_swa, 8");
  GgufWriter scaled = Gemma4({});
  ExpectGgufRefused(scaled.AddFloat("gemma4.rope.scaling.factor", 4.0F),
                    "gemma4.rope.scaling.factor is set, which is not");
}

TEST(GgufGemma4, EndsATurnAndNeverDrawsWhatTheFileSays) {
  GgufWriter writer = Gemma4({});
  writer.AddTexts("tokenizer.ggml.tokens", {"<pad>", "<eos>", "<turn|>", "<|tool_response>", "a", "b", "c"});
  writer.AddFloats("tokenizer.ggml.token_type", {3, 3, 3, 4, 1, 1, 1});
  writer.AddText("tokenizer.chat_template", "{{ messages }}").AddUnsigned("tokenizer.ggml.eos_token_id", 1);
  writer.AddFloats("tokenizer.ggml.suppress_tokens", {5, 6});
  const TempDirectory temp;
  temp.Write("model.gguf", writer.Bytes());
  const auto files = OpenModelFiles(temp.File("model.gguf"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto generation = (*files)->ReadFile("generation_config.json", 1 << 20);
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, R"({"eos_token_id":[1,2,3],"suppress_tokens":[5,6]})");
}

GgufWriter WithUnlikeLayers(const std::string& arch) {
  GgufWriter writer;
  writer.AddText("general.architecture", arch);
  writer.AddUnsigned(arch + ".block_count", 4).AddUnsigned(arch + ".embedding_length", 64);
  writer.AddUnsigned(arch + ".feed_forward_length", 96).AddUnsigned(arch + ".context_length", 128);
  writer.AddUnsigned(arch + ".attention.head_count", 4).AddUnsigned(arch + ".expert_feed_forward_length", 32);
  AddTensorNamed("token_embd.weight", &writer);
  return writer;
}

// Of its four layers the last one predicts.
GgufWriter Mimo(const std::vector<float>& kv_heads, bool window = true) {
  GgufWriter writer = WithUnlikeLayers("mimo2");
  writer.AddUnsigned("mimo2.nextn_predict_layers", 1).AddUnsigned("mimo2.attention.sliding_window_pattern", 2);
  writer.AddFloats("mimo2.attention.head_count_kv", kv_heads);
  writer.AddUnsigned("mimo2.attention.key_length", 24).AddUnsigned("mimo2.attention.value_length", 16);
  if (window) writer.AddUnsigned("mimo2.attention.sliding_window", 16);
  writer.AddUnsigned("mimo2.rope.dimension_count", 8).AddFloat("mimo2.rope.freq_base_swa", 5e4F);
  writer.AddUnsigned("mimo2.expert_count", 4).AddUnsigned("mimo2.expert_used_count", 2);
  for (const char* name : {"blk.0.attn_sinks", "blk.1.ffn_gate_inp", "blk.2.ffn_gate_inp"}) {
    AddTensorNamed(std::string(name) + ".weight", &writer);
  }
  return writer;
}

TEST(GgufMimo, HasHeadsByTheKindOfALayer) {
  const auto parsed = ParseGguf(Mimo({2, 1, 2, 2}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_EQ(config.attention.heads(0), (HeadShape{4, 2, 24}));
  EXPECT_EQ(config.attention.heads(1), (HeadShape{4, 1, 24}));
  EXPECT_EQ(config.attention.stored_value_dim, 16);
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(17, 0, 17)) << "a token's own key counts";
  EXPECT_TRUE(config.attention.has_sinks(0));
  EXPECT_FALSE(config.attention.has_sinks(1));
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, false));
  EXPECT_EQ(config.rotary.dim, 8);
  EXPECT_EQ(config.factors.value, 0.707F) << "the published model's";
  ExpectGgufRefused(Mimo({2, 1, 1, 2}),
                    "mimo2.attention.head_count_kv is 1 in layer 2; other layers of its kind have 2");
  ExpectGgufRefused(Mimo({2, 1}), "mimo2.attention.head_count_kv has 2 elements; block_count is 4");
  ExpectGgufRefused(Mimo({2, 1, 2, 2}, false), "mimo2.attention.sliding_window is missing");
}

// Of its five layers the last one predicts.
GgufWriter Step(const std::vector<float>& heads) {
  GgufWriter writer;
  writer.AddText("general.architecture", "step35");
  writer.AddUnsigned("step35.block_count", 5).AddUnsigned("step35.embedding_length", 64);
  writer.AddUnsigned("step35.feed_forward_length", 96).AddUnsigned("step35.context_length", 128);
  writer.AddFloats("step35.attention.head_count", heads).AddUnsigned("step35.attention.head_count_kv", 2);
  writer.AddUnsigned("step35.attention.key_length", 16).AddUnsigned("step35.attention.value_length", 16);
  writer.AddUnsigned("step35.attention.sliding_window", 20).AddUnsigned("step35.nextn_predict_layers", 1);
  writer.AddUnsigned("step35.expert_count", 4).AddUnsigned("step35.expert_used_count", 2);
  writer.AddUnsigned("step35.expert_feed_forward_length", 32);
  writer.AddUnsigned("step35.expert_shared_feed_forward_length", 24);
  writer.AddFloats("step35.swiglu_clamp_exp", {0.0F, 0.0F, 7.0F, 0.0F, 0.0F});
  AddTensorNamed("token_embd.weight", &writer);
  for (const char* layer : {"blk.1", "blk.2", "blk.3"}) {
    AddTensorNamed(std::string(layer) + ".ffn_gate_inp.weight", &writer);
  }
  return writer;
}

TEST(GgufStep, HasHeadsAndRotationsByTheKindOfALayer) {
  const auto parsed = ParseGguf(Step({4, 6, 6, 6, 4}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.attention.heads(0), (HeadShape{4, 2, 16}));
  EXPECT_EQ(config.attention.heads(1), (HeadShape{6, 2, 16}));
  EXPECT_THAT(config.attention.layer_windows, ElementsAre(0, 20, 20, 20)) << "of four layers the first sees all";
  EXPECT_THAT(config.rotary.dims, ElementsAre(8, 16)) << "full layers rotate half of a head";
  EXPECT_EQ(config.norm.weight_offset, 0.0F) << "is in the stored weights";
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true, false, false, false));
  EXPECT_EQ(config.experts.shared_ffn_dim, 24);
  EXPECT_EQ(config.experts.routing.scale, 1.0F);
  EXPECT_FALSE(config.experts.routing.normalized);
  EXPECT_THAT(config.experts.limits, ElementsAre(0.0F, 0.0F, 7.0F, 0.0F));
  EXPECT_THAT(config.mlp.limits, IsEmpty());
}

TEST(GgufStep, RefusesWhatLayersOfAKindDoNotShare) {
  ExpectGgufRefused(Step({4, 6, 5, 6, 4}),
                    "step35.attention.head_count is 5 in layer 2; other layers of its kind have 6");
  ExpectGgufRefused(Step({4, 6}), "step35.attention.head_count has 2 elements; block_count is 5");
  ExpectGgufRefused(Step({4, 6, 6, 6, 4}).AddUnsigned("step35.rope.dimension_count", 8),
                    "step35.rope.dimension_count is 8 of 16; a part of a head is not supported here");
  ExpectGgufRefused(Step({4, 6, 6, 6, 4}).AddUnsigned("step35.expert_gating_func", 1),
                    "step35.expert_gating_func is 1; must be 2 (sigmoid)");
}

TEST(GgufLlama4, HasThePublishedModelsChunks) {
  const auto file = [](uint32_t experts) {
    GgufWriter writer = WithUnlikeLayers("llama4");
    writer.AddUnsigned("llama4.expert_count", experts).AddUnsigned("llama4.expert_used_count", 1);
    return writer.AddUnsigned("llama4.interleave_moe_layer_step", 2);
  };
  for (const uint32_t experts : {16U, 128U}) {
    const auto parsed = ParseGguf(file(experts));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->config.attention.qk_norm, experts == 16) << "Maverick has none";
    EXPECT_THAT(parsed->config.rotary.layer_index, ElementsAre(0, 0, 0, -1));
    EXPECT_THAT(parsed->config.experts.dense_layers, ElementsAre(true, false, true, false));
    EXPECT_EQ(parsed->config.experts.ffn_dim, 32);
    EXPECT_EQ(parsed->config.mlp.ffn_dim, 96);
    EXPECT_TRUE(parsed->separates_rotation);
  }
  ExpectGgufRefused(file(16).AddUnsigned("llama4.attention.sliding_window", 0),
                    "llama4.attention.sliding_window is set, which is not supported here");
}

}  // namespace
}  // namespace dunlin::engine
