// SPDX-License-Identifier: Apache-2.0
// The config parser of each architecture, and completeness of the table's rows.
#include "engine/model/architectures/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "engine/model/load/model_directory.h"
#include "engine/model/spec/model_limits.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using kernels::ActivationKind;

TEST(Architectures, RowsAreCompleteAndModelTypesAreUnique) {
  using enum WeightSlot;
  std::set<std::string> model_types;
  for (const Architecture* row : Architectures()) {
    for (const char* type : row->model_types) EXPECT_TRUE(model_types.insert(type).second) << type;
    std::set<WeightSlot> slots;
    std::set<std::string> names;
    for (const WeightName& weight : row->names.weights) {
      slots.insert(weight.slot);
      // With the queries, with the keys; or the slot is of other layers.
      const bool is_shared = weight.part == FusedPart::kGateOfPairs || weight.part == FusedPart::kKeyAndValue ||
                             std::set{kMlpNorm, kSharedUp, kSharedDown, kDeltaIn, kDeltaOut}.contains(weight.slot);
      EXPECT_TRUE(names.insert(std::string(weight.name) + weight.weight).second || is_shared) << weight.name;
      EXPECT_EQ(std::string(weight.name).find('#') != std::string::npos, IsPerLayer(weight.slot)) << weight.name;
      EXPECT_EQ(std::string(weight.name).find('@') != std::string::npos,
                IsPerExpert(weight.slot) || IsPerHead(weight.slot))
          << weight.name;
    }
    EXPECT_EQ(slots.contains(kRouter), slots.contains(kExpertUp)) << row->name;
    EXPECT_EQ(slots.contains(kRouter), slots.contains(kExpertDown)) << row->name;
    for (const WeightSlot slot : {kEmbedding, kAttentionNorm, kAttentionOut, kMlpUp, kMlpDown}) {
      const bool is_mlp = slot == kMlpUp || slot == kMlpDown;
      EXPECT_TRUE(slots.contains(slot) || (is_mlp && slots.contains(kRouter)))
          << row->name << " " << static_cast<int>(slot);
    }
    EXPECT_NE(slots.contains(kQkv), slots.contains(kKvDown)) << row->name;
    const bool post_norm = !slots.contains(kHead) && slots.contains(kEmbeddingNorm);  // of an encoder
    EXPECT_TRUE(slots.contains(kFinalNorm) || post_norm) << row->name;
    EXPECT_FALSE(row->names.prefixes.empty());
  }
}

TEST(Gpt2, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(kGpt2Config);
  EXPECT_EQ(config.architecture, "gpt2");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_dim, 6);
  EXPECT_EQ(config.attention.num_kv_heads, 2);
  EXPECT_EQ(config.attention.head_dim, 3);
  EXPECT_EQ(config.mlp.ffn_dim, 10);
  EXPECT_EQ(config.max_context, 5);
  EXPECT_FLOAT_EQ(config.attention.scale, 0.57735027F);
  EXPECT_TRUE(config.head.tied && config.embedding.learned_positions && config.norm.bias && config.attention.qkv_bias);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kGeluTanh);
  EXPECT_EQ(config.rotary.dim, 0);
  EXPECT_EQ(ParsedConfig(WithField(kGpt2Config, "n_inner", "null")).mlp.ffn_dim, 24);
  EXPECT_EQ(ParsedConfig(WithField(kGpt2Config, "scale_attn_weights", "false")).attention.scale, 1.0F);
  EXPECT_TRUE(
      ParsedConfig(WithField(kGpt2Config, "scale_attn_by_inverse_layer_idx", "true")).attention.inverse_layer_scale);
  EXPECT_FALSE(ParsedConfig(WithField(kGpt2Config, "tie_word_embeddings", "false")).head.tied);
  ParsedConfig(WithField(kGpt2Config, "reorder_and_upcast_attn", "true"));
}

