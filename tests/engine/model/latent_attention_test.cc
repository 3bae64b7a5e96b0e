// SPDX-License-Identifier: Apache-2.0
// Models with multi-head latent attention: configs of transformers 4 and 5, which rows of a checkpoint become which
// matrices, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/inspect.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/spec/attention_shape.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLatentHidden = 6;
constexpr int64_t kHeads = 2;
constexpr int64_t kPlain = 3;
constexpr int64_t kRope = 4;
constexpr int64_t kValue = 2;
constexpr int64_t kKvRank = 5;
constexpr int64_t kQueryRank = 3;

// One dense layer and no more.
constexpr const char* kV2 = R"({"model_type": "deepseek_v2", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 2, "vocab_size": 9, "max_position_embeddings": 64,
    "q_lora_rank": null, "kv_lora_rank": 5, "qk_nope_head_dim": 3, "qk_rope_head_dim": 4, "v_head_dim": 2,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1})";
constexpr const char* kV3 = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 9,
    "max_position_embeddings": 64, "q_lora_rank": 3, "kv_lora_rank": 5, "qk_nope_head_dim": 3, "qk_rope_head_dim": 4,
    "v_head_dim": 2, "n_routed_experts": 16, "n_group": 8, "topk_group": 4, "attention_bias": true})";

