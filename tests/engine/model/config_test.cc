// SPDX-License-Identifier: Apache-2.0
// Every field of a config.json is range-checked: a table of one bad field each, with the expected message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kQwen35Config =
    R"({"model_type": "qwen3_5_text", "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 7,
        "full_attention_interval": 2})";

constexpr const char* kGemma4Config =
    R"({"model_type": "gemma4_text", "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16, "vocab_size": 7,
        "sliding_window": 20, "hidden_size_per_layer_input": 0, "max_position_embeddings": 64})";

const BadField kBadFields[] = {
    {kGpt2Config, "model_type", "\"t5\"",
     "model_type is 't5'; known: gpt2, nanogpt, llama, gpt_neox, phi, qwen2, qwen2_vl_text"},
    {kGpt2Config, "model_type", "7", "model_type is 7; must be a string"},
    {kGpt2Config, "model_type", "", "model_type is missing"},
    {kGpt2Config, "n_layer", "", "n_layer is missing"},
    {kGpt2Config, "n_layer", "null", "n_layer is missing"},
    {kGpt2Config, "n_layer", "0", "n_layer is 0; limit is [1, 1024]"},
    {kGpt2Config, "n_layer", "-1", "n_layer is -1; limit is [1, 1024]"},
    {kGpt2Config, "n_layer", "1025", "n_layer is 1025; limit is [1, 1024]"},
    {kGpt2Config, "n_layer", "1099511627776", "n_layer is 1099511627776; limit"},
    {kGpt2Config, "n_layer", "18446744073709551615", "n_layer is 18446744073709551615; limit"},
    {kGpt2Config, "n_layer", "99999999999999999999", "must be an integer"},
    {kGpt2Config, "n_layer", "2.0", "n_layer is 2.0; must be an integer"},
    {kGpt2Config, "n_layer", "\"2\"", "n_layer is \"2\"; must be an integer"},
    {kGpt2Config, "n_layer", "true", "n_layer is true; must be an integer"},
    {kGpt2Config, "n_layer", "[2]", "n_layer is [2]; must be an integer"},
    {kGpt2Config, "n_layer", "{}", "n_layer is {}; must be an integer"},
    {kGpt2Config, "n_embd", "0", "n_embd is 0"},
    {kGpt2Config, "n_embd", "7", "hidden size is 7, which 2 heads do not divide"},
    {kGpt2Config, "n_embd", "131073", "limit is [1, 131072]"},
    {kGpt2Config, "n_head", "0", "n_head is 0"},
    {kGpt2Config, "n_head", "4", "hidden size is 6, which 4 heads do not divide"},
    {kGpt2Config, "n_head", "7", "hidden size is 6, which 7 heads do not divide"},
    {kGpt2Config, "n_positions", "0", "n_positions is 0"},
    {kGpt2Config, "n_positions", "16777217", "n_positions is 16777217; limit is [1, 16777216]"},
    {kGpt2Config, "vocab_size", "0", "vocab_size is 0"},
    {kGpt2Config, "vocab_size", "4194305", "limit is [1, 4194304]"},
    {kGpt2Config, "n_inner", "0", "n_inner is 0"},
    {kGpt2Config, "n_inner", "1048577", "limit is [1, 1048576]"},
    {kGpt2Config, "layer_norm_epsilon", "0", "layer_norm_epsilon is 0; limit"},
    {kGpt2Config, "layer_norm_epsilon", "-1e-5", "layer_norm_epsilon is -1e-05; limit"},
    {kGpt2Config, "layer_norm_epsilon", "NaN", "layer_norm_epsilon is nan; limit is"},
    {kGpt2Config, "layer_norm_epsilon", "\"1e-5\"", "must be a number"},
    {kGpt2Config, "activation_function", "\"tanh\"", "activation_function is 'tanh'; known: gelu_new"},
    {kGpt2Config, "tie_word_embeddings", "1", "tie_word_embeddings is 1; must be true or false"},
    {kGpt2Config, "add_cross_attention", "true", "add_cross_attention is true, which is not supported"},
    {kGpt2Config, "quantization_config", "{}", "quant_method is ''; known: compressed-tensors, modelopt"},
    {kGpt2Config, "eos_token_id", "-1", "eos_token_id is -1; limit is [0, 2147483647]"},
    {kGpt2Config, "eos_token_id", "[1, \"x\"]", "eos_token_id is \"x\"; must be an integer"},
    {kGpt2Config, "eos_token_id", "1.5", "eos_token_id is 1.5; must be an integer"},
    {kNanoGptConfig, "block_size", "0", "block_size is 0"},
    {kNanoGptConfig, "bias", "0", "bias is 0; must be true or false"},
    {kLlamaConfig, "num_hidden_layers", "0", "num_hidden_layers is 0"},
    {kLlamaConfig, "hidden_size", "", "hidden_size is missing"},
    {kLlamaConfig, "intermediate_size", "-3", "intermediate_size is -3"},
    {kLlamaConfig, "num_attention_heads", "1025", "limit is [1, 1024]"},
    {kLlamaConfig, "num_key_value_heads", "3", "num_key_value_heads is 3, which does not divide 4 heads"},
    {kLlamaConfig, "num_key_value_heads", "8", "num_key_value_heads is 8, which does not divide 4 heads"},
    {kLlamaConfig, "num_key_value_heads", "0", "num_key_value_heads is 0"},
    {kLlamaConfig, "head_dim", "0", "head_dim is 0; limit is [1, 1024]"},
    {kLlamaConfig, "head_dim", "3", "head_dim is 3; rotary positions need an even one"},
    {kLlamaConfig, "head_dim", "1025", "limit is [1, 1024]"},
    {kLlamaConfig, "head_dim", "", "hidden size is 6, which 4 heads do not divide"},
    {kLlamaConfig, "max_position_embeddings", "1099511627776", "max_position_embeddings is 1099511627776; limit"},
    {kLlamaConfig, "rms_norm_eps", "2", "rms_norm_eps is 2; limit"},
    {kLlamaConfig, "hidden_act", "\"\"", "hidden_act is ''; known"},
    {kLlamaConfig, "attention_bias", "\"yes\"", "attention_bias is \"yes\"; must be true or false"},
    {kLlamaConfig, "partial_rotary_factor", "0.5", "partial_rotary_factor is not 1"},
    {kLlamaConfig, "rope_theta", "0", "rope_theta is 0; limit"},
    {kLlamaConfig, "rope_theta", "1", "rope_theta is 1; limit"},
    {kLlamaConfig, "rope_scaling", "7", "rope_scaling is 7; must be an object"},
    {kLlamaConfig, "rope_parameters", "[]", "rope_parameters is []; must be an object"},
    {kLlamaConfig, "rope_parameters", R"({"rope_theta": -1})", "config.json: rope_parameters: rope_theta is -1"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "longrope"})", "rope_scaling: short_factor is missing"},
    {kLlamaConfig, "rope_scaling", R"({"type": "su", "short_factor": [1, 2, 3]})",
     "short_factor has 3 entries; must have 2"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "longrope", "short_factor": [1, 0]})",
     "must be a list of at most 1024 numbers in [0.001, 1e+06]"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "other"})", "rope_type is 'other'; known: default, linear"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "linear"})", "config.json: rope_scaling: factor is missing"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "linear", "factor": 0})", "factor is 0; limit is [1, 1e+06]"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "linear", "factor": NaN})", "factor is nan; limit is"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "linear", "factor": "2"})", "factor is \"2\"; must be a number"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "llama3", "factor": 8})", "low_freq_factor is missing"},
    {kLlamaConfig, "rope_scaling",
     R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 3})",
     "high_freq_factor is 3; must be at least low_freq_factor 4"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 0})",
     "original_max_position_embeddings is 0"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_fast": -1})", "beta_fast is -1"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "yarn", "factor": 4, "truncate": 1})", "truncate is 1"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "yarn", "factor": 4, "attention_factor": 0})",
     "attention_factor is 0"},
    {kLlamaConfig, "rope_scaling", R"({"rope_type": "yarn", "factor": 4, "partial_rotary_factor": 0.5})",
     "partial_rotary_factor is not 1"},
    {kGptNeoXConfig, "rotary_pct", "0.25", "rotary_pct is 0.25, which rotates 3 of 12 dimensions; it must be an even"},
    {kGptNeoXConfig, "rotary_pct", "0", "rotary_pct is 0, which rotates 0 of 12 dimensions"},
    {kGptNeoXConfig, "rotary_pct", "1.5", "rotary_pct is 1.5; limit is [0, 1]"},
    {kGptNeoXConfig, "rotary_emb_base", "1", "rotary_emb_base is 1; limit"},
    {kGptNeoXConfig, "hidden_size", "25", "hidden size is 25, which 2 heads do not divide"},
    {kGptNeoXConfig, "num_attention_heads", "24", "rotary_pct is 0.5, which rotates 0 of 1 dimensions"},
    {kGptNeoXConfig, "use_parallel_residual", "1", "use_parallel_residual is 1; must be true or false"},
    {kGptNeoXConfig, "layer_norm_eps", "0", "layer_norm_eps is 0; limit"},
    {kGptNeoXConfig, "rope_parameters", R"({"partial_rotary_factor": 0.75})", "which rotates 9 of 12 dimensions"},
    {kPhiConfig, "partial_rotary_factor", "0.75", "partial_rotary_factor is 0.75, which rotates 9 of 12 dimensions"},
    {kPhiConfig, "qk_layernorm", "true", "qk_layernorm is true, which is not supported"},
    {kPhiConfig, "tie_word_embeddings", "true", "tie_word_embeddings is true, which is not supported"},
    {kPhiConfig, "num_key_value_heads", "3", "num_key_value_heads is 3, which does not divide 2 heads"},
    {kQwen35Config, "full_attention_interval", "4", "no layer has full attention, of which a model needs one"},
    {kQwen35Config, "full_attention_interval", "0", "full_attention_interval is 0; limit is [1, 1024]"},
    {kQwen35Config, "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 2"},
    {kQwen35Config, "layer_types", R"(["mamba", "full_attention"])",
     "layer_types[0] is 'mamba'; known: full_attention, linear_attention"},
    {kQwen35Config, "linear_num_key_heads", "5", "linear_num_key_heads is 5, which does not divide 32 value heads"},
    {kQwen35Config, "linear_num_value_heads", "0", "linear_num_value_heads is 0; limit is [1, 1024]"},
    {kQwen35Config, "linear_key_head_dim", "1025", "linear_key_head_dim is 1025; limit is [1, 1024]"},
    {kQwen35Config, "linear_conv_kernel_dim", "9", "linear_conv_kernel_dim is 9; limit is [2, 8]"},
    {kQwen35Config, "linear_conv_kernel_dim", "1", "linear_conv_kernel_dim is 1; limit is [2, 8]"},
    {kQwen35Config, "attn_output_gate", "false", "attn_output_gate is false, which is not supported"},
    {kQwen35Config, "attention_bias", "true", "attention_bias is true, which is not supported"},
    {kQwen35Config, "intermediate_size", "", "intermediate_size is missing"},
    {kQwen2Config, "head_dim", "", "hidden size is 6, which 4 heads do not divide"},
    {kQwen2Config, "partial_rotary_factor", "0.5", "partial_rotary_factor is not 1"},
    {kQwen2Config, "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 3"},
    {kQwen2Config, "layer_types", R"(["full_attention", "chunked_attention", "full_attention"])",
     "layer_types[1] is 'chunked_attention'; known: full_attention, sliding_attention"},
    {kQwen2Config, "layer_types", R"(["full_attention", "full_attention", "sliding_attention"])",
     "layer_types[2] is 'sliding_attention', but no sliding_window is in use"},
    {kQwen2Config, "layer_types", "3", "layer_types is 3; must be a list of at most 1024 strings"},
    {kQwen2Config, "layer_types", "[1, 2, 3]", "layer_types is [1,2,3]; must be a list of at most 1024 strings"},
    {kQwen2Config, "max_window_layers", "-1", "max_window_layers is -1; limit is [0, 1024]"},
    {kMistralConfig, "sliding_window", "0", "sliding_window is 0; limit is [1, 16777216]"},
    {kMistralConfig, "sliding_window", "-4096", "sliding_window is -4096; limit"},
    {kMistralConfig, "layer_types", R"(["full_attention"])", "layer_types is set; all layers of model_type 'mistral'"},
    {kMistralConfig, "num_key_value_heads", "3", "num_key_value_heads is 3, which does not divide 4 heads"},
    {kGemma2Config, "attn_logit_softcapping", "0", "attn_logit_softcapping is 0; limit is [0.001, 1e+06]"},
    {kGemma2Config, "final_logit_softcapping", "-30", "final_logit_softcapping is -30; limit"},
    {kGemma2Config, "query_pre_attn_scalar", "0", "query_pre_attn_scalar is 0; limit"},
    {kGemma2Config, "use_bidirectional_attention", "true", "use_bidirectional_attention is true, which is not"},
    {kGemma4Config, "num_kv_shared_layers", "6", "num_kv_shared_layers is 6; limit is [0, 5]"},
    {kGemma4Config, "num_kv_shared_layers", "1",
     "num_kv_shared_layers is 1, but no layer before 5 is of the type of layer 5"},
    {kGemma4Config, "hidden_size_per_layer_input", "9", "hidden_size_per_layer_input is 9; limit is [0, 8]"},
    {kGemma4Config, "enable_moe_block", "true", "num_experts is missing"},
    {kGemma4Config, "use_bidirectional_attention", "\"all\"", "use_bidirectional_attention is 'all', which is not"},
    {kGemma4Config, "global_head_dim", "1025", "global_head_dim is 1025; limit is [1, 1024]"},
    {kGemma4Config, "global_head_dim", "15", "layer 5 has a head_dim of 15; rotary positions need an even one"},
    {kGemma4Config, "per_layer_config", R"({"6": {}})", "per_layer_config has '6'; its members are objects of 0 to 5"},
    {kGemma4Config, "per_layer_config", R"({"5": 7})", "per_layer_config has '5'; its members are objects of 0 to 5"},
    {kGemma4Config, "per_layer_config", R"({"0": {"head_dim": 12}})", "layer 1 has other heads than layer 0"},
    {kGemma4Config, "per_layer_config", R"({"5": {"num_key_value_heads": 3}})", "layer 5 has 3 key-value heads"},
    {kGemma4Config, "per_layer_config", R"({"5": {"intermediate_size": 3}})",
     "per_layer_config.5: intermediate_size differs by layer, which is not supported"},
    {kGemma4Config, "final_logit_softcapping", "0", "final_logit_softcapping is 0; limit"},
    {kGemma4Config, "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 6"},
    {kGemma4Config, "rope_parameters", R"({"full_attention": {"rope_type": "ntk"}, "sliding_attention": {}})",
     "rope_type is 'ntk'; known: default, linear, llama3, yarn, dynamic, longrope, proportional"},
};

