// SPDX-License-Identifier: Apache-2.0
// The names that GGUF files give the weights of a model. Lists hold more than any one family has: a config says which
// of the weights exist (HasSlot). Source: github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py (TENSOR_NAMES).
#pragma once

#include <array>
#include <cstddef>

#include "engine/model/spec/checkpoint_names.h"

namespace dunlin::engine::gguf_names {

using enum WeightSlot;
using enum FusedPart;

template <size_t kCount>
using Names = std::array<WeightName, kCount>;

// The concatenation of lists.
template <size_t... kCounts>
constexpr auto Join(const Names<kCounts>&... lists) {
  Names<(kCounts + ...)> all{};
  size_t at = 0;
  const auto append = [&](const auto& list) {
    for (const WeightName& name : list) all[at++] = name;
  };
  (append(lists), ...);
  return all;
}

inline constexpr Names<6> kCommon = {{{kEmbedding, kAll, "token_embd"},
                                      {kEmbeddingNorm, kAll, "token_embd_norm"},
                                      {kTokenTypes, kAll, "token_types"},
                                      {kPositions, kAll, "position_embd"},
                                      {kHead, kAll, "output"},
                                      {kAttentionOut, kAll, "blk.#.attn_output"}}};
inline constexpr Names<3> kSplitQkv = {
    {{kQkv, kQuery, "blk.#.attn_q"}, {kQkv, kKey, "blk.#.attn_k"}, {kQkv, kValue, "blk.#.attn_v"}}};
inline constexpr Names<1> kFusedQkv = {{{kQkv, kAll, "blk.#.attn_qkv"}}};
inline constexpr Names<3> kQkNorms = {{{kQueryNorm, kAll, "blk.#.attn_q_norm"},
                                       {kKeyNorm, kAll, "blk.#.attn_k_norm"},
                                       {kAttentionSinks, kAll, "blk.#.attn_sinks"}}};

// An MLP of three matrices, and of two (gate and up are one matrix, or there is no gate).
inline constexpr Names<3> kGatedMlp = {
    {{kMlpUp, kGate, "blk.#.ffn_gate"}, {kMlpUp, kUp, "blk.#.ffn_up"}, {kMlpDown, kAll, "blk.#.ffn_down"}}};
inline constexpr Names<2> kPlainMlp = {{{kMlpUp, kAll, "blk.#.ffn_up"}, {kMlpDown, kAll, "blk.#.ffn_down"}}};
// Experts are stacked: "blk.0.ffn_up_exps.weight" [num_experts, rows, columns].
inline constexpr Names<9> kExpertNames = {
    {{kRouter, kExperts, "blk.#.ffn_gate_inp"},
     {kRouter, kSharedGate, "blk.#.ffn_gate_inp_shexp"},
     {.slot = kRouterCorrection, .part = kAll, .name = "blk.#.exp_probs_b", .weight = ".bias"},
     {kExpertUp, kGate, "blk.#.ffn_gate_exps.@"},
     {kExpertUp, kUp, "blk.#.ffn_up_exps.@"},
     {kExpertDown, kAll, "blk.#.ffn_down_exps.@"},
     {kSharedUp, kGate, "blk.#.ffn_gate_shexp"},
     {kSharedUp, kUp, "blk.#.ffn_up_shexp"},
     {kSharedDown, kAll, "blk.#.ffn_down_shexp"}}};

// Multi-head latent attention. The key and value matrices of the heads are two stacks, or rows of one tensor in files
// of older converters, whose key matrices are stored transposed.
inline constexpr Names<5> kLatent = {{{kQueryDown, kAll, "blk.#.attn_q_a"},
                                      {kQueryDownNorm, kAll, "blk.#.attn_q_a_norm"},
                                      {kLatentQuery, kAll, "blk.#.attn_q_b"},
                                      {kKvDown, kLatentAndRotary, "blk.#.attn_kv_a_mqa"},
                                      {kKvDownNorm, kAll, "blk.#.attn_kv_a_norm"}}};
inline constexpr Names<2> kHeadStacks = {{{kKeyUp, kAll, "blk.#.attn_k_b.@"}, {kValueUp, kAll, "blk.#.attn_v_b.@"}}};
inline constexpr Names<2> kHeadRows = {
    {{kKeyUp, kAll, "blk.#.attn_kv_b.@.key", true, true}, {kValueUp, kAll, "blk.#.attn_kv_b.@.value"}}};

// The indexer of sparse attention.
inline constexpr Names<4> kIndexer = {{{kIndexQuery, kAll, "blk.#.indexer.attn_q_b"},
                                       {kIndexKey, kAll, "blk.#.indexer.attn_k"},
                                       {kIndexKeyNorm, kAll, "blk.#.indexer.k_norm"},
                                       {kIndexWeights, kAll, "blk.#.indexer.proj"}}};

inline constexpr Names<1> kHeadGate = {{{kAttentionGate, kAll, "blk.#.attn_gate"}}};

// Gated delta nets, whose gates are two tensors or one, and attention whose queries share a matrix with its output
// gate.
inline constexpr Names<4> kGatedQkv = {{{kQkv, kQueryOfPairs, "blk.#.attn_q"},
                                        {kQkv, kKey, "blk.#.attn_k"},
                                        {kQkv, kValue, "blk.#.attn_v"},
                                        {kAttentionGate, kGateOfPairs, "blk.#.attn_q"}}};
inline constexpr Names<7> kDeltaNet = {
    {{kDeltaIn, kDeltaQkv, "blk.#.attn_qkv"},
     {kDeltaIn, kDeltaZ, "blk.#.attn_gate"},
     {kDeltaConv, kAll, "blk.#.ssm_conv1d"},
     {.slot = kDeltaRate, .part = kAll, .name = "blk.#.ssm_a", .weight = ""},
     {.slot = kDeltaTimeBias, .part = kAll, .name = "blk.#.ssm_dt", .weight = ".bias"},
     {kDeltaNorm, kAll, "blk.#.ssm_norm"},
     {kDeltaOut, kAll, "blk.#.ssm_out"}}};
inline constexpr Names<2> kBetaAndAlpha = {
    {{kDeltaGates, kBeta, "blk.#.ssm_beta"}, {kDeltaGates, kAlpha, "blk.#.ssm_alpha"}}};
inline constexpr Names<1> kBetaWithAlpha = {{{kDeltaGates, kBetaAlphaByHead, "blk.#.ssm_ba"}}};

// Of Kimi Linear: gated delta nets with a decay of each channel.
inline constexpr Names<15> kChannelDeltaNet = {
    {{kDeltaIn, kDeltaQuery, "blk.#.attn_q"},
     {kDeltaIn, kDeltaKey, "blk.#.attn_k"},
     {kDeltaIn, kDeltaValue, "blk.#.attn_v"},
     {kDeltaConv, kDeltaQuery, "blk.#.ssm_conv1d_q"},
     {kDeltaConv, kDeltaKey, "blk.#.ssm_conv1d_k"},
     {kDeltaConv, kDeltaValue, "blk.#.ssm_conv1d_v"},
     {kDeltaGates, kBeta, "blk.#.ssm_beta"},
     {kDeltaGates, kDecayRank, "blk.#.ssm_f_a"},
     {kDeltaGates, kOutputGateRank, "blk.#.ssm_g_a"},
     {kDeltaDecay, kAll, "blk.#.ssm_f_b"},
     {kDeltaOutputGate, kAll, "blk.#.ssm_g_b"},
     {.slot = kDeltaRate, .part = kAll, .name = "blk.#.ssm_a", .weight = ""},
     {.slot = kDeltaTimeBias, .part = kAll, .name = "blk.#.ssm_dt", .weight = ".bias"},
     {kDeltaNorm, kAll, "blk.#.ssm_norm"},
     {kDeltaOut, kAll, "blk.#.attn_output"}}};

inline constexpr Names<3> kShortConvs = {{{kShortConvIn, kAll, "blk.#.shortconv.in_proj"},
                                          {kShortConvTaps, kAll, "blk.#.shortconv.conv"},
                                          {kShortConvOut, kAll, "blk.#.shortconv.out_proj"}}};

// Mamba2 layers; experts without a gate, on latent rows, too; the one norm of layers of one term.
inline constexpr Names<8> kMamba = {
    {{kMambaIn, kAll, "blk.#.ssm_in"},
     {kMambaConv, kAll, "blk.#.ssm_conv1d"},
     {.slot = kMambaConvBias, .part = kAll, .name = "blk.#.ssm_conv1d", .weight = ".bias"},
     {.slot = kMambaRate, .part = kAll, .name = "blk.#.ssm_a", .weight = ""},
     {.slot = kMambaTimeBias, .part = kAll, .name = "blk.#.ssm_dt", .weight = ".bias"},
     {.slot = kMambaSkip, .part = kAll, .name = "blk.#.ssm_d", .weight = ""},
     {kMambaNorm, kAll, "blk.#.ssm_norm"},
     {kMambaOut, kAll, "blk.#.ssm_out"}}};
inline constexpr Names<8> kPlainExperts = {
    {{kRouter, kExperts, "blk.#.ffn_gate_inp"},
     {.slot = kRouterCorrection, .part = kAll, .name = "blk.#.exp_probs_b", .weight = ".bias"},
     {kLatentIn, kAll, "blk.#.ffn_latent_down"},
     {kLatentOut, kAll, "blk.#.ffn_latent_up"},
     {kExpertUp, kAll, "blk.#.ffn_up_exps.@"},
     {kExpertDown, kAll, "blk.#.ffn_down_exps.@"},
     {kSharedUp, kAll, "blk.#.ffn_up_shexp"},
     {kSharedDown, kAll, "blk.#.ffn_down_shexp"}}};
inline constexpr Names<3> kTermNorms = {{{kAttentionNorm, kAll, "blk.#.attn_norm"},
                                         {kMlpNorm, kAll, "blk.#.attn_norm"},
                                         {kFinalNorm, kAll, "output_norm"}}};

// Gemma 4: per-layer embeddings, factors of layers, keys that are values, and experts next to an MLP, whose gate and up
// are one stack.
inline constexpr Names<8> kLayerInputs = {{{kQkv, kKeyAndValue, "blk.#.attn_k"},
                                           {kLayerTable, kAll, "per_layer_token_embd"},
                                           {kLayerProjection, kAll, "per_layer_model_proj"},
                                           {kLayerProjectionNorm, kAll, "per_layer_proj_norm"},
                                           {kLayerInputGate, kAll, "blk.#.inp_gate"},
                                           {kLayerInputOut, kAll, "blk.#.proj"},
                                           {kPostLayerInputNorm, kAll, "blk.#.post_norm"},
                                           {kLayerFactor, kAll, "blk.#.layer_output_scale"}}};
inline constexpr Names<5> kBesideMlp = {
    {{.slot = kRouterNorm, .part = kAll, .name = "blk.#.ffn_gate_inp", .weight = ".scale"},
     {.slot = kExpertScales, .part = kAll, .name = "blk.#.ffn_down_exps", .weight = ".scale"},
     {kExpertsNorm, kAll, "blk.#.pre_ffw_norm_2"},
     {kPostDenseNorm, kAll, "blk.#.post_ffw_norm_1"},
     {kPostExpertsNorm, kAll, "blk.#.post_ffw_norm_2"}}};
inline constexpr Names<3> kFusedExperts = {{{kRouter, kExperts, "blk.#.ffn_gate_inp"},
                                            {kExpertUp, kAll, "blk.#.ffn_gate_up_exps.@"},
                                            {kExpertDown, kAll, "blk.#.ffn_down_exps.@"}}};

inline constexpr Names<3> kSharedExperts = {{{kSharedUp, kGate, "blk.#.ffn_gate_shexp"},
                                             {kSharedUp, kUp, "blk.#.ffn_up_shexp"},
                                             {kSharedDown, kAll, "blk.#.ffn_down_shexp"}}};

// Norms before the attention and the MLP, and behind both.
inline constexpr Names<5> kNorms = {{{kAttentionNorm, kAll, "blk.#.attn_norm"},
                                     {kPostAttentionNorm, kAll, "blk.#.post_attention_norm"},
                                     {kMlpNorm, kAll, "blk.#.ffn_norm"},
                                     {kPostMlpNorm, kAll, "blk.#.post_ffw_norm"},
                                     {kFinalNorm, kAll, "output_norm"}}};
// Some families keep transformers' name of the norm before the MLP.
inline constexpr Names<3> kLateNorms = {{{kAttentionNorm, kAll, "blk.#.attn_norm"},
                                         {kMlpNorm, kAll, "blk.#.post_attention_norm"},
                                         {kFinalNorm, kAll, "output_norm"}}};
// Of Falcon-H1's files one name has no ending: gguf-py's list of names has the whole name of its source.
inline constexpr Names<3> kBareMlpNorm = {{{kAttentionNorm, kAll, "blk.#.attn_norm"},
                                           {.slot = kMlpNorm, .part = kAll, .name = "blk.#.ffn_norm", .weight = ""},
                                           {kFinalNorm, kAll, "output_norm"}}};
// LFM2's norm before the head has the name that others give one after the embeddings.
inline constexpr Names<3> kShortConvNorms = {{{kAttentionNorm, kAll, "blk.#.attn_norm"},
                                              {kMlpNorm, kAll, "blk.#.ffn_norm"},
                                              {kFinalNorm, kAll, "token_embd_norm"}}};
// Of Falcon 40B's two norms of one input attn_norm_2 is the attention's.
inline constexpr Names<3> kParallelNorms = {{{kAttentionNorm, kAll, "blk.#.attn_norm_2"},
                                             {kMlpNorm, kAll, "blk.#.attn_norm"},
                                             {kFinalNorm, kAll, "output_norm"}}};
inline constexpr Names<2> kEncoderNorms = {
    {{kAttentionNorm, kAll, "blk.#.attn_output_norm"}, {kMlpNorm, kAll, "blk.#.layer_output_norm"}}};

inline constexpr auto kGated = Join(kCommon, kSplitQkv, kQkNorms, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kGatedPlainHeads = Join(kCommon, kSplitQkv, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kGatedHeads = Join(kCommon, kSplitQkv, kQkNorms, kHeadGate, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kGatedLateNorms = Join(kCommon, kSplitQkv, kQkNorms, kGatedMlp, kExpertNames, kLateNorms);
inline constexpr auto kGatedLatent = Join(kCommon, kLatent, kHeadStacks, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kFusedLatent =
    Join(kCommon, kLatent, kHeadStacks, kGatedMlp, kFusedExperts, kSharedExperts, kNorms);
inline constexpr auto kSparseLatent = Join(kCommon, kLatent, kHeadStacks, kIndexer, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kGatedLatentRows = Join(kCommon, kLatent, kHeadRows, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kHybrid =
    Join(kCommon, kGatedQkv, kDeltaNet, kBetaAndAlpha, kQkNorms, kGatedMlp, kExpertNames, kLateNorms);
inline constexpr auto kHybridByHead =
    Join(kCommon, kGatedQkv, kDeltaNet, kBetaWithAlpha, kQkNorms, kGatedMlp, kExpertNames, kLateNorms);
inline constexpr auto kLatentHybrid =
    Join(kCommon, kLatent, kHeadStacks, kChannelDeltaNet, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kGatedShortConvs =
    Join(kCommon, kSplitQkv, kShortConvs, kQkNorms, kGatedMlp, kExpertNames, kShortConvNorms);
inline constexpr auto kMambaHybrid = Join(kCommon, kSplitQkv, kMamba, kGatedMlp, kExpertNames, kNorms);
inline constexpr auto kParallelMamba = Join(kCommon, kSplitQkv, kMamba, kGatedMlp, kBareMlpNorm);
inline constexpr auto kMambaTerms = Join(kCommon, kSplitQkv, kMamba, kPlainMlp, kPlainExperts, kTermNorms);
inline constexpr auto kLayerInputsDense = Join(kCommon, kSplitQkv, kQkNorms, kGatedMlp, kNorms, kLayerInputs);
inline constexpr auto kLayerInputsExperts = Join(kLayerInputsDense, kBesideMlp, kExpertNames);
inline constexpr auto kLayerInputsFused = Join(kLayerInputsDense, kBesideMlp, kFusedExperts);
inline constexpr auto kPlain = Join(kCommon, kSplitQkv, kPlainMlp, kNorms);
inline constexpr auto kPlainFused = Join(kCommon, kFusedQkv, kPlainMlp, kNorms);
inline constexpr auto kPlainParallelNorms = Join(kCommon, kFusedQkv, kPlainMlp, kParallelNorms);
inline constexpr auto kEncoder = Join(kCommon, kSplitQkv, kPlainMlp, kEncoderNorms);
inline constexpr auto kEncoderFused = Join(kCommon, kFusedQkv, kGatedMlp, kEncoderNorms);

}  // namespace dunlin::engine::gguf_names
