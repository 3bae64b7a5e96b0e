// SPDX-License-Identifier: Apache-2.0
// Which weights a layer has, and their dimensions: what the rows of kWeightSlotTable say of a config. Pure.
#pragma once

#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine::slot_rows {

using C = ModelConfig;

// Whether a layer has a weight.
inline constexpr auto kReadsTokens = [](const C& c, int32_t) { return !c.is_image_encoder(); };
inline constexpr auto kReadsImages = [](const C& c, int32_t) { return c.is_image_encoder(); };
inline constexpr auto kMergesByMatrix = [](const C& c, int32_t) {
  return c.is_image_encoder() && c.image.merge_matrix;
};
inline constexpr auto kHasPatchPositions = [](const C& c, int32_t) { return c.image.position_side > 0; };
inline constexpr auto kHasPositions = [](const C& c, int32_t) { return c.embedding.learned_positions; };
inline constexpr auto kHasTokenTypes = [](const C& c, int32_t) { return c.embedding.num_token_types > 0; };
inline constexpr auto kHasEmbeddingNorm = [](const C& c, int32_t) { return c.has_embedding_norm(); };
inline constexpr auto kHasAttentionNorm = [](const C& c, int32_t layer) {
  return c.norm.placement_of(layer) != NormPlacement::kPostInside && !(layer == 0 && c.norm.first_absent) &&
         c.mixer(layer) != MixerKind::kNone;
};
inline constexpr auto kHasLayerInputs = [](const C& c, int32_t) { return c.has_layer_inputs(); };
inline constexpr auto kAttends = [](const C& c, int32_t layer) { return c.attends(layer); };
inline constexpr auto kHasQkv = [](const C& c, int32_t layer) {
  return c.attends(layer) && !c.attention.is_latent() && !c.attention.is_compressed();
};
inline constexpr auto kHasGate = [](const C& c, int32_t layer) { return c.attends(layer) && c.attention.output_gate; };
inline constexpr auto kHasQkNorms = [](const C& c, int32_t layer) {
  const bool in_layer = !c.attention.norms_of_rotated || c.rotary.index(layer) >= 0;
  return c.attends(layer) && c.attention.qk_norm && in_layer;
};
inline constexpr auto kHasKeyNorm = [](const C& c, int32_t layer) {
  return kHasQkNorms(c, layer) && c.attention.stores_kv(layer);
};
inline constexpr auto kHasSinks = [](const C& c, int32_t layer) {
  return c.attends(layer) && c.attention.has_sinks(layer);
};
inline constexpr auto kIsDelta = [](const C& c, int32_t layer) { return c.mixer(layer) == MixerKind::kDelta; };
inline constexpr auto kIsChannelDelta = [](const C& c, int32_t layer) {
  return kIsDelta(c, layer) && c.delta.decays_by_channel();
};
inline constexpr auto kHasDeltaRank = [](const C& c, int32_t layer) {
  return kIsDelta(c, layer) && c.delta.gate_rank > 0;
};
inline constexpr auto kIsShortConv = [](const C& c, int32_t layer) { return c.mixer(layer) == MixerKind::kShortConv; };
inline constexpr auto kHasShortConvBias = [](const C& c, int32_t layer) {
  return kIsShortConv(c, layer) && c.short_conv.bias;
};
inline constexpr auto kHasMamba = [](const C& c, int32_t layer) { return c.has_mamba(layer); };
inline constexpr auto kHasMambaConvBias = [](const C& c, int32_t layer) {
  return c.has_mamba(layer) && c.mamba.conv_bias;
};
inline constexpr auto kHasMambaNorm = [](const C& c, int32_t layer) {
  return c.has_mamba(layer) && c.mamba.norm != MambaNorm::kNone;
};
inline constexpr auto kHasLatent = [](const C& c, int32_t layer) {
  return c.attends(layer) && c.attention.is_latent();
};
inline constexpr auto kIsCompressed = [](const C& c, int32_t) { return c.attention.is_compressed(); };
// One row of a token is its key and its value.
inline constexpr auto kHasKvRow = [](const C& c, int32_t layer) {
  return kHasLatent(c, layer) || kIsCompressed(c, layer);
};
inline constexpr auto kHasQueryDown = [](const C& c, int32_t layer) {
  return kHasKvRow(c, layer) && c.attention.latent.query_rank > 0;
};
inline constexpr auto kHasEntries = [](const C& c, int32_t layer) { return c.attention.compressed.rate(layer) > 0; };
inline constexpr auto kChoosesEntries = [](const C& c, int32_t layer) {
  return c.attention.compressed.chooses_in(layer);
};
inline constexpr auto kHasIndexQueries = [](const C& c, int32_t layer) {
  return c.attention.has_indexer(layer) || kChoosesEntries(c, layer);
};
inline constexpr auto kHasIndexWeights = [](const C& c, int32_t layer) {
  return kHasIndexQueries(c, layer) && !c.attention.indexer.by_blocks();
};
inline constexpr auto kHasIndexQueryNorm = [](const C& c, int32_t layer) {
  return kHasIndexQueries(c, layer) && c.attention.indexer.by_blocks();
};
inline constexpr auto kHasStreams = [](const C& c, int32_t) { return c.has_streams(); };
inline constexpr auto kHasIndexer = [](const C& c, int32_t layer) { return c.attention.has_indexer(layer); };
inline constexpr auto kHasPostNorms = [](const C& c, int32_t layer) { return c.norm.has_post(layer); };
inline constexpr auto kHasMlpNorm = [](const C& c, int32_t layer) {
  return c.has_mlp(layer) && !c.norm.shared && c.norm.placement_of(layer) != NormPlacement::kPostInside;
};
inline constexpr auto kHasMlp = [](const C& c, int32_t layer) {
  return c.has_mlp(layer) && (!c.experts.in_layer(layer) || c.experts.beside_mlp);
};
inline constexpr auto kHasCurve = [](const C& c, int32_t layer) { return kHasMlp(c, layer) && c.mlp.learned_curve; };
inline constexpr auto kHasBoth = [](const C& c, int32_t layer) {
  return c.experts.in_layer(layer) && c.experts.beside_mlp;
};
inline constexpr auto kHasExperts = [](const C& c, int32_t layer) { return c.experts.in_layer(layer); };
inline constexpr auto kHasCorrection = [](const C& c, int32_t layer) {
  return c.experts.router_correction && c.experts.in_layer(layer) && !c.experts.chooses_by_token(layer);
};
inline constexpr auto kChoosesByToken = [](const C& c, int32_t layer) { return c.experts.chooses_by_token(layer); };
inline constexpr auto kHasLatentExperts = [](const C& c, int32_t layer) {
  return c.experts.latent_dim > 0 && c.experts.in_layer(layer);
};
inline constexpr auto kHasSharedExpert = [](const C& c, int32_t layer) {
  return c.experts.shared_ffn_dim > 0 && c.experts.in_layer(layer);
};
inline constexpr auto kHasFactor = [](const C& c, int32_t) { return c.layer_factor; };
inline constexpr auto kPredicts = [](const C& c, int32_t layer) { return c.predicts(layer); };
inline constexpr auto kHasPredictorHead = [](const C& c, int32_t layer) {
  return c.predicts(layer) && c.predictor.own_head;
};
inline constexpr auto kHasFinalNorm = [](const C& c, int32_t) {
  return c.norm.placement != NormPlacement::kPost && !c.is_image_encoder();
};
inline constexpr auto kHasHead = [](const C& c, int32_t) { return !c.is_encoder() && !c.head.tied; };
inline constexpr auto kHasClassifier = [](const C& c, int32_t) { return c.classifier.num_labels > 0; };
inline constexpr auto kHasClassifierNorm = [](const C& c, int32_t) {
  return c.classifier.num_labels > 0 && c.classifier.norm;
};