TEST(Gpt2, MapsEveryActivationName) {
  const struct {
    const char* word;
    ActivationKind kind;
  } cases[] = {{"gelu_new", ActivationKind::kGeluTanh},  {"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
               {"gelu_fast", ActivationKind::kGeluTanh}, {"gelu", ActivationKind::kGeluErf},
               {"relu", ActivationKind::kRelu},          {"relu2", ActivationKind::kReluSquared},
               {"silu", ActivationKind::kSilu},          {"swish", ActivationKind::kSilu}};
  for (const auto& c : cases) {
    const std::string word = "\"" + std::string(c.word) + "\"";
    EXPECT_EQ(ParsedConfig(WithField(kGpt2Config, "activation_function", word)).mlp.activation, c.kind) << c.word;
  }
}

TEST(NanoGpt, IsSelectedByBlockSizeOrModelType) {
  const ModelConfig config = ParsedConfig(kNanoGptConfig);
  EXPECT_EQ(config.architecture, "nanogpt");
  EXPECT_EQ(config.max_context, 5);
  EXPECT_EQ(config.mlp.ffn_dim, 24);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kGeluErf);
  EXPECT_FALSE(config.attention.qkv_bias || config.norm.bias || config.mlp.bias || config.attention.out_bias);
  EXPECT_TRUE(ParsedConfig(WithField(kNanoGptConfig, "bias", "")).attention.qkv_bias);
  EXPECT_EQ(ParsedConfig(WithField(kNanoGptConfig, "model_type", "\"nanogpt\"")).architecture, "nanogpt");
}

TEST(Llama, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(kLlamaConfig);
  EXPECT_EQ(config.attention.num_heads, 4);
  EXPECT_EQ(config.attention.num_kv_heads, 2);
  EXPECT_EQ(config.attention.head_dim, 4);
  EXPECT_EQ(config.attention.qkv_features(), 32);
  EXPECT_EQ(config.mlp.up_features(), 20);
  EXPECT_EQ(config.rotary.dim, 4);
  EXPECT_EQ(config.rotary.inv_freq.size(), 2U);
  EXPECT_TRUE(config.mlp.gated && config.attention.qkv_bias && config.attention.out_bias && config.mlp.bias);
  EXPECT_FALSE(config.norm.bias || config.head.tied || config.embedding.learned_positions);
  EXPECT_EQ(config.norm.kind, kernels::NormKind::kRmsNorm);
  EXPECT_FLOAT_EQ(config.norm.epsilon, 1e-6F);
  EXPECT_EQ(ParsedConfig(WithField(kLlamaConfig, "num_key_value_heads", "")).attention.num_kv_heads, 4);
  EXPECT_EQ(
      ParsedConfig(WithField(WithField(kLlamaConfig, "head_dim", "null"), "hidden_size", "24")).attention.head_dim, 6);
}

TEST(GptNeoX, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(kGptNeoXConfig);
  EXPECT_EQ(config.attention.num_kv_heads, 2);
  EXPECT_EQ(config.attention.head_dim, 12);
  EXPECT_EQ(config.rotary.dim, 6);
  EXPECT_TRUE(config.parallel_residual && config.norm.bias && config.attention.qkv_bias && config.attention.out_bias &&
              config.mlp.bias);
  EXPECT_FALSE(config.norm.shared || config.head.bias || config.head.tied || config.mlp.gated);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kGeluErf);
  EXPECT_FALSE(ParsedConfig(WithField(kGptNeoXConfig, "use_parallel_residual", "false")).parallel_residual);
  EXPECT_FALSE(ParsedConfig(WithField(kGptNeoXConfig, "attention_bias", "false")).attention.qkv_bias);
  EXPECT_NE(ParsedConfig(WithField(kGptNeoXConfig, "rotary_emb_base", "500")).rotary.inv_freq, config.rotary.inv_freq);
  // transformers 5 moves both fields into rope_parameters.
  const std::string moved = R"({"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5})";
  EXPECT_EQ(
      ParsedConfig(WithField(WithField(kGptNeoXConfig, "rotary_pct", ""), "rope_parameters", moved)).rotary.inv_freq,
      ParsedConfig(WithField(kGptNeoXConfig, "rotary_emb_base", "500")).rotary.inv_freq);
  const std::string even = WithField(WithField(kGptNeoXConfig, "hidden_size", "64"), "rotary_pct", "");
  EXPECT_EQ(ParsedConfig(even).rotary.dim, 8) << "a quarter by default";
}

