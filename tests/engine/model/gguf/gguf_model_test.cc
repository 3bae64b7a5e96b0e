// SPDX-License-Identifier: Apache-2.0
// Metadata to config and texts, and what is refused. Whole models: tests/integration/model/goldens_formats_test.cc.
#include "engine/model/load/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/gguf/gguf_files.h"
#include "tests/engine/model/gguf/gguf_writer.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

TEST(GgufModel, TakesItsConfigFromTheMetadata) {
  GgufWriter writer = BaseGguf("llama");
  writer.AddUnsigned("llama.attention.head_count_kv", 2).AddUnsigned("llama.attention.key_length", 16);
  writer.AddFloat("llama.rope.freq_base", 50000.0F).AddUnsigned("tokenizer.ggml.eos_token_id", 3);
  writer.AddUnsigned("tokenizer.ggml.eot_token_id", 5);
  const auto parsed = ParseGguf(writer);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ModelConfig& config = parsed->config;
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.norm.epsilon, 1e-5F);
  EXPECT_EQ(config.attention.head_dim, 16);
  EXPECT_EQ(config.attention.num_kv_heads, 2);
  EXPECT_EQ(config.vocab_size, 7);
  EXPECT_TRUE(config.head.tied);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{3, 5}));
}

TEST(GgufModel, EndsAChatAtTheTokensThatEndATurn) {
  GgufWriter writer = BaseGguf("llama");
  writer.AddTexts("tokenizer.ggml.tokens", {"a", "<|end|>", "<|im_end|>", "b"});
  writer.AddFloats("tokenizer.ggml.token_type", {1, 1, 3, 1}).AddUnsigned("tokenizer.ggml.eos_token_id", 3);
  GgufWriter chat = writer;
  chat.AddText("tokenizer.chat_template", "{{ messages }}");
  EXPECT_EQ(ParseGguf(writer)->config.eos_token_ids, (std::vector<TokenId>{3}));
  EXPECT_EQ(ParseGguf(chat)->config.eos_token_ids, (std::vector<TokenId>{2, 3}));  // <|end|> is a normal token here
}

TEST(GgufModel, GoesOnBehindAMessageOfTheHarmonyFormat) {
  GgufWriter writer = BaseGguf("llama");
  writer.AddTexts("tokenizer.ggml.tokens", {"<|end|>", "<|return|>", "<|call|>", "<|endoftext|>"});
  writer.AddFloats("tokenizer.ggml.token_type", {3, 3, 3, 3}).AddText("tokenizer.chat_template", "{{ messages }}");
  EXPECT_EQ(ParseGguf(writer)->config.eos_token_ids, (std::vector<TokenId>{1, 2, 3}));
}

TEST(GgufModel, RefusesMetadataThatIsMissingOrUnsupported) {
  GgufWriter nameless;
  ExpectGgufRefused(
      nameless,
      "general.architecture is ''; known: gpt2, llama, gptneox, phi2, qwen2, qwen2vl, qwen3, qwen3vl, gemma, gemma2");
  ExpectGgufRefused(BaseGguf("mamba"), "general.architecture is 'mamba'; known: gpt2, llama");
  ExpectGgufRefused(GgufWriter().AddText("general.architecture", "llama"), "llama.block_count is missing");
  GgufWriter typed;
  ExpectGgufRefused(typed.AddUnsigned("general.architecture", 1), "general.architecture must be a string");
  ExpectGgufRefused(BaseGguf("llama").AddUnsigned("llama.expert_count", 8),
                    "llama.expert_count is 8; this architecture has none, or 'blk.0.ffn_gate_inp.weight' is missing");
  ExpectGgufRefused(BaseGguf("llama").AddUnsigned("llama.rope.dimension_count", 8),
                    "llama.rope.dimension_count is 8 of 16");
  ExpectGgufRefused(BaseGguf("llama").AddText("llama.rope.scaling.type", "longrope"),
                    "tensor 'rope_factors_short.weight' must be F32 of [8]");
  ExpectGgufRefused(BaseGguf("llama").AddText("llama.rope.scaling.type", "dynamic"),
                    "llama.rope.scaling.type is 'dynamic'; must be none, linear, yarn or longrope");
  ExpectGgufRefused(BaseGguf("llama").AddText("llama.attention.key_length", "16"),
                    "llama.attention.key_length must be an integer");
  ExpectGgufRefused(BaseGguf("qwen2").AddUnsigned("qwen2.attention.value_length", 8), "heads of different sizes");
  ExpectGgufRefused(BaseGguf("llama").AddFloat("llama.rope.freq_base", 1.0F / 0.0F),
                    "llama.rope.freq_base must be a finite");
  GgufWriter layers = BaseGguf("llama");
  const std::string values = LittleEndian(4, 4) + LittleEndian(2, 8) + LittleEndian(2, 4) + LittleEndian(4, 4);
  ExpectGgufRefused(layers.Add("llama.attention.head_count_kv", GgufType::kArray, values),
                    "llama.attention.head_count_kv has a value per layer, and they differ");
}

