// SPDX-License-Identifier: Apache-2.0
// The config parsers of the encoders' architectures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/model/architectures/architecture.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using kernels::ActivationKind;

TEST(Bert, ReadsItsConfig) {
  const ModelConfig config = ParsedConfig(kBertConfig);
  EXPECT_TRUE(config.is_encoder());
  EXPECT_FALSE(config.attention.causal);
  EXPECT_EQ(config.norm.placement, NormPlacement::kPost);
  EXPECT_EQ(config.max_context, 8);
  EXPECT_EQ(config.position_rows(), 8);
  EXPECT_EQ(config.embedding.position_pad_id, -1);
  EXPECT_EQ(config.embedding.num_token_types, 2);
  EXPECT_EQ(config.attention.head_dim, 3);
  EXPECT_EQ(config.mlp.activation, ActivationKind::kGeluErf);
  EXPECT_FLOAT_EQ(config.norm.epsilon, 1e-12F);
  EXPECT_TRUE(config.norm.bias && config.attention.qkv_bias && config.attention.out_bias && config.mlp.bias &&
              config.embedding.learned_positions);
  EXPECT_FALSE(HasSlot(config, WeightSlot::kHead, 0) || HasSlot(config, WeightSlot::kFinalNorm, 0));
}

TEST(Roberta, PositionsStartAfterThePaddingRow) {
  for (const char* word : {"\"roberta\"", "\"xlm-roberta\"", "\"camembert\""}) {
    const ModelConfig config = ParsedConfig(WithField(kBertConfig, "model_type", word));
    EXPECT_EQ(config.architecture, "roberta");
    EXPECT_EQ(config.embedding.position_offset, 2);
    EXPECT_EQ(config.embedding.position_pad_id, 1);
    EXPECT_EQ(config.max_context, 6);
    EXPECT_EQ(config.position_rows(), 8);
  }
}

TEST(Bert, RefusesUnsupportedOptions) {
  const struct {
    const char* field;
    const char* value;
    const char* message;
  } cases[] = {{"is_decoder", "true", "is_decoder is true"},
               {"add_cross_attention", "true", "add_cross_attention is true"},
               {"position_embedding_type", "\"relative_key\"", "position_embedding_type is not 'absolute'"},
               {"num_attention_heads", "4", "hidden size is 6, which 4 heads do not divide"},
               {"type_vocab_size", "0", "type_vocab_size is 0; limit is [1, 1024]"},
               {"max_position_embeddings", "", "max_position_embeddings"}};
  for (const auto& c : cases) {
    const absl::Status status = ParseModelConfig(WithField(kBertConfig, c.field, c.value), "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.field;
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << status;
  }
  const std::string roberta = WithField(kBertConfig, "model_type", "\"roberta\"");
  const absl::Status status = ParseModelConfig(WithField(roberta, "pad_token_id", "7"), "").status();
  EXPECT_NE(std::string(status.message()).find("positions begin at row 8"), std::string::npos) << status;
}

constexpr const char* kModernBertConfig =
    R"({"model_type": "modernbert", "num_hidden_layers": 5, "hidden_size": 24, "intermediate_size": 16, "vocab_size": 7,
        "num_attention_heads": 2, "max_position_embeddings": 64, "local_attention": 16})";

TEST(ModernBert, ReadsTheConfigsOfBothTransformers) {
  const ModelConfig config = ParsedConfig(kModernBertConfig);
  EXPECT_TRUE(config.is_encoder() && !config.attention.causal && config.norm.first_absent && config.embedding.norm);
  EXPECT_THAT(config.attention.layer_windows, ::testing::ElementsAre(0, 17, 17, 0, 17));
  EXPECT_THAT(config.rotary.layer_index, ::testing::ElementsAre(0, 1, 1, 0, 1));
  const std::string present = WithField(WithField(kModernBertConfig, "rope_parameters",
                                                  R"({"full_attention": {"rope_theta": 160000.0},
          "sliding_attention": {"rope_theta": 10000.0}})"),
                                        "layer_types",
                                        R"(["full_attention", "sliding_attention", "sliding_attention",
          "full_attention", "sliding_attention"])");
  EXPECT_EQ(ParsedConfig(present).rotary.inv_freq, config.rotary.inv_freq);
  EXPECT_EQ(ParsedConfig(present).attention.layer_windows, config.attention.layer_windows);
  EXPECT_THAT(ParsedConfig(WithField(kModernBertConfig, "local_attention", "125")).attention.layer_windows,
              ::testing::ElementsAre(0, 125, 125, 0, 125))
      << "63 tokens to each side are not all of 64";
  EXPECT_TRUE(ParsedConfig(WithField(kModernBertConfig, "local_attention", "126")).attention.layer_windows.empty());
  const absl::Status bad = ParseModelConfig(WithField(kModernBertConfig, "local_attention", "0"), "").status();
  EXPECT_THAT(std::string(bad.message()), ::testing::HasSubstr("local_attention is 0; limit is [1, 16777216]"));
}