TEST(Phi, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(kPhiConfig);
  EXPECT_EQ(config.rotary.dim, 6);
  EXPECT_TRUE(config.parallel_residual && config.norm.shared && config.head.bias && config.norm.bias);
  EXPECT_TRUE(config.attention.qkv_bias && config.attention.out_bias && config.mlp.bias);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kGeluTanh);
  EXPECT_EQ(ParsedConfig(WithField(kPhiConfig, "partial_rotary_factor", "1.0")).rotary.dim, 12);
  EXPECT_EQ(ParsedConfig(WithField(kPhiConfig, "num_key_value_heads", "1")).attention.num_kv_heads, 1);
}

TEST(Qwen, BiasesAndHeadNormsAreTheDifference) {
  const ModelConfig second = ParsedConfig(kQwen2Config);
  EXPECT_TRUE(second.attention.qkv_bias && !second.attention.out_bias && !second.mlp.bias && !second.attention.qk_norm);
  const ModelConfig third = ParsedConfig(WithField(kQwen2Config, "model_type", "\"qwen3\""));
  EXPECT_TRUE(third.attention.qk_norm && !third.attention.qkv_bias && !third.attention.out_bias);
  const std::string biased = WithField(WithField(kQwen2Config, "attention_bias", "true"), "model_type", "\"qwen3\"");
  EXPECT_TRUE(ParsedConfig(biased).attention.qkv_bias && ParsedConfig(biased).attention.out_bias);
  const std::string no_dim = WithField(WithField(kQwen2Config, "head_dim", ""), "model_type", "\"qwen3\"");
  EXPECT_EQ(ParsedConfig(no_dim).attention.head_dim, 128);
}

TEST(Gemma3, ReadsTheConfigsOfBothTransformers) {
  const std::string base =
      WithField(WithField(kGemma2Config, "model_type", "\"gemma3_text\""), "num_hidden_layers", "6");
  const std::string old =
      WithField(WithField(WithField(base, "rope_theta", "1000000"), "rope_local_base_freq", "10000"), "rope_scaling",
                R"({"rope_type": "linear", "factor": 8})");
  const ModelConfig config = ParsedConfig(old);
  EXPECT_EQ(config.rotary.count(), 2);
  EXPECT_THAT(config.rotary.layer_index, ::testing::ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(config.attention.layer_windows, ::testing::ElementsAre(20, 20, 20, 20, 20, 0));
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[1], 0.001F / 8);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[3], 0.01F) << "the local ones are not scaled";
  const ModelConfig present =
      ParsedConfig(WithField(base, "rope_parameters",
                             R"({"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1000000},
          "sliding_attention": {"rope_type": "default", "rope_theta": 10000}})"));
  EXPECT_EQ(present.rotary.inv_freq, config.rotary.inv_freq);
  EXPECT_EQ(ParsedConfig(base).rotary.inv_freq[1], 0.001F) << "transformers' defaults";
  const ModelConfig multimodal = ParsedConfig(R"({"model_type": "gemma3", "text_config": )" + old + "}");
  EXPECT_EQ(multimodal.rotary.inv_freq, config.rotary.inv_freq);
  EXPECT_TRUE(config.attention.qk_norm && config.norm.has_post() && config.attention.softcap == 0.0F);
}

