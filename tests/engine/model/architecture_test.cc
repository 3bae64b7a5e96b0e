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

ModelConfig Parse(const std::string& config) {
  absl::StatusOr<ParsedModel> model = ParseModelConfig(config, "");
  EXPECT_TRUE(model.ok()) << model.status();
  return model->config;
}

TEST(Architectures, RowsAreCompleteAndModelTypesAreUnique) {
  std::set<std::string> model_types;
  for (const Architecture* row : Architectures()) {
    for (const char* type : row->model_types) EXPECT_TRUE(model_types.insert(type).second) << type;
    std::set<WeightSlot> slots;
    std::set<std::string> names;
    for (const WeightName& weight : row->names.weights) {
      slots.insert(weight.slot);
      EXPECT_TRUE(names.insert(weight.name).second) << weight.name;
      EXPECT_EQ(std::string(weight.name).find('#') != std::string::npos, IsPerLayer(weight.slot)) << weight.name;
    }
    for (const WeightName& weight : row->names.weights) {
      EXPECT_EQ(std::string(weight.name).find('@') != std::string::npos,
                IsPerExpert(weight.slot) || IsPerHead(weight.slot))
          << weight.name;
    }
    EXPECT_EQ(slots.contains(WeightSlot::kRouter), slots.contains(WeightSlot::kExpertUp)) << row->name;
    EXPECT_EQ(slots.contains(WeightSlot::kRouter), slots.contains(WeightSlot::kExpertDown)) << row->name;
    for (const WeightSlot slot : {WeightSlot::kEmbedding, WeightSlot::kAttentionNorm, WeightSlot::kAttentionOut,
                                  WeightSlot::kMlpUp, WeightSlot::kMlpDown}) {
      const bool is_mlp = slot == WeightSlot::kMlpUp || slot == WeightSlot::kMlpDown;
      EXPECT_TRUE(slots.contains(slot) || (is_mlp && slots.contains(WeightSlot::kRouter)))
          << row->name << " " << static_cast<int>(slot);
    }
    EXPECT_NE(slots.contains(WeightSlot::kQkv), slots.contains(WeightSlot::kKvDown)) << row->name;
    const bool encoder = !slots.contains(WeightSlot::kHead);
    const bool post_norm = encoder && slots.contains(WeightSlot::kEmbeddingNorm);
    EXPECT_TRUE(slots.contains(WeightSlot::kFinalNorm) || post_norm) << row->name;
    EXPECT_FALSE(row->names.prefixes.empty());
  }
}

TEST(Gpt2, ReadsItsConfig) {
  const ModelConfig config = Parse(kGpt2Config);
  EXPECT_EQ(config.architecture, "gpt2");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_dim, 6);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 3);
  EXPECT_EQ(config.ffn_dim, 10);
  EXPECT_EQ(config.max_context, 5);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.57735027F);
  EXPECT_TRUE(config.tied_embeddings && config.learned_positions && config.norm_bias && config.qkv_bias);
  EXPECT_EQ(config.activation, ActivationKind::kGeluTanh);
  EXPECT_EQ(config.rotary_dim, 0);
  EXPECT_EQ(Parse(WithField(kGpt2Config, "n_inner", "null")).ffn_dim, 24);
  EXPECT_EQ(Parse(WithField(kGpt2Config, "scale_attn_weights", "false")).attention_scale, 1.0F);
  EXPECT_TRUE(Parse(WithField(kGpt2Config, "scale_attn_by_inverse_layer_idx", "true")).inverse_layer_query_scale);
  EXPECT_FALSE(Parse(WithField(kGpt2Config, "tie_word_embeddings", "false")).tied_embeddings);
  Parse(WithField(kGpt2Config, "reorder_and_upcast_attn", "true"));
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
    EXPECT_EQ(Parse(WithField(kGpt2Config, "activation_function", word)).activation, c.kind) << c.word;
  }
}