std::vector<TestTensor> Tensors(bool has_query_rank) {
  const std::string layer = "model.layers.0.";
  const std::string attention = layer + "self_attn.";
  std::vector<TestTensor> tensors = {
      TestTensor{"model.embed_tokens.weight", {9, kLatentHidden}},
      TestTensor{"model.norm.weight", {kLatentHidden}},
      TestTensor{"lm_head.weight", {9, kLatentHidden}},
      TestTensor{layer + "input_layernorm.weight", {kLatentHidden}},
      TestTensor{layer + "post_attention_layernorm.weight", {kLatentHidden}},
      TestTensor{layer + "mlp.gate_proj.weight", {10, kLatentHidden}},
      TestTensor{layer + "mlp.up_proj.weight", {10, kLatentHidden}},
      TestTensor{layer + "mlp.down_proj.weight", {kLatentHidden, 10}},
      TestTensor{attention + "kv_a_proj_with_mqa.weight", {kKvRank + kRope, kLatentHidden}},
      TestTensor{attention + "kv_a_layernorm.weight", {kKvRank}},
      TestTensor{attention + "kv_b_proj.weight", {kHeads * (kPlain + kValue), kKvRank}},
      TestTensor{attention + "o_proj.weight", {kLatentHidden, kHeads * kValue}}};
  if (!has_query_rank) {
    tensors.push_back({attention + "q_proj.weight", {kHeads * (kPlain + kRope), kLatentHidden}});
    return tensors;
  }
  for (TestTensor& tensor :
       std::vector<TestTensor>{{attention + "q_a_proj.weight", {kQueryRank, kLatentHidden}},
                               {attention + "q_a_proj.bias", {kQueryRank}},
                               {attention + "q_a_layernorm.weight", {kQueryRank}},
                               {attention + "q_b_proj.weight", {kHeads * (kPlain + kRope), kQueryRank}},
                               {attention + "kv_a_proj_with_mqa.bias", {kKvRank + kRope}},
                               {attention + "o_proj.bias", {kLatentHidden}}}) {
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

using LatentModels = ModelLoading;

// Row `row` of a tensor after its rotated rows, kRope from `first` on in every `block` rows, went from pairs to halves.
int64_t StoredRow(int64_t row, int64_t block, int64_t first) {
  const int64_t rotated = row % block - first;
  if (rotated < 0 || rotated >= kRope) return row;
  const int64_t half = kRope / 2;
  return row / block * block + first + (rotated < half ? 2 * rotated : 2 * (rotated - half) + 1);
}

TEST_F(LatentModels, RowsOfTheCheckpointBecomeTheMatricesOfTheHeads) {
  for (const bool has_query_rank : {false, true}) {
    const auto model = Load(has_query_rank ? kV3 : kV2, Tensors(has_query_rank));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->warnings().empty()) << (*model)->warnings().front();
    const LatentWeights& latent = (*model)->weights(Precision::kFp32).layers[0].latent;
    const std::string attention = "model.layers.0.self_attn.";
    const std::string kv_down = attention + "kv_a_proj_with_mqa.";
    for (int64_t row = 0; row < kRope + kKvRank; ++row) {
      const int64_t stored =
          row < kRope ? StoredRow(kKvRank + row, kKvRank + kRope, kKvRank) : row - kRope;  // the rotated rows first
      EXPECT_EQ(ElementOf(latent.kv_down.weight, row, 2), ValueOf(kv_down + "weight", stored * kLatentHidden + 2))
          << row;
      if (has_query_rank) {
        EXPECT_EQ(latent.kv_down.bias[row], ValueOf(kv_down + "bias", stored)) << row;
      }
    }
    EXPECT_EQ(latent.kv_norm.weight[4], ValueOf(attention + "kv_a_layernorm.weight", 4));
    const std::string query = attention + (has_query_rank ? "q_b_proj.weight" : "q_proj.weight");
    const int64_t columns = has_query_rank ? kQueryRank : kLatentHidden;
    for (int64_t row = 0; row < kHeads * (kPlain + kRope); ++row) {
      EXPECT_EQ(ElementOf(latent.query.weight, row, 1),
                ValueOf(query, StoredRow(row, kPlain + kRope, kPlain) * columns + 1))
          << row;
    }
    EXPECT_EQ(latent.query_down.weight.data != nullptr, has_query_rank);
    if (has_query_rank) {
      EXPECT_EQ(latent.query_down.bias[1], ValueOf(attention + "q_a_proj.bias", 1));
    }
    ASSERT_EQ(latent.key_up.size(), 2U);
    ASSERT_EQ(latent.value_up.size(), 2U);
    for (int64_t head = 0; head < kHeads; ++head) {
      const auto i = static_cast<size_t>(head);
      const int64_t first = head * (kPlain + kValue);
      EXPECT_EQ(latent.key_up[i].weight.out_features, kKvRank);
      EXPECT_EQ(ElementOf(latent.key_up[i].weight, 4, 2),
                ValueOf(attention + "kv_b_proj.weight", (first + 2) * kKvRank + 4));
      EXPECT_EQ(ElementOf(latent.value_up[i].weight, 1, 3),
                ValueOf(attention + "kv_b_proj.weight", (first + kPlain + 1) * kKvRank + 3));
    }
  }
}

// DeepSeek V3's published form. What is cut or ordered anew is widened; all else keeps its codes.
TEST_F(LatentModels, BlockScaledFp8BecomesCodeTimesScale) {
  std::vector<TestTensor> tensors = Tensors(true);
  std::vector<TestTensor> scales;
  for (TestTensor& tensor : tensors) {
    if (tensor.shape.size() != 2 || tensor.name.find("layers") == std::string::npos) continue;
    tensor.dtype = "F8_E4M3";
    scales.push_back({tensor.name + "_scale_inv", {1, 1}, "F32", {0.375F}});
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  const std::string config = WithField(kV3, "quantization_config", R"({"quant_method": "fp8",
      "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]})");
  const auto model = Load(config, tensors, {Precision::kFp8, Precision::kFp32});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->warnings().empty()) << (*model)->warnings().front();
  const std::string attention = "model.layers.0.self_attn.";
  const auto value_of = [&](const std::string& name, int64_t element) {
    return kernels::E4M3ToFloat(kernels::FloatToE4M3(ValueOf(attention + name, element))) * 0.375F;
  };
  const LayerWeights& wide = (*model)->weights(Precision::kFp32).layers[0];
  EXPECT_EQ(ElementOf(wide.latent.key_up[1].weight, 4, 2),
            value_of("kv_b_proj.weight", (kPlain + kValue + 2) * kKvRank + 4));
  EXPECT_EQ(ElementOf(wide.latent.value_up[0].weight, 1, 3), value_of("kv_b_proj.weight", (kPlain + 1) * kKvRank + 3));
  EXPECT_EQ(ElementOf(wide.latent.kv_down.weight, 1, 2),
            value_of("kv_a_proj_with_mqa.weight", (kKvRank + 2) * kLatentHidden + 2));
  EXPECT_EQ(ElementOf(wide.latent.query.weight, 4, 1), value_of("q_b_proj.weight", 5 * kQueryRank + 1));
  const LayerWeights& narrow = (*model)->weights(Precision::kFp8).layers[0];
  EXPECT_EQ(narrow.latent.query_down.weight.format, kernels::WeightFormat::kE4M3);
  EXPECT_EQ(narrow.attention_out.weight.format, kernels::WeightFormat::kE4M3);
  EXPECT_EQ(narrow.latent.kv_down.weight.format, kernels::WeightFormat::kBf16);
  EXPECT_EQ(narrow.latent.key_up[0].weight.format, kernels::WeightFormat::kBf16);

  std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.name.ends_with("kv_b_proj.weight_scale_inv"); });
  const absl::Status missing = Load(config, tensors).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("kv_b_proj.weight' is F8_E4M3, but its scale"));
  const absl::Status undescribed = Load(kV3, tensors).status();
  EXPECT_THAT(std::string(undescribed.message()), HasSubstr("config.json has no quantization_config"));
}