struct Unsupported {
  const char* model_type;
  const char* field;
  const char* value;
  const char* message;
};
// What a known model_type may ask for and does not get.
constexpr Unsupported kUnsupported[] = {
    {"gemma", "use_bidirectional_attention", "true", "use_bidirectional_attention is true, which is not supported"},
    {"gemma3_text", "final_logit_softcapping", "30", "final_logit_softcapping is set, which is not supported here"},
    {"gemma3_text", "rope_parameters", R"({"sliding_attention": 1, "full_attention": {}})",
     "rope_parameters.sliding_attention is not an object"},
    {"gemma3", "hidden_size", "6", "text_config is missing"},
    {"phi3", "rope_scaling", R"({"rope_type": "longrope", "short_factor": [1, 2, 3]})", "short_factor has 3 entries"},
    {"stablelm", "qk_layernorm", "true", "qk_layernorm is true, which is not supported"},
    {"granite", "logits_scaling", "0", "logits_scaling is 0; limit is"},
    {"smollm3", "no_rope_layers", "[1, 0]", "no_rope_layers has 2 entries; num_hidden_layers is 3"},
    {"smollm3", "use_sliding_window", "true", "use_sliding_window is true, and layer_types is missing"},
    {"cohere", "use_qk_norm", "true", "use_qk_norm is true, which is not supported"},
    {"cohere2", "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 3"},
    {"glm4", "partial_rotary_factor", "0.3", "which rotates 1 of 4 dimensions; it must be an even number"},
    {"exaone4", "sliding_window_pattern", "\"LLLG\"", "sliding_window_pattern is \"LLLG\"; must be an integer"},
    {"ernie4_5", "use_bias", "1", "use_bias is 1; must be true or false"},
    {"seed_oss", "attention_out_bias", "1", "attention_out_bias is 1; must be true or false"},
    {"mixtral", "num_local_experts", "0", "num_local_experts is 0; limit is [1, 1024]"},
    {"mixtral", "num_local_experts", "1025", "num_local_experts is 1025; limit is [1, 1024]"},
    {"mixtral", "num_experts_per_tok", "9", "num_experts_per_tok is 9; limit is [1, 8]"},
    {"mixtral", "num_experts_per_tok", "0", "num_experts_per_tok is 0; limit is [1, 8]"},
    {"qwen2_moe", "num_experts", "3", "num_experts_per_tok is 4 by default; limit is [1, 3]"},
    {"qwen2_moe", "num_experts", "0", "num_experts is 0; limit is [1, 1024]"},
    {"qwen2_moe", "shared_expert_intermediate_size", "0", "shared_expert_intermediate_size is 0; limit is"},
    {"qwen2_moe", "mlp_only_layers", "[-1]", "mlp_only_layers is -1; limit is [0, 1023]"},
    {"qwen3_moe", "moe_intermediate_size", "0", "moe_intermediate_size is 0; limit is [1, 1048576]"},
    {"qwen3_moe", "decoder_sparse_step", "0", "decoder_sparse_step is 0; limit is [1, 1024]"},
    {"qwen3_moe", "norm_topk_prob", "1", "norm_topk_prob is 1; must be true or false"},
    {"granitemoe", "num_experts_per_tok", "100", "num_experts_per_tok is 100; limit is [1, 8]"},
    {"gpt_oss", "swiglu_limit", "6", "swiglu_limit is 6; must be 7"},
    {"gpt_oss", "swiglu_alpha", "2", "swiglu_alpha is 2; must be 1.702"},
    {"gpt_oss", "num_local_experts", "2", "num_experts_per_tok is 4 by default; limit is [1, 2]"},
    {"glm4_moe", "scoring_func", "\"softmax\"", "scoring_func is 'softmax'; known: sigmoid"},
    {"glm4_moe", "n_group", "3", "n_group is 3, which does not divide 128 experts"},
    {"glm4_moe", "n_group", "32", "num_experts_per_tok is 8; the 1 groups of topk_group hold 4 experts"},
    {"glm4_moe", "topk_group", "2", "topk_group is 2; limit is [1, 1]"},
    {"glm4_moe", "n_shared_experts", "0", "n_shared_experts is 0; limit is [1, 744]"},
    {"glm4_moe", "mlp_layer_types", R"(["dense"])", "mlp_layer_types has 1 entries; num_hidden_layers is 3"},
    {"glm4_moe", "mlp_layer_types", R"(["dense", "sparse", "moe"])",
     "mlp_layer_types[2] is 'moe'; known: dense, sparse"},
    {"glm4_moe_lite", "q_lora_rank", "0", "q_lora_rank is 0; limit is [1, 131072]"},
    {"kimi_k25", "hidden_size", "6", "text_config is missing"},
    {"ministral3", "sliding_window", "8", "rope_parameters is missing"},
    {"ministral3", "rope_parameters", R"({"rope_theta": 10000, "llama_4_scaling_beta": 0.1})",
     "rope_parameters: original_max_position_embeddings is missing"},
    {"ministral3", "rope_parameters", R"({"llama_4_scaling_beta": -1})", "llama_4_scaling_beta is -1; limit is"},
    {"minimax_m2", "attn_type_list", "[1, 0, 1]", "attn_type_list is 0; limit is [1, 1]"},
    {"minimax_m2", "shared_intermediate_size", "1024", "shared_intermediate_size is 1024; limit is [0, 0]"},
    {"minimax_m2", "rotary_dim", "6", "rotary_dim is 6; limit is [2, 4]"},
    {"hy_v3", "mlp_bias", "true", "mlp_bias is true, which is not supported"},
    {"hy_v3", "num_shared_experts", "0", "num_shared_experts is 0; limit is [1, 682]"},
    {"solar_open", "n_routed_experts", "4", "num_experts_per_tok is 8 by default; limit is [1, 4]"},
    {"dots1", "rope_theta", "10000", "n_routed_experts is missing"},
    {"exaone_moe", "sliding_window_pattern", "\"LLG\"", "sliding_window_pattern is \"LLG\"; must be an integer"},
    {"youtu", "qk_rope_head_dim", "5", "qk_rope_head_dim is 5; rotary positions need an even one"},
    {"olmoe", "clip_qkv", "8.0", "clip_qkv is set, which is not supported; must be null"},
    {"olmoe", "num_experts_per_tok", "65", "num_experts_per_tok is 65; limit is [1, 64]"},
    {"starcoder2", "hidden_act", "\"relu6\"", "hidden_act is 'relu6'; known"},
    {"nemotron", "partial_rotary_factor", "0.3", "which rotates 1 of 4 dimensions; it must be an even number"},
    {"olmo3", "layer_types", R"(["full_attention"])", "layer_types has 1 entries; num_hidden_layers is 3"},
    {"nomic_bert", "n_embd", "24", "n_layer is missing"},
};