TEST(NomicBert, ReadsThePublishersConfigToo) {
  const ModelConfig present = ParsedConfig(
      R"({"model_type": "nomic_bert", "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 16, "vocab_size": 7,
          "num_attention_heads": 2, "max_position_embeddings": 64})");
  const ModelConfig published = ParsedConfig(
      R"({"model_type": "nomic_bert", "n_layer": 2, "n_embd": 24, "n_inner": 16, "vocab_size": 7, "n_head": 2,
          "n_positions": 8192, "max_trained_positions": 64, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
          "activation_function": "swiglu", "qkv_proj_bias": false, "prenorm": false})");
  for (const ModelConfig& config : {present, published}) {
    EXPECT_TRUE(config.is_encoder() && config.mlp.gated && !config.attention.qkv_bias && !config.mlp.bias &&
                config.norm.bias);
    EXPECT_EQ(config.max_context, 64);
    EXPECT_EQ(config.rotary.inv_freq, present.rotary.inv_freq);
    EXPECT_EQ(config.embedding.num_token_types, 2);
  }
}

TEST(SequenceClassifiers, AreToldByTheirClass) {
  const std::string bert = WithField(kBertConfig, "architectures", R"(["BertForSequenceClassification"])");
  EXPECT_EQ(ParsedConfig(kBertConfig).classifier.num_labels, 0);
  EXPECT_EQ(ParsedConfig(bert).classifier.num_labels, 2) << "transformers' default";
  EXPECT_EQ(ParsedConfig(WithField(bert, "id2label", R"({"0": "LABEL_0"})")).classifier.num_labels, 1);
  EXPECT_TRUE(ParsedConfig(bert).classifier.dense_bias && !ParsedConfig(bert).classifier.norm &&
              !ParsedConfig(bert).classifier.mean);
}

TEST(SequenceClassifiers, OfModernBertHaveANormAndMayReadTheMean) {
  EXPECT_EQ(ParsedConfig(kModernBertConfig).classifier.num_labels, 0);
  EXPECT_FALSE(HasSlot(ParsedConfig(kModernBertConfig), WeightSlot::kClassifierNorm, 0));
  const std::string base = WithField(kModernBertConfig, "architectures", R"(["ModernBertForSequenceClassification"])");
  const ModelConfig cls = ParsedConfig(base);
  EXPECT_TRUE(HasSlot(cls, WeightSlot::kClassifierNorm, 0) && !HasBias(cls, WeightSlot::kClassifierNorm));
  EXPECT_TRUE(!HasBias(cls, WeightSlot::kClassifierDense) && HasBias(cls, WeightSlot::kClassifierOut));
  EXPECT_FALSE(cls.classifier.mean);
  EXPECT_EQ(cls.classifier.activation, ActivationKind::kGeluErf);
  const ModelConfig mean =
      ParsedConfig(WithField(WithField(WithField(base, "classifier_pooling", "\"mean\""), "classifier_bias", "true"),
                             "classifier_activation", "\"silu\""));
  EXPECT_TRUE(mean.classifier.mean && HasBias(mean, WeightSlot::kClassifierDense));
  EXPECT_EQ(mean.classifier.activation, ActivationKind::kSilu);
  const std::pair<std::pair<const char*, const char*>, const char*> bad[] = {
      {{"classifier_pooling", "\"max\""}, "classifier_pooling is 'max'; known: cls, mean"},
      {{"classifier_activation", "\"tanh\""}, "classifier_activation is 'tanh'; known: "},
      {{"classifier_bias", "1"}, "classifier_bias is 1; must be true or false"},
      {{"num_labels", "25"}, "num_labels is 25; limit is [1, 24]"}};
  for (const auto& [field, message] : bad) {
    const absl::Status status = ParseModelConfig(WithField(base, field.first, field.second), "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field.first;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(message));
  }
}

}  // namespace
}  // namespace dunlin::engine