TEST(GgufModel, RefusesRotaryFactorsThatAreNoFactors) {
  const auto with = [](std::vector<float> factors) {
    GgufWriter writer = BaseGguf("llama");
    const std::string data(reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float));
    writer.AddTensor({.name = "rope_freqs.weight", .dimensions = {factors.size()}, .data = data});
    return writer;
  };
  EXPECT_TRUE(ParseGguf(with(std::vector<float>(8, 2.0F))).ok());
  ExpectGgufRefused(with(std::vector<float>(7, 2.0F)), "'rope_freqs.weight' must be F32 of [8]");
  ExpectGgufRefused(with(std::vector<float>(8, 0.0F)), "'rope_freqs.weight'[0] is 0; limit is [0.001, 1000000]");
}

absl::StatusOr<std::unique_ptr<TextFiles>> Texts(const GgufWriter& writer) {
  const TempDirectory temp;
  temp.Write("model.gguf", writer.Bytes());
  return OpenModelFiles(temp.File("model.gguf"));
}

TEST(GgufModel, StandsForTheTextsOfADirectory) {
  GgufWriter writer = BaseGguf("llama");
  writer.AddText("tokenizer.ggml.model", "llama").AddTexts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
  writer.AddFloats("tokenizer.ggml.scores", {0, 0, 0}).AddUnsigned("tokenizer.ggml.bos_token_id", 1);
  writer.AddText("tokenizer.chat_template", "{{ messages }}")
      .AddText("tokenizer.chat_template.tool_use", "{{ tools }}");
  const auto files = Texts(writer);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto config = nlohmann::json::parse((*files)->ReadFile("tokenizer_config.json", 1 << 20).value());
  EXPECT_EQ(config.at("bos_token"), "<s>");
  EXPECT_EQ(config.at("chat_template").size(), 2U);
  EXPECT_EQ(config.at("chat_template")[1].at("template"), "{{ tools }}");
  const auto vocabulary = nlohmann::json::parse((*files)->ReadFile("vocabulary.json", 1 << 20).value());
  EXPECT_EQ(vocabulary.at("tokens").size(), 3U);
  EXPECT_EQ(vocabulary.at("bos_token"), 1);
  EXPECT_FALSE((*files)->Has("generation_config.json"));
}

TEST(GgufModel, NamesThePoolingOfAnEncoder) {
  GgufWriter writer = BaseGguf("bert");
  const auto files = Texts(writer.AddUnsigned("bert.pooling_type", 2));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto folder = (*files)->OpenFolder("1_Pooling");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(*(*folder)->ReadFile("config.json", 100), HasSubstr("cls"));
  GgufWriter rank = BaseGguf("bert");
  EXPECT_THAT(std::string(Texts(rank.AddUnsigned("bert.pooling_type", 4)).status().message()),
              HasSubstr("bert.pooling_type is 4; limit is [0, 3]"));
}

TEST(GgufModel, RefusesATokenizerThatContradictsItself) {
  const auto refusal = [](const std::function<void(GgufWriter*)>& add) {
    GgufWriter writer = BaseGguf("llama");
    writer.AddText("tokenizer.ggml.model", "llama");
    add(&writer);
    const auto files = Texts(writer);
    EXPECT_FALSE(files.ok());
    return std::string(files.status().message());
  };
  EXPECT_THAT(refusal([](GgufWriter*) {}), HasSubstr("tokenizer.ggml.tokens is missing"));
  EXPECT_THAT(refusal([](GgufWriter* w) { w->AddText("tokenizer.ggml.tokens", "a"); }), HasSubstr("array of strings"));
  EXPECT_THAT(refusal([](GgufWriter* w) {
                w->AddTexts("tokenizer.ggml.tokens", {"a", "b"}).AddFloats("tokenizer.ggml.scores", {1});
              }),
              HasSubstr("tokenizer.ggml.scores has 1 elements; there are 2 tokens"));
  EXPECT_THAT(refusal([](GgufWriter* w) {
                w->AddTexts("tokenizer.ggml.tokens", {"a"}).AddUnsigned("tokenizer.ggml.bos_token_id", 1);
              }),
              HasSubstr("tokenizer.ggml.bos_token_id is 1; the vocabulary has 1 tokens"));
}

}  // namespace
}  // namespace dunlin::engine