TEST(ModelConfig, FamiliesNameWhatTheyDoNotSupport) {
  for (const Unsupported& row : kUnsupported) {
    const std::string type = absl::StrCat("\"", row.model_type, "\"");
    const std::string config = WithField(WithField(kQwen2Config, "model_type", type), row.field, row.value);
    const auto model = ParseModelConfig(config, "");
    ASSERT_FALSE(model.ok()) << config;
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(row.message)) << config;
  }
}

TEST(ModelConfig, EachBadFieldIsNamedWithValueAndLimit) {
  for (const BadField& bad : kBadFields) ExpectRefused(bad);
}

TEST(ModelConfig, RecurrentLayersAreThoseWithoutFullAttention) {
  const auto by_interval = ParseModelConfig(kQwen35Config, "");
  ASSERT_TRUE(by_interval.ok()) << by_interval.status();
  const ModelConfig& config = by_interval->config;
  EXPECT_THAT(config.mixers, ElementsAre(MixerKind::kDelta, MixerKind::kAttention));
  EXPECT_EQ(config.num_kv_layers(), 1);
  // 16 key heads and 32 value heads of 128: 3 rows before the convolution, then the heads' states.
  EXPECT_EQ(config.state_floats(), 3 * 8192 + 32 * 128 * 128);
  EXPECT_EQ(config.rotary.dim, 2) << "a quarter of a head";
  const auto by_types =
      ParseModelConfig(WithField(kQwen35Config, "layer_types", R"(["full_attention", "linear_attention"])"), "");
  ASSERT_TRUE(by_types.ok()) << by_types.status();
  EXPECT_THAT(by_types->config.mixers, ElementsAre(MixerKind::kAttention, MixerKind::kDelta));
}