TEST(Glm4MoeLite, ReadsItsConfig) {
  const std::string base =
      WithField(WithField(kQwen2Config, "model_type", "\"glm4_moe_lite\""), "num_key_value_heads", "4");
  const ModelConfig config = ParsedConfig(base);
  EXPECT_THAT(config.experts.dense_layers, ::testing::ElementsAre(true, false, false)) << "transformers' default";
  EXPECT_EQ(config.experts.routing.num_experts, 64);
  EXPECT_EQ(config.experts.routing.num_groups, 1);
  EXPECT_FLOAT_EQ(config.experts.routing.scale, 1.8F);
  EXPECT_TRUE(config.rotary.interleaved && config.attention.is_latent());
  EXPECT_FLOAT_EQ(config.norm.epsilon, 1e-5F);
  EXPECT_THAT(ParsedConfig(WithField(base, "first_k_dense_replace", "2")).experts.dense_layers,
              ::testing::ElementsAre(true, true, false));
  EXPECT_THAT(ParsedConfig(WithField(base, "mlp_layer_types", R"(["sparse", "dense", "sparse"])")).experts.dense_layers,
              ::testing::ElementsAre(false, true, false));
}

TEST(Kimi, K2IsDeepseekV3AndK25HasItAsItsText) {
  const std::string k2 = WithField(WithField(kQwen2Config, "model_type", "\"kimi_k2\""), "num_key_value_heads", "4");
  EXPECT_EQ(ParsedConfig(k2).architecture, "deepseek_v3");
  const ModelConfig k25 = ParsedConfig(R"({"model_type": "kimi_k25", "vision_config": {}, "text_config": )" + k2 + "}");
  EXPECT_EQ(k25.architecture, "kimi_k25");
  EXPECT_TRUE(k25.text_part && k25.attention.is_latent());
}

TEST(Ministral3, ReadsTheFactorOfItsQueries) {
  const std::string base = WithField(kQwen2Config, "model_type", "\"ministral3\"");
  const ModelConfig config =
      ParsedConfig(WithField(base, "rope_parameters", R"({"rope_type": "yarn", "rope_theta": 1000000,
      "factor": 2, "original_max_position_embeddings": 16, "mscale": 1, "mscale_all_dim": 1,
      "llama_4_scaling_beta": 0.1})"));
  EXPECT_FLOAT_EQ(config.attention.query_scale_beta, 0.1F);
  EXPECT_EQ(config.attention.query_scale_period, 16);
  EXPECT_EQ(config.max_context, 32);
  EXPECT_EQ(config.rotary.attention_factor(0), 1.0F);
  EXPECT_TRUE(config.attention.layer_windows.empty());
  EXPECT_EQ(ParsedConfig(WithField(base, "rope_parameters", "{}")).attention.query_scale_beta, 0.0F);
}

TEST(MinimaxM2, ReadsBothSpellingsOfItsRotation) {
  const std::string base = WithField(kQwen2Config, "model_type", "\"minimax_m2\"");
  EXPECT_EQ(ParsedConfig(base).rotary.dim, 4);
  const ModelConfig published = ParsedConfig(WithField(base, "rotary_dim", "2"));
  EXPECT_EQ(published.rotary.dim, 2);
  EXPECT_EQ(ParsedConfig(WithField(base, "rope_parameters", R"({"partial_rotary_factor": 0.5, "rope_theta": 5000000})"))
                .rotary.inv_freq,
            published.rotary.inv_freq);
  EXPECT_TRUE(published.attention.qk_norm_joint && published.experts.router_correction);
  EXPECT_TRUE(published.experts.routing.normalized && published.experts.dense_layers.empty());
}

TEST(SolarOpen, NeedsNoWidthOfADenseMlp) {
  const std::string base = WithField(kQwen2Config, "model_type", "\"solar_open\"");
  const ModelConfig config = ParsedConfig(WithField(base, "intermediate_size", ""));
  EXPECT_EQ(config.max_ffn_dim(), 1280);
  EXPECT_EQ(ParsedConfig(base).max_ffn_dim(), 1280);
}