TEST(NanoGpt, IsSelectedByBlockSizeOrModelType) {
  const ModelConfig config = Parse(kNanoGptConfig);
  EXPECT_EQ(config.architecture, "nanogpt");
  EXPECT_EQ(config.max_context, 5);
  EXPECT_EQ(config.ffn_dim, 24);
  EXPECT_EQ(config.activation, ActivationKind::kGeluErf);
  EXPECT_FALSE(config.qkv_bias || config.norm_bias || config.mlp_bias || config.out_bias);
  EXPECT_TRUE(Parse(WithField(kNanoGptConfig, "bias", "")).qkv_bias);
  EXPECT_EQ(Parse(WithField(kNanoGptConfig, "model_type", "\"nanogpt\"")).architecture, "nanogpt");
}

TEST(Llama, ReadsItsConfig) {
  const ModelConfig config = Parse(kLlamaConfig);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.qkv_features(), 32);
  EXPECT_EQ(config.up_features(), 20);
  EXPECT_EQ(config.rotary_dim, 4);
  EXPECT_EQ(config.inv_freq.size(), 2U);
  EXPECT_TRUE(config.gated_mlp && config.qkv_bias && config.out_bias && config.mlp_bias);
  EXPECT_FALSE(config.norm_bias || config.tied_embeddings || config.learned_positions);
  EXPECT_EQ(config.norm_kind, kernels::NormKind::kRmsNorm);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-6F);
  EXPECT_EQ(Parse(WithField(kLlamaConfig, "num_key_value_heads", "")).num_kv_heads, 4);
  EXPECT_EQ(Parse(WithField(WithField(kLlamaConfig, "head_dim", "null"), "hidden_size", "24")).head_dim, 6);
}

TEST(GptNeoX, ReadsItsConfig) {
  const ModelConfig config = Parse(kGptNeoXConfig);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 12);
  EXPECT_EQ(config.rotary_dim, 6);
  EXPECT_TRUE(config.parallel_residual && config.norm_bias && config.qkv_bias && config.out_bias && config.mlp_bias);
  EXPECT_FALSE(config.shared_norm || config.head_bias || config.tied_embeddings || config.gated_mlp);
  EXPECT_EQ(config.activation, ActivationKind::kGeluErf);
  EXPECT_FALSE(Parse(WithField(kGptNeoXConfig, "use_parallel_residual", "false")).parallel_residual);
  EXPECT_FALSE(Parse(WithField(kGptNeoXConfig, "attention_bias", "false")).qkv_bias);
  EXPECT_NE(Parse(WithField(kGptNeoXConfig, "rotary_emb_base", "500")).inv_freq, config.inv_freq);
  // transformers 5 moves both fields into rope_parameters.
  const std::string moved = R"({"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5})";
  EXPECT_EQ(Parse(WithField(WithField(kGptNeoXConfig, "rotary_pct", ""), "rope_parameters", moved)).inv_freq,
            Parse(WithField(kGptNeoXConfig, "rotary_emb_base", "500")).inv_freq);
  const std::string even = WithField(WithField(kGptNeoXConfig, "hidden_size", "64"), "rotary_pct", "");
  EXPECT_EQ(Parse(even).rotary_dim, 8) << "a quarter by default";
}

TEST(Phi, ReadsItsConfig) {
  const ModelConfig config = Parse(kPhiConfig);
  EXPECT_EQ(config.rotary_dim, 6);
  EXPECT_TRUE(config.parallel_residual && config.shared_norm && config.head_bias && config.norm_bias);
  EXPECT_TRUE(config.qkv_bias && config.out_bias && config.mlp_bias);
  EXPECT_EQ(config.activation, ActivationKind::kGeluTanh);
  EXPECT_EQ(Parse(WithField(kPhiConfig, "partial_rotary_factor", "1.0")).rotary_dim, 12);
  EXPECT_EQ(Parse(WithField(kPhiConfig, "num_key_value_heads", "1")).num_kv_heads, 1);
}