TEST_F(LatentModels, TensorsThatDoNotFitAreNamed) {
  std::vector<TestTensor> tensors = Tensors(false);
  for (TestTensor& tensor : tensors) {
    if (tensor.name.ends_with("kv_b_proj.weight")) tensor.shape = {9, kKvRank};
  }
  const absl::Status rows = Load(kV2, tensors).status();
  EXPECT_EQ(rows.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rows.message()), HasSubstr("kv_b_proj.weight' has 9 rows; config.json makes it 10"));
  for (TestTensor& tensor : tensors) {
    if (tensor.name.ends_with("kv_b_proj.weight")) tensor.shape = {10, kKvRank + 1};
  }
  const absl::Status columns = Load(kV2, tensors).status();
  EXPECT_THAT(std::string(columns.message()), HasSubstr("kv_b_proj.0.key.weight' has shape [3, 6]"));
  std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.name.ends_with("kv_b_proj.weight"); });
  EXPECT_EQ(Load(kV2, tensors).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LatentModels, ADeviceWithoutLatentRowsRefusesTheModelByName) {
  kernels::DeviceOps ops = *device_->ops;
  ops.supports_model = [](const kernels::ModelTraits& traits, std::vector<std::string>* reasons) {
    if (traits.latent_rows) reasons->emplace_back("multi-head latent attention");
    return !traits.latent_rows;
  };
  device_->ops = &ops;
  const absl::Status status = Load(kV2, Tensors(false)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model_type deepseek_v2 has multi-head latent attention, which cpu does not serve"));
  EXPECT_EQ(state_.bytes_held, 0U);
}

TEST_F(LatentModels, InspectCountsOneLatentRowOfAToken) {
  WriteModel(temp_, kV2, Tensors(false));
  const auto summary = InspectModel({.path = temp_.path(), .random_shape = "", .precisions = {}}, *device_->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->kv_bytes_per_token.size(), 3U) << "no E4M3 pages";
  for (const auto& row : summary->kv_bytes_per_token) {
    EXPECT_EQ(row.bytes_per_token, (kRope + kKvRank + 1) * kernels::SizeOf(row.dtype)) << "one row, padded to even";
  }
}

TEST(DeepseekConfig, ReadsVersion2OfTransformers5) {
  const ModelConfig config = ParsedConfig(kV2);
  EXPECT_TRUE(config.attention.is_latent());
  EXPECT_EQ(config.attention.num_kv_heads, 1);
  EXPECT_EQ(config.attention.head_dim, kRope + kKvRank);
  EXPECT_EQ(config.rotary.dim, kRope);
  EXPECT_EQ(config.attention.latent.query_rank, 0);
  EXPECT_EQ(config.attention.output_features(), kHeads * kValue);
  EXPECT_FLOAT_EQ(config.attention.scale, 1.0F / std::sqrt(7.0F));
  EXPECT_TRUE(config.rotary.interleaved);
  EXPECT_FALSE(config.attention.qkv_bias || config.experts.routing.normalized || config.experts.router_correction);
  EXPECT_EQ(config.experts.routing.scoring, kernels::ExpertScoring::kSoftmax);
  EXPECT_EQ(config.experts.routing.num_groups, 1);
  EXPECT_EQ(config.experts.ffn_dim, 1407);
  EXPECT_EQ(config.experts.shared_ffn_dim, 2 * 1407);
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(true));
  const std::string limited = WithField(WithField(kV2, "topk_method", "\"group_limited_greedy\""), "n_group", "2");
  EXPECT_EQ(ParsedConfig(limited).experts.routing.num_groups, 2);
  EXPECT_EQ(ParsedConfig(limited).experts.routing.group_scoring, kernels::GroupScoring::kLargest);
  EXPECT_EQ(ParsedConfig(WithField(kV2, "n_group", "2")).experts.routing.num_groups, 1) << "greedy chooses no groups";
  EXPECT_EQ(ParsedConfig(WithField(kV2, "q_lora_rank", "")).attention.latent.query_rank, 1536) << "absent is not null";
}

