// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_architecture.h"

#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/gguf/gguf_families.h"
#include "engine/model/checkpoint/gguf/gguf_weight_names.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kMaxNameBytes = 256;

// The fields that most configs of transformers share, with the family's names of two of them.
constexpr std::array<GgufFieldName, 7> Fields(const char* epsilon_key, const char* epsilon, const char* theta) {
  return {{{"block_count", "num_hidden_layers"},
           {"embedding_length", "hidden_size"},
           {"feed_forward_length", "intermediate_size"},
           {"attention.head_count", "num_attention_heads"},
           {"context_length", "max_position_embeddings"},
           {epsilon_key, epsilon},
           {"rope.freq_base", theta}}};
}
constexpr const char* kRmsKey = "attention.layer_norm_rms_epsilon";
constexpr const char* kNormKey = "attention.layer_norm_epsilon";
constexpr auto kRmsFields = Fields(kRmsKey, "rms_norm_eps", "rope_theta");
constexpr auto kNormFields = Fields(kNormKey, "layer_norm_eps", "rope_theta");
constexpr auto kNeoXFields = Fields(kNormKey, "layer_norm_eps", "rotary_emb_base");
constexpr auto kNemotronFields = Fields(kNormKey, "norm_eps", "rope_theta");
constexpr auto kStarcoder2Fields = Fields(kNormKey, "norm_epsilon", "rope_theta");
constexpr auto kModernBertFields = Fields(kNormKey, "norm_eps", "global_rope_theta");
constexpr GgufFieldName kFalconFields[] = {{"block_count", "num_hidden_layers"},
                                           {"embedding_length", "hidden_size"},
                                           {"feed_forward_length", "ffn_hidden_size"},
                                           {"attention.head_count", "num_attention_heads"},
                                           {"context_length", "max_position_embeddings"},
                                           {kNormKey, "layer_norm_epsilon"},
                                           {"rope.freq_base", "rope_theta"}};
constexpr GgufFieldName kGpt2Fields[] = {{"block_count", "n_layer"},         {"embedding_length", "n_embd"},
                                         {"feed_forward_length", "n_inner"}, {"attention.head_count", "n_head"},
                                         {kNormKey, "layer_norm_epsilon"},   {"context_length", "n_positions"}};
constexpr GgufFieldName kBloomFields[] = {{"block_count", "n_layer"},
                                          {"embedding_length", "hidden_size"},
                                          {"attention.head_count", "n_head"},
                                          {kNormKey, "layer_norm_epsilon"},
                                          {"context_length", "seq_length"}};

constexpr const char* kPrefixes[] = {""};
constexpr const char* kBuffers[] = {kGgufRotaryFactors, kGgufShortFactors, kGgufLongFactors};

// Queries of latent attention without a rank.
constexpr NameAlias kAliases[] = {{"attn_q_b", "attn_q"}};

constexpr Architecture NamesOnly(const char* name, std::span<const WeightName> weights) {
  return {name, {}, nullptr, kPrefixes, weights, kBuffers, kAliases};
}

constexpr const char* kFusedQkvTensor = "blk.0.attn_qkv.weight";
constexpr const char* kPartialFactor = "partial_rotary_factor";