TEST(RotaryPositions, ThatFollowTheLengthAreServedUpToTheOriginalContext) {
  const std::string longrope = R"({"type": "longrope", "short_factor": [1, 2], "long_factor": [4, 8]})";
  const std::string phi3 = WithField(WithField(kQwen2Config, "model_type", "\"phi3\""), "rope_scaling", longrope);
  const ModelConfig config = ParsedConfig(
      WithField(WithField(phi3, "max_position_embeddings", "64"), "original_max_position_embeddings", "16"));
  EXPECT_EQ(config.max_context, 16);
  EXPECT_FLOAT_EQ(config.rotary.inv_freq[1], 0.01F / 2);
  EXPECT_FLOAT_EQ(config.rotary.attention_factor(0), std::sqrt(1.0F + std::log(4.0F) / std::log(16.0F)));
  const ModelConfig dynamic =
      ParsedConfig(WithField(kLlamaConfig, "rope_scaling", R"({"type": "dynamic", "factor": 2})"));
  EXPECT_EQ(dynamic.max_context, 32);
  EXPECT_EQ(dynamic.rotary.inv_freq, ParsedConfig(kLlamaConfig).rotary.inv_freq);
}

TEST(RotaryPositions, ThatAreScaledServeTheLongerContext) {
  const auto context = [](const char* scaling) {
    return ParsedConfig(WithField(kLlamaConfig, "rope_scaling", scaling)).max_context;
  };
  EXPECT_EQ(context(R"({"type": "linear", "factor": 4})"), 128);
  EXPECT_EQ(context(R"({"type": "yarn", "factor": 4})"), 128);
  EXPECT_EQ(context(R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 16})"), 64);
  EXPECT_EQ(context(R"({"type": "yarn", "original_max_position_embeddings": 16})"), 32);  // the factor is their ratio
  EXPECT_EQ(context(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                        "original_max_position_embeddings": 16})"),
            32);
  EXPECT_EQ(context(R"({"type": "linear", "factor": 1e6})"), kMaxContextTokens);
}

TEST(LayersWithoutPositions, FollowTheConfig) {
  const auto family = [](const char* name) { return WithField(kQwen2Config, "model_type", name); };
  EXPECT_THAT(ParsedConfig(WithField(family("\"smollm3\""), "no_rope_layers", "[1, 0, 1]")).rotary.layer_index,
              ::testing::ElementsAre(0, -1, 0));
  const std::string cohere2 = WithField(WithField(family("\"cohere2\""), "sliding_window", "20"), "layer_types",
                                        R"(["sliding_attention", "full_attention", "sliding_attention"])");
  EXPECT_THAT(ParsedConfig(cohere2).rotary.layer_index, ::testing::ElementsAre(0, -1, 0));
  EXPECT_TRUE(ParsedConfig(cohere2).rotary.interleaved && ParsedConfig(cohere2).norm.shared);
  EXPECT_EQ(ParsedConfig(cohere2).head.scale, 0.0625F);
  const ModelConfig full = ParsedConfig(WithField(family("\"exaone4\""), "sliding_window", "null"));
  EXPECT_EQ(full.rotary.index(2), 0) << "where no layer slides, all have positions";
}