// As DeepSeek V2 Lite's config.json was published.
TEST(DeepseekConfig, ReadsVersion2OfTransformers4) {
  std::string text = WithField(kV2, "rope_scaling", R"({"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
      "mscale_all_dim": 0.707, "original_max_position_embeddings": 32, "type": "yarn"})");
  for (const auto& [field, value] : std::vector<std::pair<const char*, const char*>>{{"scoring_func", "\"softmax\""},
                                                                                     {"moe_layer_freq", "1"},
                                                                                     {"norm_topk_prob", "false"},
                                                                                     {"topk_method", "\"greedy\""},
                                                                                     {"n_group", "1"},
                                                                                     {"topk_group", "1"},
                                                                                     {"n_shared_experts", "1"},
                                                                                     {"num_key_value_heads", "2"},
                                                                                     {"ep_size", "1"},
                                                                                     {"rope_theta", "20000"}}) {
    text = WithField(text, field, value);
  }
  const ModelConfig config = ParsedConfig(text);
  EXPECT_EQ(config.max_context, 32 * 40);
  EXPECT_FLOAT_EQ(config.rotary.attention_factor(0), 1.0F) << "mscale and mscale_all_dim are equal";
  const double mscale = 0.1 * 0.707 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(config.attention.scale, static_cast<float>(mscale * mscale / std::sqrt(7.0)));
  EXPECT_EQ(config.experts.shared_ffn_dim, 1407);
}

TEST(DeepseekConfig, ReadsVersion3) {
  const ModelConfig config = ParsedConfig(kV3);
  EXPECT_EQ(config.attention.latent.query_rank, kQueryRank);
  EXPECT_TRUE(config.attention.qkv_bias && config.attention.out_bias && config.experts.router_correction &&
              config.experts.routing.normalized);
  EXPECT_EQ(config.experts.routing.scoring, kernels::ExpertScoring::kSigmoid);
  EXPECT_EQ(config.experts.routing.group_scoring, kernels::GroupScoring::kTwoLargest);
  EXPECT_EQ(config.experts.routing.num_groups, 8);
  EXPECT_EQ(config.experts.routing.num_chosen_groups, 4);
  EXPECT_EQ(config.experts.routing.scale, 2.5F);
  EXPECT_EQ(ParsedConfig(WithField(kV3, "routed_scaling_factor", "1.5")).experts.routing.scale, 1.5F);
  EXPECT_TRUE(config.rotary.interleaved);
  EXPECT_FALSE(ParsedConfig(WithField(kV3, "rope_interleave", "false")).rotary.interleaved);
  EXPECT_EQ(KvLayoutOf(config, Precision::kBf16).page_bytes, 16U * 10 * 2) << "9 dimensions, padded to even";
}