TEST(Qwen, BiasesAndHeadNormsAreTheDifference) {
  const ModelConfig second = Parse(kQwen2Config);
  EXPECT_TRUE(second.qkv_bias && !second.out_bias && !second.mlp_bias && !second.qk_norm);
  const ModelConfig third = Parse(WithField(kQwen2Config, "model_type", "\"qwen3\""));
  EXPECT_TRUE(third.qk_norm && !third.qkv_bias && !third.out_bias);
  const std::string biased = WithField(WithField(kQwen2Config, "attention_bias", "true"), "model_type", "\"qwen3\"");
  EXPECT_TRUE(Parse(biased).qkv_bias && Parse(biased).out_bias);
  EXPECT_EQ(Parse(WithField(WithField(kQwen2Config, "head_dim", ""), "model_type", "\"qwen3\"")).head_dim, 128);
}

TEST(Gemma3, ReadsTheConfigsOfBothTransformers) {
  const std::string base =
      WithField(WithField(kGemma2Config, "model_type", "\"gemma3_text\""), "num_hidden_layers", "6");
  const std::string old =
      WithField(WithField(WithField(base, "rope_theta", "1000000"), "rope_local_base_freq", "10000"), "rope_scaling",
                R"({"rope_type": "linear", "factor": 8})");
  const ModelConfig config = Parse(old);
  EXPECT_EQ(config.num_rotaries(), 2);
  EXPECT_THAT(config.layer_rotary, ::testing::ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(config.layer_windows, ::testing::ElementsAre(20, 20, 20, 20, 20, 0));
  EXPECT_FLOAT_EQ(config.inv_freq[1], 0.001F / 8);
  EXPECT_FLOAT_EQ(config.inv_freq[3], 0.01F) << "the local ones are not scaled";
  const ModelConfig present =
      Parse(WithField(base, "rope_parameters",
                      R"({"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1000000},
          "sliding_attention": {"rope_type": "default", "rope_theta": 10000}})"));
  EXPECT_EQ(present.inv_freq, config.inv_freq);
  EXPECT_EQ(Parse(base).inv_freq[1], 0.001F) << "transformers' defaults";
  const ModelConfig multimodal = Parse(R"({"model_type": "gemma3", "text_config": )" + old + "}");
  EXPECT_EQ(multimodal.inv_freq, config.inv_freq);
  EXPECT_TRUE(config.qk_norm && config.has_post_norms() && config.attention_softcap == 0.0F);
}

TEST(RotaryPositions, ThatFollowTheLengthAreServedUpToTheOriginalContext) {
  const std::string longrope = R"({"type": "longrope", "short_factor": [1, 2], "long_factor": [4, 8]})";
  const std::string phi3 = WithField(WithField(kQwen2Config, "model_type", "\"phi3\""), "rope_scaling", longrope);
  const ModelConfig config =
      Parse(WithField(WithField(phi3, "max_position_embeddings", "64"), "original_max_position_embeddings", "16"));
  EXPECT_EQ(config.max_context, 16);
  EXPECT_FLOAT_EQ(config.inv_freq[1], 0.01F / 2);
  EXPECT_FLOAT_EQ(config.rotary_attention_factor(0), std::sqrt(1.0F + std::log(4.0F) / std::log(16.0F)));
  const ModelConfig dynamic = Parse(WithField(kLlamaConfig, "rope_scaling", R"({"type": "dynamic", "factor": 2})"));
  EXPECT_EQ(dynamic.max_context, 32);
  EXPECT_EQ(dynamic.inv_freq, Parse(kLlamaConfig).inv_freq);
}

