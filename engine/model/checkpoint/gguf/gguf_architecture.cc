// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_architecture.h"

#include <array>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

using enum WeightSlot;
using enum FusedPart;

constexpr uint64_t kMaxNameBytes = 256;

// The concatenation of lists of names.
template <size_t... kCounts>
constexpr auto Join(const WeightName (&... lists)[kCounts]) {
  std::array<WeightName, (kCounts + ...)> all{};
  size_t at = 0;
  const auto append = [&](const auto& list) {
    for (const WeightName& name : list) all[at++] = name;
  };
  (append(lists), ...);
  return all;
}

constexpr WeightName kMatrices[] = {
    {kEmbedding, kAll, "token_embd"},
    {kAttentionOut, kAll, "blk.#.attn_output"},
    {kMlpDown, kAll, "blk.#.ffn_down"},
    {kHead, kAll, "output"},
};
constexpr WeightName kSplitQkv[] = {
    {kQkv, kQuery, "blk.#.attn_q"}, {kQkv, kKey, "blk.#.attn_k"}, {kQkv, kValue, "blk.#.attn_v"}};
constexpr WeightName kFusedQkv[] = {{kQkv, kAll, "blk.#.attn_qkv"}};
constexpr WeightName kGated[] = {{kMlpUp, kGate, "blk.#.ffn_gate"}, {kMlpUp, kUp, "blk.#.ffn_up"}};
constexpr WeightName kPlain[] = {{kMlpUp, kAll, "blk.#.ffn_up"}};
constexpr WeightName kPreNorms[] = {
    {kAttentionNorm, kAll, "blk.#.attn_norm"}, {kMlpNorm, kAll, "blk.#.ffn_norm"}, {kFinalNorm, kAll, "output_norm"}};
constexpr WeightName kQkNorms[] = {{kQueryNorm, kAll, "blk.#.attn_q_norm"}, {kKeyNorm, kAll, "blk.#.attn_k_norm"}};
constexpr WeightName kPostNorms[] = {{kPostAttentionNorm, kAll, "blk.#.post_attention_norm"},
                                     {kPostMlpNorm, kAll, "blk.#.post_ffw_norm"}};
constexpr WeightName kPositionTable[] = {{kPositions, kAll, "position_embd"}};
constexpr WeightName kBertParts[] = {{kPositions, kAll, "position_embd"},
                                     {kTokenTypes, kAll, "token_types"},
                                     {kEmbeddingNorm, kAll, "token_embd_norm"},
                                     {kAttentionNorm, kAll, "blk.#.attn_output_norm"},
                                     {kMlpNorm, kAll, "blk.#.layer_output_norm"}};

constexpr auto kLlamaNames = Join(kMatrices, kSplitQkv, kGated, kPreNorms);
constexpr auto kQwen3Names = Join(kMatrices, kSplitQkv, kGated, kPreNorms, kQkNorms);
constexpr auto kGemma2Names = Join(kMatrices, kSplitQkv, kGated, kPreNorms, kPostNorms);
constexpr auto kPhiNames = Join(kMatrices, kSplitQkv, kPlain, kPreNorms);
constexpr auto kFusedNames = Join(kMatrices, kFusedQkv, kPlain, kPreNorms);
constexpr auto kGpt2Names = Join(kMatrices, kFusedQkv, kPlain, kPreNorms, kPositionTable);
constexpr auto kBertNames = Join(kMatrices, kSplitQkv, kPlain, kBertParts);

constexpr const char* kPrefixes[] = {""};
constexpr const char* kBuffers[] = {kGgufRotaryFactors};