TEST(ModelConfig, TooManyEosTokensAreRefused) {
  std::string list = "[0";
  for (int i = 1; i <= 64; ++i) list += ", 0";
  const absl::Status status = ParseModelConfig(WithField(kGpt2Config, "eos_token_id", list + "]"), "").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("eos_token_id has 65 entries; limit is 64"));
}

TEST(ModelConfig, TheGenerationConfigsTokensTakePrecedence) {
  const std::string config = WithField(kGpt2Config, "eos_token_id", "1");
  EXPECT_THAT(ParseModelConfig(config, "")->config.eos_token_ids, ElementsAre(1));
  EXPECT_THAT(ParseModelConfig(config, "{}")->config.eos_token_ids, ElementsAre(1));
  const auto model = ParseModelConfig(config, R"({"eos_token_id": [3, 4]})");
  EXPECT_THAT(model->config.eos_token_ids, ElementsAre(3, 4));
  const absl::Status bad = ParseModelConfig(config, R"({"eos_token_id": "x"})").status();
  EXPECT_THAT(std::string(bad.message()), HasSubstr("generation_config.json: eos_token_id is \"x\""));
  EXPECT_FALSE(ParseModelConfig(config, "[").ok());
}

TEST(ModelConfig, TokensOutsideTheVocabularyAreIgnoredWithAWarning) {
  const auto model = ParseModelConfig(WithField(kGpt2Config, "eos_token_id", "[6, 7, 50256]"), "");
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->config.eos_token_ids, ElementsAre(6));
  ASSERT_EQ(model->warnings.size(), 2U);
  EXPECT_THAT(model->warnings[0], HasSubstr("eos_token_id 7 is ignored: the vocabulary has 7 tokens"));
}

TEST(ModelConfig, ReadsTheNumbersThatPythonWritesAsWords) {
  const std::string config = WithField(kGpt2Config, "time_step_limit", "[0.0, Infinity, NaN]");
  const auto model = ParseModelConfig(config, R"({"eos_token_id": 3, "unused": -Infinity})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->config.eos_token_ids, ElementsAre(3));
  const absl::Status bad = ParseModelConfig(WithField(kGpt2Config, "layer_norm_epsilon", "Infinity"), "").status();
  EXPECT_THAT(std::string(bad.message()), HasSubstr("layer_norm_epsilon is inf; limit is"));
}

}  // namespace
}  // namespace dunlin::engine