inline constexpr auto kNormBias = [](const C& c) { return c.norm.bias; };
inline constexpr auto kQkvBias = [](const C& c) { return c.attention.qkv_bias; };
inline constexpr auto kIndexerBias = [](const C& c) { return !c.attention.indexer.by_blocks(); };
inline constexpr auto kOutBias = [](const C& c) { return c.attention.out_bias; };
inline constexpr auto kShortConvsBias = [](const C& c) { return c.short_conv.bias; };
inline constexpr auto kMambaBias = [](const C& c) { return c.mamba.bias; };
inline constexpr auto kMlpBias = [](const C& c) { return c.mlp.bias; };
inline constexpr auto kRouterBias = [](const C& c) { return c.experts.router_bias; };
inline constexpr auto kExpertBias = [](const C& c) { return c.experts.bias; };
inline constexpr auto kHeadBias = [](const C& c) { return c.head.bias; };
inline constexpr auto kDenseBias = [](const C& c) { return c.classifier.num_labels > 0 && c.classifier.dense_bias; };
inline constexpr auto kLabelBias = [](const C& c) { return c.classifier.num_labels > 0; };
inline constexpr auto kProjectorBias = [](const C& c) { return c.image.projector_bias; };
inline constexpr auto kPatchBias = [](const C& c) { return c.image.patch_bias; };

