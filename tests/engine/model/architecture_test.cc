// What each architecture's config means, and that the table's rows are complete.
#include "engine/model/architecture.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/model/model_directory.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using kernels::ActivationKind;

ModelConfig Parse(const std::string& config) {
  absl::StatusOr<ParsedModel> model = ParseModelConfig(config, "");
  EXPECT_TRUE(model.ok()) << model.status();
  return model->config;
}

TEST(Architectures, RowsAreCompleteAndWordsAreUnique) {
  std::set<std::string> words;
  for (const Architecture* row : Architectures()) {
    for (const char* word : row->model_types) EXPECT_TRUE(words.insert(word).second) << word;
    std::set<WeightSlot> slots;
    std::set<std::string> names;
    for (const WeightName& weight : row->weights) {
      slots.insert(weight.slot);
      EXPECT_TRUE(names.insert(weight.name).second) << weight.name;
      EXPECT_EQ(std::string(weight.name).find('#') != std::string::npos, IsPerLayer(weight.slot)) << weight.name;
      EXPECT_TRUE(!IsNorm(weight.slot) || weight.axis == ShardAxis::kReplicated) << weight.name;
    }
    EXPECT_GE(slots.size(), 9U) << row->name;  // all but the positions
    EXPECT_FALSE(row->prefixes.empty());
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

TEST(Gpt2, MapsEveryActivationWord) {
  const struct {
    const char* word;
    ActivationKind kind;
  } cases[] = {{"gelu_new", ActivationKind::kGeluTanh},  {"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
               {"gelu_fast", ActivationKind::kGeluTanh}, {"gelu", ActivationKind::kGeluErf},
               {"relu", ActivationKind::kRelu},          {"silu", ActivationKind::kSilu},
               {"swish", ActivationKind::kSilu}};
  for (const auto& c : cases) {
    const std::string word = "\"" + std::string(c.word) + "\"";
    EXPECT_EQ(Parse(WithField(kGpt2Config, "activation_function", word)).activation, c.kind) << c.word;
  }
}

TEST(NanoGpt, IsKnownByBlockSizeOrByName) {
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

TEST(Bert, ReadsItsConfig) {
  const ModelConfig config = Parse(kBertConfig);
  EXPECT_TRUE(config.is_encoder());
  EXPECT_EQ(config.max_context, 8);
  EXPECT_EQ(config.position_rows(), 8);
  EXPECT_EQ(config.position_pad_id, -1);
  EXPECT_EQ(config.num_token_types, 2);
  EXPECT_EQ(config.head_dim, 3);
  EXPECT_EQ(config.activation, ActivationKind::kGeluErf);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-12F);
  EXPECT_TRUE(config.norm_bias && config.qkv_bias && config.out_bias && config.mlp_bias && config.learned_positions);
  EXPECT_FALSE(HasSlot(config, WeightSlot::kHead) || HasSlot(config, WeightSlot::kFinalNorm));
}

TEST(Roberta, PositionsBeginBehindThePaddingRow) {
  for (const char* word : {"\"roberta\"", "\"xlm-roberta\"", "\"camembert\""}) {
    const ModelConfig config = Parse(WithField(kBertConfig, "model_type", word));
    EXPECT_EQ(config.architecture, "roberta");
    EXPECT_EQ(config.position_offset, 2);
    EXPECT_EQ(config.position_pad_id, 1);
    EXPECT_EQ(config.max_context, 6);
    EXPECT_EQ(config.position_rows(), 8);
  }
}

TEST(Bert, RefusesWhatItDoesNotCompute) {
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

}  // namespace
}  // namespace dunlin::engine