TEST(RotaryPositions, ThatAreScaledServeTheLongerContext) {
  const auto context = [](const char* scaling) {
    return Parse(WithField(kLlamaConfig, "rope_scaling", scaling)).max_context;
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
  EXPECT_THAT(Parse(WithField(family("\"smollm3\""), "no_rope_layers", "[1, 0, 1]")).layer_rotary,
              ::testing::ElementsAre(0, -1, 0));
  const std::string cohere2 = WithField(WithField(family("\"cohere2\""), "sliding_window", "20"), "layer_types",
                                        R"(["sliding_attention", "full_attention", "sliding_attention"])");
  EXPECT_THAT(Parse(cohere2).layer_rotary, ::testing::ElementsAre(0, -1, 0));
  EXPECT_TRUE(Parse(cohere2).interleaved_rotary && Parse(cohere2).shared_norm);
  EXPECT_EQ(Parse(cohere2).logit_scale, 0.0625F);
  const ModelConfig full = Parse(WithField(family("\"exaone4\""), "sliding_window", "null"));
  EXPECT_EQ(full.rotary(2), 0) << "where no layer slides, all have positions";
}

TEST(SlidingWindows, FollowTheConfig) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(Parse(kMistralConfig).layer_windows, ElementsAre(20, 20, 20));
  EXPECT_THAT(Parse(WithField(kMistralConfig, "sliding_window", "null")).layer_windows, IsEmpty());
  EXPECT_THAT(Parse(WithField(kMistralConfig, "sliding_window", "32")).layer_windows, IsEmpty()) << "the whole context";
  const std::string wide = WithField(kMistralConfig, "max_position_embeddings", "8192");
  EXPECT_THAT(Parse(WithField(wide, "sliding_window", "")).layer_windows, ElementsAre(4096, 4096, 4096));
  EXPECT_THAT(Parse(kGemma2Config).layer_windows, ElementsAre(20, 0, 20));

  const std::string qwen = WithField(kQwen2Config, "sliding_window", "20");
  EXPECT_THAT(Parse(qwen).layer_windows, IsEmpty()) << "use_sliding_window is false by default";
  const std::string slides = WithField(qwen, "use_sliding_window", "true");
  EXPECT_THAT(Parse(slides).layer_windows, IsEmpty()) << "max_window_layers is 28 by default";
  EXPECT_THAT(Parse(WithField(slides, "max_window_layers", "1")).layer_windows, ElementsAre(0, 20, 20));
  const std::string types = R"(["sliding_attention", "full_attention", "sliding_attention"])";
  EXPECT_THAT(Parse(WithField(slides, "layer_types", types)).layer_windows, ElementsAre(20, 0, 20));
  EXPECT_EQ(Parse(WithField(slides, "layer_types", types)).window(1), 0);
  EXPECT_EQ(Parse(qwen).window(2), 0);
}

TEST(Gemma2, ReadsItsConfig) {
  const ModelConfig config = Parse(kGemma2Config);
  EXPECT_TRUE(config.norm_placement == NormPlacement::kPreAndPost && config.gated_mlp && config.tied_embeddings);
  EXPECT_EQ(config.norm_weight_offset, 1.0F);
  EXPECT_EQ(config.activation, ActivationKind::kGeluTanh);
  EXPECT_FLOAT_EQ(config.embedding_scale, 2.4494898F);
  EXPECT_EQ(config.attention_scale, 0.25F);
  EXPECT_EQ(config.attention_softcap, 50.0F);
  EXPECT_EQ(config.logit_softcap, 30.0F);
  const std::string uncapped = WithField(kGemma2Config, "attn_logit_softcapping", "null");
  EXPECT_EQ(Parse(WithField(uncapped, "final_logit_softcapping", "null")).attention_softcap, 0.0F);
  EXPECT_EQ(Parse(WithField(uncapped, "final_logit_softcapping", "null")).logit_softcap, 0.0F);
  EXPECT_EQ(Parse(WithField(kGemma2Config, "head_dim", "")).head_dim, 256);
}

TEST(Olmo, NormsAllHeadsTogetherAndScalesFullLayersAlone) {
  const auto family = [](const char* name) { return WithField(kQwen2Config, "model_type", name); };
  const ModelConfig second = Parse(family("\"olmo2\""));
  EXPECT_TRUE(second.qk_norm && second.qk_norm_joint && second.norm_placement == NormPlacement::kPostInside);
  EXPECT_EQ(second.num_rotaries(), 1);
  const std::string base = WithField(WithField(family("\"olmo3\""), "num_hidden_layers", "4"), "sliding_window", "20");
  const std::string old = WithField(WithField(base, "rope_theta", "500000"), "rope_scaling",
                                    R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8})");
  const ModelConfig third = Parse(old);
  EXPECT_THAT(third.layer_rotary, ::testing::ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(third.layer_windows, ::testing::ElementsAre(20, 20, 20, 0));
  EXPECT_GT(third.rotary_attention_factor(0), 1.1F);
  EXPECT_EQ(third.rotary_attention_factor(1), 1.0F) << "sliding layers are not scaled";
  const ModelConfig present =
      Parse(WithField(base, "rope_parameters",
                      R"({"full_attention": {"rope_type": "yarn", "factor": 4, "rope_theta": 500000,
          "original_max_position_embeddings": 8}, "sliding_attention": {"rope_type": "default", "rope_theta": 500000}})"));
  EXPECT_EQ(present.inv_freq, third.inv_freq);
  EXPECT_EQ(present.rotary_attention_factors, third.rotary_attention_factors);
}