// Dimensions.
inline constexpr auto kOne = [](const C&, int32_t) { return int64_t{1}; };
inline constexpr auto kCurveNumbers = [](const C&, int32_t) { return int64_t{4}; };
inline constexpr auto kHidden = [](const C& c, int32_t) { return int64_t{c.hidden_dim}; };
inline constexpr auto kTwiceHidden = [](const C& c, int32_t) { return 2 * int64_t{c.hidden_dim}; };
inline constexpr auto kVocabulary = [](const C& c, int32_t) { return int64_t{c.part(c.vocab_size).count}; };
// Of what a layer adds to the residual stream, whose products a rank has all inputs of.
inline constexpr auto kHiddenPart = [](const C& c, int32_t) { return int64_t{c.part(c.hidden_dim).count}; };
inline constexpr auto kExpertPart = [](const C& c, int32_t) { return int64_t{c.part(c.expert_dim()).count}; };
inline constexpr auto kPositionRows = [](const C& c, int32_t) { return int64_t{c.position_rows()}; };
inline constexpr auto kTokenTypeRows = [](const C& c, int32_t) { return int64_t{c.embedding.num_token_types}; };
inline constexpr auto kQkvRows = [](const C& c, int32_t layer) { return int64_t{c.attention.qkv_features(layer)}; };
inline constexpr auto kQueryNormDim = [](const C& c, int32_t layer) {
  const HeadShape shape = c.undivided().attention.heads(layer);
  return int64_t{c.attention.qk_norm_joint ? shape.num_heads : 1} * shape.head_dim;
};
inline constexpr auto kKeyNormDim = [](const C& c, int32_t layer) {
  const HeadShape shape = c.undivided().attention.heads(layer);
  return int64_t{c.attention.qk_norm_joint ? shape.num_kv_heads : 1} * shape.head_dim;
};
inline constexpr auto kNumHeads = [](const C& c, int32_t layer) { return int64_t{c.attention.heads(layer).num_heads}; };
inline constexpr auto kHeadDim = [](const C& c, int32_t) { return int64_t{c.attention.head_dim}; };
inline constexpr auto kAttentionDim = [](const C& c, int32_t layer) {
  return int64_t{c.undivided().attention.output_features(layer)};
};
inline constexpr auto kGateRows = [](const C& c, int32_t layer) { return int64_t{c.attention.gate_features(layer)}; };
inline constexpr auto kDeltaInRows = [](const C& c, int32_t) { return int64_t{c.delta.input_features()}; };
inline constexpr auto kDeltaGateRows = [](const C& c, int32_t) { return int64_t{c.delta.gate_features()}; };
inline constexpr auto kDeltaConvDim = [](const C& c, int32_t) {
  return int64_t{c.delta.conv_taps} * c.delta.channels();
};
inline constexpr auto kDeltaHeads = [](const C& c, int32_t) { return int64_t{c.delta.shape.value_heads}; };
inline constexpr auto kDeltaHeadDim = [](const C& c, int32_t) { return int64_t{c.delta.shape.value_dim}; };
inline constexpr auto kDeltaDecays = [](const C& c, int32_t) { return int64_t{c.delta.decay_features()}; };
inline constexpr auto kDecayInput = [](const C& c, int32_t) {
  return int64_t{c.delta.gate_rank > 0 ? c.delta.gate_rank : c.hidden_dim};
};
inline constexpr auto kDeltaGateRank = [](const C& c, int32_t) { return int64_t{c.delta.gate_rank}; };
inline constexpr auto kDeltaDim = [](const C& c, int32_t) { return int64_t{c.delta.output_features()}; };
inline constexpr auto kDeltaOutputs = [](const C& c, int32_t) {
  return int64_t{c.undivided().delta.output_features()};
};
inline constexpr auto kShortConvInRows = [](const C& c, int32_t) { return int64_t{c.short_conv.input_features()}; };
inline constexpr auto kShortConvDim = [](const C& c, int32_t) {
  return int64_t{c.short_conv.taps} * c.short_conv.channels;
};
inline constexpr auto kShortConvChannels = [](const C& c, int32_t) { return int64_t{c.short_conv.channels}; };
inline constexpr auto kShortConvOutputs = [](const C& c, int32_t) {
  return int64_t{c.undivided().short_conv.channels};
};
inline constexpr auto kMambaInRows = [](const C& c, int32_t) { return int64_t{c.mamba.input_features()}; };
inline constexpr auto kMambaChannels = [](const C& c, int32_t) { return int64_t{c.mamba.channels()}; };
inline constexpr auto kMambaConvDim = [](const C& c, int32_t) {
  return int64_t{c.mamba.conv_taps} * c.mamba.channels();
};
inline constexpr auto kMambaHeads = [](const C& c, int32_t) { return int64_t{c.mamba.shape.num_heads}; };
inline constexpr auto kMambaOutputs = [](const C& c, int32_t) {
  return int64_t{c.undivided().mamba.output_features()};
};
inline constexpr auto kQueryRank = [](const C& c, int32_t) { return int64_t{c.attention.latent.query_rank}; };
inline constexpr auto kQueryInput = [](const C& c, int32_t) {
  return int64_t{c.attention.latent.query_rank > 0 ? c.attention.latent.query_rank : c.hidden_dim};
};
inline constexpr auto kLatentQueryRows = [](const C& c, int32_t) {
  return int64_t{c.attention.latent_query_features()};
};
inline constexpr auto kIndexQueryRows = [](const C& c, int32_t) {
  return int64_t{c.attention.indexer.query_features()};
};
inline constexpr auto kIndexDim = [](const C& c, int32_t) { return int64_t{c.attention.indexer.dim}; };
inline constexpr auto kIndexHeads = [](const C& c, int32_t) { return int64_t{c.attention.indexer.num_heads}; };
inline constexpr auto kKvRank = [](const C& c, int32_t) { return int64_t{c.attention.value_dim()}; };
inline constexpr auto kEntryRowDim = [](const C& c, int32_t layer) {
  return 2 * int64_t{c.attention.compressed.series(layer)} * c.attention.head_dim;
};
inline constexpr auto kEntryBiasDim = [](const C& c, int32_t layer) {
  return int64_t{c.attention.compressed.rate(layer)} * c.attention.compressed.series(layer) * c.attention.head_dim;
};
inline constexpr auto kIndexRowDim = [](const C& c, int32_t layer) {
  return 2 * int64_t{c.attention.compressed.series(layer)} * c.attention.indexer.dim;
};
inline constexpr auto kIndexBiasDim = [](const C& c, int32_t layer) {
  return int64_t{c.attention.compressed.rate(layer)} * c.attention.compressed.series(layer) * c.attention.indexer.dim;
};
inline constexpr auto kOutRank = [](const C& c, int32_t) { return int64_t{c.attention.compressed.out_rank}; };
inline constexpr auto kOutGroupDim = [](const C& c, int32_t) { return int64_t{c.attention.out_group_features()}; };
inline constexpr auto kStreamsDim = [](const C& c, int32_t) { return int64_t{c.streams.count} * c.hidden_dim; };
inline constexpr auto kStreamMixes = [](const C& c, int32_t) { return int64_t{c.stream_mixes()}; };
inline constexpr auto kNumStreams = [](const C& c, int32_t) { return int64_t{c.streams.count}; };
inline constexpr auto kThree = [](const C&, int32_t) { return int64_t{3}; };
inline constexpr auto kTokenExpertsDim = [](const C& c, int32_t) {
  return int64_t{c.vocab_size} * c.experts.routing.num_chosen;
};
inline constexpr auto kPlainDim = [](const C& c, int32_t) { return int64_t{c.attention.latent.plain_dim}; };
inline constexpr auto kValueDim = [](const C& c, int32_t) { return int64_t{c.attention.latent.value_dim}; };
inline constexpr auto kFfn = [](const C& c, int32_t layer) { return int64_t{c.undivided().mlp.dim_of(layer)}; };
inline constexpr auto kUpRows = [](const C& c, int32_t layer) {
  return int64_t{c.mlp.up_features(c.mlp.dim_of(layer))};
};
inline constexpr auto kLayerInputDim = [](const C& c, int32_t) { return int64_t{c.layer_inputs.width}; };
inline constexpr auto kLayerInputPart = [](const C& c, int32_t) { return int64_t{c.part(c.layer_inputs.width).count}; };
inline constexpr auto kLayerInputsDim = [](const C& c, int32_t) { return int64_t{c.layer_input_features()}; };
inline constexpr auto kLayerInputsPart = [](const C& c, int32_t) {
  return int64_t{c.part(c.layer_input_features()).count};
};
inline constexpr auto kLayerTableRows = [](const C& c, int32_t) {
  return int64_t{c.part(c.layer_inputs.vocab_size).count};
};
inline constexpr auto kExpertFfn = [](const C& c, int32_t) { return int64_t{c.undivided().experts.ffn_dim}; };
inline constexpr auto kExpertUpRows = [](const C& c, int32_t) { return int64_t{c.mlp.up_features(c.experts.ffn_dim)}; };
inline constexpr auto kExpertDim = [](const C& c, int32_t) { return int64_t{c.expert_dim()}; };
inline constexpr auto kSharedFfn = [](const C& c, int32_t) { return int64_t{c.undivided().experts.shared_ffn_dim}; };
inline constexpr auto kSharedUpRows = [](const C& c, int32_t) {
  return int64_t{c.mlp.up_features(c.experts.shared_ffn_dim)};
};
inline constexpr auto kRouterRows = [](const C& c, int32_t) { return int64_t{c.experts.router_features()}; };
inline constexpr auto kNumExperts = [](const C& c, int32_t) { return int64_t{c.experts.routing.num_experts}; };
inline constexpr auto kPatchInputs = [](const C& c, int32_t) { return int64_t{c.image.patch_inputs()}; };
inline constexpr auto kPatchPositionsDim = [](const C& c, int32_t) {
  return int64_t{c.image.position_side} * c.image.position_side * c.hidden_dim;
};
inline constexpr auto kMergedDim = [](const C& c, int32_t) {
  return int64_t{c.image.patches_per_row()} * c.hidden_dim;
};
inline constexpr auto kProjectorInput = [](const C& c, int32_t) {
  return c.image.merge_matrix ? int64_t{c.hidden_dim} : kMergedDim(c, 0);
};
inline constexpr auto kProjectorDim = [](const C& c, int32_t) { return int64_t{c.image.projector_dim}; };
inline constexpr auto kImageRowDim = [](const C& c, int32_t) { return int64_t{c.image.out_dim}; };
inline constexpr auto kNumLabels = [](const C& c, int32_t) { return int64_t{c.classifier.num_labels}; };

}  // namespace dunlin::engine::slot_rows