constexpr GgufFieldName kLlamaFields[] = {{"block_count", "num_hidden_layers"},
                                          {"embedding_length", "hidden_size"},
                                          {"feed_forward_length", "intermediate_size"},
                                          {"attention.head_count", "num_attention_heads"},
                                          {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                          {"context_length", "max_position_embeddings"},
                                          {"rope.freq_base", "rope_theta"}};
constexpr GgufFieldName kPhiFields[] = {{"block_count", "num_hidden_layers"},
                                        {"embedding_length", "hidden_size"},
                                        {"feed_forward_length", "intermediate_size"},
                                        {"attention.head_count", "num_attention_heads"},
                                        {"attention.layer_norm_epsilon", "layer_norm_eps"},
                                        {"context_length", "max_position_embeddings"},
                                        {"rope.freq_base", "rope_theta"}};
constexpr GgufFieldName kNeoXFields[] = {{"block_count", "num_hidden_layers"},
                                         {"embedding_length", "hidden_size"},
                                         {"feed_forward_length", "intermediate_size"},
                                         {"attention.head_count", "num_attention_heads"},
                                         {"attention.layer_norm_epsilon", "layer_norm_eps"},
                                         {"context_length", "max_position_embeddings"},
                                         {"rope.freq_base", "rotary_emb_base"}};
constexpr GgufFieldName kGpt2Fields[] = {{"block_count", "n_layer"},
                                         {"embedding_length", "n_embd"},
                                         {"feed_forward_length", "n_inner"},
                                         {"attention.head_count", "n_head"},
                                         {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
                                         {"context_length", "n_positions"}};
constexpr GgufFieldName kBertFields[] = {{"block_count", "num_hidden_layers"},
                                         {"embedding_length", "hidden_size"},
                                         {"feed_forward_length", "intermediate_size"},
                                         {"attention.head_count", "num_attention_heads"},
                                         {"attention.layer_norm_epsilon", "layer_norm_eps"},
                                         {"context_length", "max_position_embeddings"}};

constexpr Architecture Names(const char* name, std::span<const WeightName> weights) {
  return {name, {}, nullptr, kPrefixes, weights, kBuffers};
}

constexpr GgufArchitecture kArchitectures[] = {
    {"llama", "llama", kLlamaFields, nullptr, true, false, Names("llama", kLlamaNames)},
    {"qwen2", "qwen2", kLlamaFields, nullptr, false, false, Names("qwen2", kLlamaNames)},
    {"qwen3", "qwen3", kLlamaFields, nullptr, false, false, Names("qwen3", kQwen3Names)},
    {"gemma2", "gemma2", kLlamaFields, nullptr, false, true, Names("gemma2", kGemma2Names)},
    {"phi2", "phi", kPhiFields, "partial_rotary_factor", false, false, Names("phi", kPhiNames)},
    {"phi2", "phi", kPhiFields, "partial_rotary_factor", false, false, Names("phi", kFusedNames)},
    {"gptneox", "gpt_neox", kNeoXFields, "rotary_pct", false, false, Names("gpt_neox", kFusedNames)},
    {"gpt2", "gpt2", kGpt2Fields, nullptr, false, false, Names("gpt2", kGpt2Names)},
    {"bert", "bert", kBertFields, nullptr, false, false, Names("bert", kBertNames)},
};

bool HasName(const GgufArchitecture& row, std::string_view name) {
  for (const WeightName& weight : row.weights.weights) {
    if (name == weight.name) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<const GgufArchitecture*> SelectGgufArchitecture(const GgufTensors& tensors) {
  GgufFields fields(tensors.first());
  const std::string name = fields.Text("general.architecture", kMaxNameBytes);
  if (!fields.status().ok()) return fields.status();
  const bool fused = tensors.Find("blk.0.attn_qkv.weight") != nullptr;
  const GgufArchitecture* found = nullptr;
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) {
    if (!absl::StrContains(known, row.name)) absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
    if (name != row.name) continue;
    if (found == nullptr || HasName(row, kFusedQkv[0].name) == fused) found = &row;
  }
  if (found != nullptr) return found;
  fields.Fail("general.architecture", absl::StrCat("is '", name.substr(0, 64), "'; known: ", known));
  return fields.status();
}

}  // namespace dunlin::engine