TEST(Nemotron, ReadsItsConfig) {
  const ModelConfig config = Parse(WithField(kQwen2Config, "model_type", "\"nemotron\""));
  EXPECT_TRUE(!config.gated_mlp && config.norm_weight_offset == 1.0F && config.norm_bias);
  EXPECT_EQ(config.rotary_dim, config.head_dim / 2);
  EXPECT_EQ(config.activation, ActivationKind::kReluSquared);
}

constexpr const char* kFalconConfig =
    R"({"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 6, "vocab_size": 7})";

TEST(Falcon, HasThreeForms) {
  const ModelConfig small = Parse(kFalconConfig);
  EXPECT_TRUE(small.num_kv_heads == 1 && small.parallel_residual && small.shared_norm && small.tied_embeddings);
  EXPECT_EQ(small.ffn_dim, 96);
  const std::string grouped =
      WithField(WithField(kFalconConfig, "new_decoder_architecture", "true"), "num_kv_heads", "3");
  const ModelConfig large = Parse(grouped);
  EXPECT_TRUE(large.num_kv_heads == 3 && large.parallel_residual && !large.shared_norm);
  EXPECT_TRUE(Parse(WithField(grouped, "num_ln_in_parallel_attn", "1")).shared_norm);
  const ModelConfig sequential =
      Parse(WithField(WithField(kFalconConfig, "parallel_attn", "false"), "multi_query", "false"));
  EXPECT_TRUE(sequential.num_kv_heads == 6 && !sequential.parallel_residual && !sequential.shared_norm);
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
  const ModelConfig config = Parse(WithField(alibi, "max_position_embeddings", "600"));
  EXPECT_EQ(config.rotary_dim, 0);
  EXPECT_TRUE(config.alibi_slopes.empty());
  ASSERT_EQ(config.key_bias.size(), 6U * 600U);
  EXPECT_EQ(config.position_constants(), config.key_bias);
  // Heads of 6 and slopes of 1/4, ..., 1/2, 1/8: position 515 is 516 in BF16, and 258 and 129 follow of it exactly.
  EXPECT_EQ(config.key_bias[515], 129.0F * config.attention_scale);
  EXPECT_EQ(config.key_bias[4 * 600 + 515], 258.0F * config.attention_scale);
  EXPECT_EQ(config.key_bias[4 * 600], 0.0F);
  const std::string wide = WithField(alibi, "max_position_embeddings", "2796203");
  EXPECT_THAT(std::string(ParseModelConfig(wide, "").status().message()),
              ::testing::HasSubstr("max_position_embeddings is 2796203 with alibi and 6 heads; limit is 2796202"));
}

TEST(Bloom, HasTheSlopesOfAnyNumberOfHeads) {
  const auto slopes = [](const char* heads) {
    const std::string config =
        R"({"model_type": "bloom", "n_layer": 2, "hidden_size": 24, "vocab_size": 7, "n_head": )";
    return Parse(config + heads + "}").alibi_slopes;
  };
  EXPECT_THAT(slopes("4"), ::testing::ElementsAre(0.25F, 0.0625F, 0.015625F, 0.00390625F));
  EXPECT_THAT(slopes("6"), ::testing::ElementsAre(0.25F, 0.0625F, 0.015625F, 0.00390625F, 0.5F, 0.125F));
  EXPECT_THAT(slopes("1"), ::testing::ElementsAre(0.00390625F));
}

}  // namespace
}  // namespace dunlin::engine