constexpr BadField kBadLatentFields[] = {
    {kV2, "topk_method", "\"noaux_tc\"", "topk_method is 'noaux_tc'; known: greedy, group_limited_greedy"},
    {kV2, "scoring_func", "\"sigmoid\"", "scoring_func is 'sigmoid'; known: softmax"},
    {kV2, "norm_topk_prob", "true", "norm_topk_prob is true, which is not supported"},
    {kV2, "moe_layer_freq", "2", "moe_layer_freq is 2; limit is [1, 1]"},
    {kV2, "num_experts_per_tok", "", "num_experts_per_tok is missing"},
    {kV2, "num_key_value_heads", "1", "num_key_value_heads is 1; with latent attention it is the number of 2 heads"},
    {kV2, "mlp_bias", "true", "mlp_bias is true, which is not supported"},
    {kV2, "n_shared_experts", "0", "n_shared_experts is 0; limit is [1, 745]"},
    {kV2, "first_k_dense_replace", "-1", "first_k_dense_replace is -1; limit is [0, 1024]"},
    {kV3, "topk_method", "\"greedy\"", "topk_method is 'greedy'; known: noaux_tc"},
    {kV3, "scoring_func", "\"softmax\"", "scoring_func is 'softmax'; known: sigmoid"},
    {kV3, "n_group", "5", "n_group is 5, which does not divide 16 experts"},
    {kV3, "topk_group", "9", "topk_group is 9; limit is [1, 8]"},
    {kV3, "kv_lora_rank", "1021", "kv_lora_rank is 1021; limit is [1, 1020]"},
    {kV3, "kv_lora_rank", "0", "kv_lora_rank is 0; limit is [1, 1020]"},
    {kV3, "qk_rope_head_dim", "3", "qk_rope_head_dim is 3; rotary positions need an even one"},
    {kV3, "qk_rope_head_dim", "1000000000000", "qk_rope_head_dim is 1000000000000; limit is [2, 512]"},
    {kV3, "qk_nope_head_dim", "-1", "qk_nope_head_dim is -1; limit is [1, 1024]"},
    {kV3, "v_head_dim", "2000", "v_head_dim is 2000; limit is [1, 1024]"},
    {kV3, "q_lora_rank", "0", "q_lora_rank is 0; limit is [1, 131072]"},
};

TEST(DeepseekConfig, EachBadFieldIsNamedWithValueAndLimit) {
  for (const BadField& bad : kBadLatentFields) ExpectRefused(bad);
}

constexpr const char* kMistral4 = R"({"model_type": "mistral4", "num_hidden_layers": 1, "hidden_size": 6,
    "intermediate_size": 10, "num_attention_heads": 2, "vocab_size": 9, "q_lora_rank": 3, "kv_lora_rank": 5,
    "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 2, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5, "rope_parameters": {"type": "yarn", "factor": 8,
    "original_max_position_embeddings": 20, "mscale": 1, "mscale_all_dim": 1, "rope_theta": 10000,
    "llama_4_scaling_beta": 0.25, "partial_rotary_factor": 0.5}})";

TEST(Mistral4Config, ScalesQueriesByPositionAndRoutesByGroupsOfSoftmaxScores) {
  const auto model = ParseModelConfig(kMistral4, "");
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelConfig& config = model->config;
  EXPECT_EQ(config.attention.query_scale_beta, 0.25F);
  EXPECT_EQ(config.attention.query_scale_period, 20);
  EXPECT_EQ(config.rotary.dim, 4) << "the rotated part whole";
  EXPECT_EQ(config.max_context, 160);
  const double mscale = 0.1 * std::log(8.0) + 1.0;
  EXPECT_FLOAT_EQ(config.attention.scale, static_cast<float>(mscale * mscale / std::sqrt(8.0)));
  const kernels::ExpertRouting& routing = config.experts.routing;
  EXPECT_EQ(routing.scoring, kernels::ExpertScoring::kSoftmax);
  EXPECT_EQ(routing.group_scoring, kernels::GroupScoring::kTwoLargest);
  EXPECT_EQ(routing.num_groups, 4);
  EXPECT_EQ(routing.num_chosen_groups, 2);
  EXPECT_EQ(routing.scale, 1.5F);
  EXPECT_TRUE(routing.normalized);
  EXPECT_FALSE(config.experts.router_correction);
  EXPECT_THAT(config.experts.dense_layers, ElementsAre(false));
}

TEST(Mistral4Config, AShareOfTheHeadThatIsNotTheRotatedPartIsRefused) {
  std::string text = kMistral4;
  text.replace(text.find("\"partial_rotary_factor\": 0.5"), 28, "\"partial_rotary_factor\": 0.25");
  EXPECT_THAT(std::string(ParseModelConfig(text, "").status().message()),
              HasSubstr("partial_rotary_factor is 0.25; must be the share of qk_rope_head_dim in a head, 0.5"));
  text = kMistral4;
  text.replace(text.find("rope_parameters"), 15, "other");
  EXPECT_THAT(std::string(ParseModelConfig(text, "").status().message()), HasSubstr("rope_parameters is missing"));
  text = absl::StrCat(R"({"model_type": "mistral3", "vision_config": {}, "text_config": )", kMistral4, "}");
  const auto part = ParseModelConfig(text, "");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_TRUE(part->config.attention.is_latent());
}

}  // namespace
}  // namespace dunlin::engine