TEST(SlidingWindows, FollowTheConfig) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(ParsedConfig(kMistralConfig).attention.layer_windows, ElementsAre(20, 20, 20));
  EXPECT_THAT(ParsedConfig(WithField(kMistralConfig, "sliding_window", "null")).attention.layer_windows, IsEmpty());
  EXPECT_THAT(ParsedConfig(WithField(kMistralConfig, "sliding_window", "32")).attention.layer_windows, IsEmpty())
      << "the whole context";
  const std::string wide = WithField(kMistralConfig, "max_position_embeddings", "8192");
  EXPECT_THAT(ParsedConfig(WithField(wide, "sliding_window", "")).attention.layer_windows,
              ElementsAre(4096, 4096, 4096));
  EXPECT_THAT(ParsedConfig(kGemma2Config).attention.layer_windows, ElementsAre(20, 0, 20));

  const std::string qwen = WithField(kQwen2Config, "sliding_window", "20");
  EXPECT_THAT(ParsedConfig(qwen).attention.layer_windows, IsEmpty()) << "use_sliding_window is false by default";
  const std::string slides = WithField(qwen, "use_sliding_window", "true");
  EXPECT_THAT(ParsedConfig(slides).attention.layer_windows, IsEmpty()) << "max_window_layers is 28 by default";
  EXPECT_THAT(ParsedConfig(WithField(slides, "max_window_layers", "1")).attention.layer_windows,
              ElementsAre(0, 20, 20));
  const std::string types = R"(["sliding_attention", "full_attention", "sliding_attention"])";
  EXPECT_THAT(ParsedConfig(WithField(slides, "layer_types", types)).attention.layer_windows, ElementsAre(20, 0, 20));
  EXPECT_EQ(ParsedConfig(WithField(slides, "layer_types", types)).attention.window(1), 0);
  EXPECT_EQ(ParsedConfig(qwen).attention.window(2), 0);
}

TEST(Gemma2, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(kGemma2Config);
  EXPECT_TRUE(config.norm.placement == NormPlacement::kPreAndPost && config.mlp.gated && config.head.tied);
  EXPECT_EQ(config.norm.weight_offset, 1.0F);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kGeluTanh);
  EXPECT_FLOAT_EQ(config.embedding.scale, 2.4494898F);
  EXPECT_EQ(config.attention.scale, 0.25F);
  EXPECT_EQ(config.attention.softcap, 50.0F);
  EXPECT_EQ(config.head.softcap, 30.0F);
  const std::string uncapped = WithField(kGemma2Config, "attn_logit_softcapping", "null");
  EXPECT_EQ(ParsedConfig(WithField(uncapped, "final_logit_softcapping", "null")).attention.softcap, 0.0F);
  EXPECT_EQ(ParsedConfig(WithField(uncapped, "final_logit_softcapping", "null")).head.softcap, 0.0F);
  EXPECT_EQ(ParsedConfig(WithField(kGemma2Config, "head_dim", "")).attention.head_dim, 256);
}

TEST(Olmo, NormsAllHeadsTogetherAndScalesFullLayersAlone) {
  const auto family = [](const char* name) { return WithField(kQwen2Config, "model_type", name); };
  const ModelConfig second = ParsedConfig(family("\"olmo2\""));
  EXPECT_TRUE(second.attention.qk_norm && second.attention.qk_norm_joint &&
              second.norm.placement == NormPlacement::kPostInside);
  EXPECT_EQ(second.rotary.count(), 1);
  const std::string base = WithField(WithField(family("\"olmo3\""), "num_hidden_layers", "4"), "sliding_window", "20");
  const std::string old = WithField(WithField(base, "rope_theta", "500000"), "rope_scaling",
                                    R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8})");
  const ModelConfig third = ParsedConfig(old);
  EXPECT_THAT(third.rotary.layer_index, ::testing::ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(third.attention.layer_windows, ::testing::ElementsAre(20, 20, 20, 0));
  EXPECT_GT(third.rotary.attention_factor(0), 1.1F);
  EXPECT_EQ(third.rotary.attention_factor(1), 1.0F) << "sliding layers are not scaled";
  const ModelConfig present =
      ParsedConfig(WithField(base, "rope_parameters",
                             R"({"full_attention": {"rope_type": "yarn", "factor": 4, "rope_theta": 500000,
          "original_max_position_embeddings": 8}, "sliding_attention": {"rope_type": "default", "rope_theta": 500000}})"));
  EXPECT_EQ(present.rotary.inv_freq, third.rotary.inv_freq);
  EXPECT_EQ(present.rotary.attention_factors, third.rotary.attention_factors);
}

TEST(Nemotron, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(WithField(kQwen2Config, "model_type", "\"nemotron\""));
  EXPECT_TRUE(!config.mlp.gated && config.norm.weight_offset == 1.0F && config.norm.bias);
  EXPECT_EQ(config.rotary.dim, config.attention.head_dim / 2);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kReluSquared);
}