constexpr GgufArchitecture kGgufArchitectures[] = {
    {.name = "llama",
     .model_type = "mixtral",
     .fields = kRmsFields,
     .weights = NamesOnly("mixtral", gguf_names::kGated),
     .write_fields = &WriteGgufMixtral,
     .tensor = kGgufRouter,
     .interleaved_rotation = true,
     .experts = true},
    {.name = "llama",
     .model_type = "llama",
     .fields = kRmsFields,
     .weights = NamesOnly("llama", gguf_names::kGated),
     .write_fields = &WriteGgufLlama,
     .interleaved_rotation = true},
    {.name = "qwen2", .model_type = "qwen2", .fields = kRmsFields, .weights = NamesOnly("qwen2", gguf_names::kGated)},
    {.name = "qwen3", .model_type = "qwen3", .fields = kRmsFields, .weights = NamesOnly("qwen3", gguf_names::kGated)},
    {.name = "qwen2moe",
     .model_type = "qwen2_moe",
     .fields = kRmsFields,
     .weights = NamesOnly("qwen2_moe", gguf_names::kGated),
     .write_fields = &WriteGgufQwen2Moe,
     .experts = true},
    {.name = "qwen3moe",
     .model_type = "qwen3_moe",
     .fields = kRmsFields,
     .weights = NamesOnly("qwen3_moe", gguf_names::kGated),
     .write_fields = &WriteGgufQwen3Moe,
     .experts = true},
    {.name = "gpt-oss",
     .model_type = "gpt_oss",
     .fields = kRmsFields,
     .weights = NamesOnly("gpt_oss", gguf_names::kGatedLateNorms),
     .write_fields = &WriteGgufGptOss,
     .experts = true},
    {.name = "gemma",
     .model_type = "gemma",
     .fields = kRmsFields,
     .weights = NamesOnly("gemma", gguf_names::kGated),
     .offset_norms = true},
    {.name = "gemma2",
     .model_type = "gemma2",
     .fields = kRmsFields,
     .weights = NamesOnly("gemma2", gguf_names::kGated),
     .write_fields = &WriteGgufGemma2,
     .offset_norms = true},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .fields = kRmsFields,
     .weights = NamesOnly("gemma3_text", gguf_names::kGated),
     .write_fields = &WriteGgufGemma3,
     .offset_norms = true},
    {.name = "phi3",
     .model_type = "phi3",
     .fields = kRmsFields,
     .weights = NamesOnly("phi3", gguf_names::kPlainFused),
     .write_fields = &WriteGgufWindow,
     .partial_rotary_field = kPartialFactor},
    {.name = "granite",
     .model_type = "granite",
     .fields = kRmsFields,
     .weights = NamesOnly("granite", gguf_names::kGated),
     .write_fields = &WriteGgufGranite,
     .interleaved_rotation = true},
    {.name = "granitemoe",
     .model_type = "granitemoe",
     .fields = kRmsFields,
     .weights = NamesOnly("granitemoe", gguf_names::kGated),
     .write_fields = &WriteGgufGraniteMoe,
     .interleaved_rotation = true,
     .experts = true},
    {.name = "olmo2",
     .model_type = "olmo2",
     .fields = kRmsFields,
     .weights = NamesOnly("olmo2", gguf_names::kGated),
     .write_fields = &WriteGgufOlmo2},
    {.name = "smollm3",
     .model_type = "smollm3",
     .fields = kRmsFields,
     .weights = NamesOnly("smollm3", gguf_names::kGated),
     .interleaved_rotation = true},
    {.name = "seed_oss",
     .model_type = "seed_oss",
     .fields = kRmsFields,
     .weights = NamesOnly("seed_oss", gguf_names::kGatedLateNorms)},
    {.name = "ernie4_5",
     .model_type = "ernie4_5",
     .fields = kRmsFields,
     .weights = NamesOnly("ernie4_5", gguf_names::kGated),
     .interleaved_rotation = true},
    {.name = "exaone4",
     .model_type = "exaone4",
     .fields = kRmsFields,
     .weights = NamesOnly("exaone4", gguf_names::kGated),
     .write_fields = &WriteGgufExaone4},
    {.name = "chatglm",
     .model_type = "glm",
     .fields = kRmsFields,
     .weights = NamesOnly("glm", gguf_names::kPlainFused),
     .tensor = kFusedQkvTensor,
     .partial_rotary_field = kPartialFactor,
     .interleaved_rotation = true},
    {.name = "chatglm",
     .model_type = "glm",
     .fields = kRmsFields,
     .weights = NamesOnly("glm", gguf_names::kPlain),
     .partial_rotary_field = kPartialFactor,
     .interleaved_rotation = true},
    {.name = "glm4",
     .model_type = "glm4",
     .fields = kRmsFields,
     .weights = NamesOnly("glm4", gguf_names::kPlain),
     .partial_rotary_field = kPartialFactor,
     .interleaved_rotation = true},
    {.name = "glm4moe",
     .model_type = "glm4_moe",
     .fields = kRmsFields,
     .weights = NamesOnly("glm4_moe", gguf_names::kGatedLateNorms),
     .write_fields = &WriteGgufGlm4Moe,
     .partial_rotary_field = kPartialFactor,
     .experts = true},
    {.name = "olmoe",
     .model_type = "olmoe",
     .fields = kRmsFields,
     .weights = NamesOnly("olmoe", gguf_names::kGated),
     .experts = true},
    {.name = "deepseek2",
     .model_type = "deepseek_v2",
     .fields = kRmsFields,
     .weights = NamesOnly("deepseek_v2", gguf_names::kGatedLatentRows),
     .write_fields = &WriteGgufDeepseek2,
     .tensor = kGgufHeadRows,
     .experts = true,
     .latent_attention = true},
    {.name = "deepseek2",
     .model_type = "deepseek_v2",
     .fields = kRmsFields,
     .weights = NamesOnly("deepseek_v2", gguf_names::kGatedLatent),
     .write_fields = &WriteGgufDeepseek2,
     .experts = true,
     .latent_attention = true},
    {.name = "command-r",
     .model_type = "cohere",
     .fields = kNormFields,
     .weights = NamesOnly("cohere", gguf_names::kGated),
     .write_fields = &WriteGgufCohere,
     .interleaved_rotation = true},
    {.name = "cohere2",
     .model_type = "cohere2",
     .fields = kNormFields,
     .weights = NamesOnly("cohere2", gguf_names::kGated),
     .write_fields = &WriteGgufCohere2,
     .interleaved_rotation = true},
    {.name = "stablelm",
     .model_type = "stablelm",
     .fields = kNormFields,
     .weights = NamesOnly("stablelm", gguf_names::kGated),
     .write_fields = &WriteGgufStablelm,
     .partial_rotary_field = kPartialFactor},
    {.name = "starcoder2",
     .model_type = "starcoder2",
     .fields = kStarcoder2Fields,
     .weights = NamesOnly("starcoder2", gguf_names::kPlain),
     .write_fields = &WriteGgufWindow},
    {.name = "nemotron",
     .model_type = "nemotron",
     .fields = kNemotronFields,
     .weights = NamesOnly("nemotron", gguf_names::kPlain),
     .partial_rotary_field = kPartialFactor,
     .offset_norms = true},
    {.name = "falcon",
     .model_type = "falcon",
     .fields = kFalconFields,
     .weights = NamesOnly("falcon", gguf_names::kPlainParallelNorms),
     .write_fields = &WriteGgufFalcon,
     .tensor = "blk.0.attn_norm_2.weight",
     .head_dim_follows = true},
    {.name = "falcon",
     .model_type = "falcon",
     .fields = kFalconFields,
     .weights = NamesOnly("falcon", gguf_names::kPlainFused),
     .write_fields = &WriteGgufFalcon,
     .head_dim_follows = true},
    {.name = "bloom",
     .model_type = "bloom",
     .fields = kBloomFields,
     .weights = NamesOnly("bloom", gguf_names::kPlainFused),
     .head_dim_follows = true,
     .fixed_biases = true},
    {.name = "phi2",
     .model_type = "phi",
     .fields = kNormFields,
     .weights = NamesOnly("phi", gguf_names::kPlainFused),
     .tensor = kFusedQkvTensor,
     .partial_rotary_field = kPartialFactor,
     .fixed_biases = true},
    {.name = "phi2",
     .model_type = "phi",
     .fields = kNormFields,
     .weights = NamesOnly("phi", gguf_names::kPlain),
     .partial_rotary_field = kPartialFactor,
     .fixed_biases = true},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .fields = kNeoXFields,
     .weights = NamesOnly("gpt_neox", gguf_names::kPlainFused),
     .write_fields = &WriteGgufGptNeoX,
     .partial_rotary_field = "rotary_pct",
     .head_dim_follows = true,
     .fixed_biases = true},
    {.name = "gpt2",
     .model_type = "gpt2",
     .fields = kGpt2Fields,
     .weights = NamesOnly("gpt2", gguf_names::kPlainFused),
     .head_dim_follows = true,
     .fixed_biases = true},
    {.name = "bert",
     .model_type = "bert",
     .fields = kNormFields,
     .weights = NamesOnly("bert", gguf_names::kEncoder),
     .write_fields = &WriteGgufBert,
     .head_dim_follows = true,
     .fixed_biases = true},
    {.name = "nomic-bert",
     .model_type = "nomic_bert",
     .fields = kNormFields,
     .weights = NamesOnly("nomic_bert", gguf_names::kEncoderFused),
     .write_fields = &WriteGgufBert,
     .fixed_biases = true},
    {.name = "modern-bert",
     .model_type = "modernbert",
     .fields = kModernBertFields,
     .weights = NamesOnly("modernbert", gguf_names::kPlainFused),
     .write_fields = &WriteGgufModernBert,
     .head_dim_follows = true,
     .fixed_biases = true},
};

}  // namespace

absl::StatusOr<const GgufArchitecture*> SelectGgufArchitecture(const GgufTensors& tensors) {
  GgufFields fields(tensors.first());
  const std::string name = fields.Text("general.architecture", kMaxNameBytes);
  if (!fields.status().ok()) return fields.status();
  std::string known;
  std::string_view last;
  for (const GgufArchitecture& row : kGgufArchitectures) {
    const bool fits = row.tensor == nullptr || tensors.Find(row.tensor) != nullptr;
    if (name == row.name && fits) return &row;
    if (last != row.name) absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
    last = row.name;
  }
  fields.Fail("general.architecture", absl::StrCat("is '", name.substr(0, 64), "'; known: ", known));
  return fields.status();
}

}  // namespace dunlin::engine