constexpr const char* kFalconConfig =
    R"({"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 6, "vocab_size": 7})";

TEST(Falcon, HasThreeForms) {
  const ModelConfig small = ParsedConfig(kFalconConfig);
  EXPECT_TRUE(small.attention.num_kv_heads == 1 && small.parallel_residual && small.norm.shared && small.head.tied);
  EXPECT_EQ(small.mlp.ffn_dim, 96);
  const std::string grouped =
      WithField(WithField(kFalconConfig, "new_decoder_architecture", "true"), "num_kv_heads", "3");
  const ModelConfig large = ParsedConfig(grouped);
  EXPECT_TRUE(large.attention.num_kv_heads == 3 && large.parallel_residual && !large.norm.shared);
  EXPECT_TRUE(ParsedConfig(WithField(grouped, "num_ln_in_parallel_attn", "1")).norm.shared);
  const ModelConfig sequential =
      ParsedConfig(WithField(WithField(kFalconConfig, "parallel_attn", "false"), "multi_query", "false"));
  EXPECT_TRUE(sequential.attention.num_kv_heads == 6 && !sequential.parallel_residual && !sequential.norm.shared);
  const auto refusal = [](const std::string& config) {
    return std::string(ParseModelConfig(config, "").status().message());
  };
  EXPECT_THAT(refusal(WithField(kFalconConfig, "num_ln_in_parallel_attn", "2")),
              ::testing::HasSubstr("num_ln_in_parallel_attn is 2 without new_decoder_architecture"));
  EXPECT_THAT(refusal(WithField(grouped, "parallel_attn", "false")),
              ::testing::HasSubstr("parallel_attn is false with new_decoder_architecture"));
}

TEST(Falcon, RoundsTheBiasOfAlibiToBf16BeforeItIsScaled) {
  const std::string alibi = WithField(kFalconConfig, "alibi", "true");
  const ModelConfig config = ParsedConfig(WithField(alibi, "max_position_embeddings", "600"));
  EXPECT_EQ(config.rotary.dim, 0);
  EXPECT_TRUE(config.attention.alibi_slopes.empty());
  ASSERT_EQ(config.attention.key_bias.size(), 6U * 600U);
  EXPECT_EQ(config.position_constants(), config.attention.key_bias);
  // Heads of 6 and slopes of 1/4, ..., 1/2, 1/8: position 515 is 516 in BF16, and 258 and 129 follow of it exactly.
  EXPECT_EQ(config.attention.key_bias[515], 129.0F * config.attention.scale);
  EXPECT_EQ(config.attention.key_bias[4 * 600 + 515], 258.0F * config.attention.scale);
  EXPECT_EQ(config.attention.key_bias[4 * 600], 0.0F);
  const std::string wide = WithField(alibi, "max_position_embeddings", "2796203");
  EXPECT_THAT(std::string(ParseModelConfig(wide, "").status().message()),
              ::testing::HasSubstr("max_position_embeddings is 2796203 with alibi and 6 heads; limit is 2796202"));
}

TEST(Bloom, HasTheSlopesOfAnyNumberOfHeads) {
  const auto slopes = [](const char* heads) {
    const std::string config =
        R"({"model_type": "bloom", "n_layer": 2, "hidden_size": 24, "vocab_size": 7, "n_head": )";
    return ParsedConfig(config + heads + "}").attention.alibi_slopes;
  };
  EXPECT_THAT(slopes("4"), ::testing::ElementsAre(0.25F, 0.0625F, 0.015625F, 0.00390625F));
  EXPECT_THAT(slopes("6"), ::testing::ElementsAre(0.25F, 0.0625F, 0.015625F, 0.00390625F, 0.5F, 0.125F));
  EXPECT_THAT(slopes("1"), ::testing::ElementsAre(0.00390625F));
}

}  // namespace
}  // namespace dunlin::engine
