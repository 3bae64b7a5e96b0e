// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/weight_slot.h"

#include "engine/model/spec/model_weights.h"

namespace dunlin::engine {
namespace slot_rows {  // apart from names of other sources in a unity batch
namespace {

using enum WeightSlot;
using enum SlotKind;
using enum SlotCount;
using enum SlotStorage;
using enum SlotFactor;

using C = ModelConfig;

WeightField FieldOf(kernels::PackedWeight& matrix) {
  return {.matrix = &matrix};
}
WeightField FieldOf(LinearWeights& linear) {
  return {.matrix = &linear.weight, .bias = &linear.bias};
}
WeightField FieldOf(NormWeights& norm) {
  return {.vector = &norm.weight, .bias = &norm.bias};
}
WeightField FieldOf(const float*& vector) {
  return {.vector = &vector};
}
LayerWeights& LayerOf(PrecisionWeights* weights, const WeightPlace& place) {
  return weights->layers[static_cast<size_t>(place.layer)];
}

template <auto kMember>
WeightField OfModel(PrecisionWeights* weights, const WeightPlace& /*place*/) {
  return FieldOf(weights->*kMember);
}
template <auto kMember>
WeightField OfLayer(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).*kMember);
}
template <auto kMember>
WeightField OfLatent(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).latent.*kMember);
}
template <auto kMember>
WeightField OfIndexer(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).indexer.*kMember);
}
template <auto kMember>
WeightField OfDelta(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).delta.*kMember);
}
template <auto kMember>
WeightField OfShortConv(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).short_conv.*kMember);
}
template <auto kMember>
WeightField OfMamba(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).mamba.*kMember);
}
template <auto kMember>
WeightField OfPredictor(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).predictor.*kMember);
}
template <auto kMember>
WeightField OfHead(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf((LayerOf(weights, place).latent.*kMember)[static_cast<size_t>(place.index)]);
}
template <auto kMember>
WeightField OfExpert(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf((LayerOf(weights, place).experts.*kMember)[static_cast<size_t>(place.index)]);
}
template <auto kMember>
WeightField OfShared(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).shared_expert.*kMember);
}

// Whether a layer has a weight.
constexpr auto kHasPositions = [](const C& c, int32_t) { return c.embedding.learned_positions; };
constexpr auto kHasTokenTypes = [](const C& c, int32_t) { return c.embedding.num_token_types > 0; };
constexpr auto kHasEmbeddingNorm = [](const C& c, int32_t) { return c.has_embedding_norm(); };
constexpr auto kHasAttentionNorm = [](const C& c, int32_t layer) {
  return c.norm.placement != NormPlacement::kPostInside && !(layer == 0 && c.norm.first_absent) &&
         c.mixer(layer) != MixerKind::kNone;
};
constexpr auto kHasLayerInputs = [](const C& c, int32_t) { return c.has_layer_inputs(); };
constexpr auto kAttends = [](const C& c, int32_t layer) { return c.attends(layer); };
constexpr auto kHasQkv = [](const C& c, int32_t layer) { return c.attends(layer) && !c.attention.is_latent(); };
constexpr auto kHasGate = [](const C& c, int32_t layer) { return c.attends(layer) && c.attention.output_gate; };
constexpr auto kHasQkNorms = [](const C& c, int32_t layer) {
  const bool in_layer = !c.attention.norms_of_rotated || c.rotary.index(layer) >= 0;
  return c.attends(layer) && c.attention.qk_norm && in_layer;
};
constexpr auto kHasKeyNorm = [](const C& c, int32_t layer) {
  return kHasQkNorms(c, layer) && c.attention.stores_kv(layer);
};
constexpr auto kHasSinks = [](const C& c, int32_t layer) { return c.attends(layer) && c.attention.has_sinks(layer); };
constexpr auto kIsDelta = [](const C& c, int32_t layer) { return c.mixer(layer) == MixerKind::kDelta; };
constexpr auto kIsChannelDelta = [](const C& c, int32_t layer) { return kIsDelta(c, layer) && c.delta.gate_rank > 0; };
constexpr auto kIsShortConv = [](const C& c, int32_t layer) { return c.mixer(layer) == MixerKind::kShortConv; };
constexpr auto kHasShortConvBias = [](const C& c, int32_t layer) {
  return kIsShortConv(c, layer) && c.short_conv.bias;
};
constexpr auto kHasMamba = [](const C& c, int32_t layer) { return c.has_mamba(layer); };
constexpr auto kHasMambaConvBias = [](const C& c, int32_t layer) { return c.has_mamba(layer) && c.mamba.conv_bias; };
constexpr auto kHasMambaNorm = [](const C& c, int32_t layer) {
  return c.has_mamba(layer) && c.mamba.norm != MambaNorm::kNone;
};
constexpr auto kHasLatent = [](const C& c, int32_t layer) { return c.attends(layer) && c.attention.is_latent(); };
constexpr auto kHasQueryDown = [](const C& c, int32_t layer) {
  return kHasLatent(c, layer) && c.attention.latent.query_rank > 0;
};
constexpr auto kHasIndexer = [](const C& c, int32_t layer) { return c.attention.has_indexer(layer); };
constexpr auto kHasPostNorms = [](const C& c, int32_t) { return c.norm.has_post(); };
constexpr auto kHasMlpNorm = [](const C& c, int32_t layer) {
  return c.has_mlp(layer) && !c.norm.shared && c.norm.placement != NormPlacement::kPostInside;
};
constexpr auto kHasMlp = [](const C& c, int32_t layer) {
  return c.has_mlp(layer) && (!c.experts.in_layer(layer) || c.experts.beside_mlp);
};
constexpr auto kHasBoth = [](const C& c, int32_t layer) { return c.experts.in_layer(layer) && c.experts.beside_mlp; };
constexpr auto kHasExperts = [](const C& c, int32_t layer) { return c.experts.in_layer(layer); };
constexpr auto kHasCorrection = [](const C& c, int32_t layer) {
  return c.experts.router_correction && c.experts.in_layer(layer);
};
constexpr auto kHasLatentExperts = [](const C& c, int32_t layer) {
  return c.experts.latent_dim > 0 && c.experts.in_layer(layer);
};
constexpr auto kHasSharedExpert = [](const C& c, int32_t layer) {
  return c.experts.shared_ffn_dim > 0 && c.experts.in_layer(layer);
};
constexpr auto kHasFactor = [](const C& c, int32_t) { return c.layer_factor; };
constexpr auto kPredicts = [](const C& c, int32_t layer) { return c.predicts(layer); };
constexpr auto kHasFinalNorm = [](const C& c, int32_t) { return c.norm.placement != NormPlacement::kPost; };
constexpr auto kHasHead = [](const C& c, int32_t) { return !c.is_encoder() && !c.head.tied; };
constexpr auto kHasClassifier = [](const C& c, int32_t) { return c.classifier.num_labels > 0; };
constexpr auto kHasClassifierNorm = [](const C& c, int32_t) {
  return c.classifier.num_labels > 0 && c.classifier.norm;
};

constexpr auto kNormBias = [](const C& c) { return c.norm.bias; };
constexpr auto kQkvBias = [](const C& c) { return c.attention.qkv_bias; };
constexpr auto kIndexerBias = [](const C&) { return true; };
constexpr auto kOutBias = [](const C& c) { return c.attention.out_bias; };
constexpr auto kShortConvsBias = [](const C& c) { return c.short_conv.bias; };
constexpr auto kMambaBias = [](const C& c) { return c.mamba.bias; };
constexpr auto kMlpBias = [](const C& c) { return c.mlp.bias; };
constexpr auto kRouterBias = [](const C& c) { return c.experts.router_bias; };
constexpr auto kExpertBias = [](const C& c) { return c.experts.bias; };
constexpr auto kHeadBias = [](const C& c) { return c.head.bias; };
constexpr auto kDenseBias = [](const C& c) { return c.classifier.num_labels > 0 && c.classifier.dense_bias; };
constexpr auto kLabelBias = [](const C& c) { return c.classifier.num_labels > 0; };

// Dimensions.
constexpr auto kOne = [](const C&, int32_t) { return int64_t{1}; };
constexpr auto kHidden = [](const C& c, int32_t) { return int64_t{c.hidden_dim}; };
constexpr auto kTwiceHidden = [](const C& c, int32_t) { return 2 * int64_t{c.hidden_dim}; };
constexpr auto kVocabulary = [](const C& c, int32_t) { return int64_t{c.part(c.vocab_size).count}; };
// Of what a layer adds to the residual stream, whose products a rank has all inputs of.
constexpr auto kHiddenPart = [](const C& c, int32_t) { return int64_t{c.part(c.hidden_dim).count}; };
constexpr auto kExpertPart = [](const C& c, int32_t) { return int64_t{c.part(c.expert_dim()).count}; };
constexpr auto kPositionRows = [](const C& c, int32_t) { return int64_t{c.position_rows()}; };
constexpr auto kTokenTypeRows = [](const C& c, int32_t) { return int64_t{c.embedding.num_token_types}; };
constexpr auto kQkvRows = [](const C& c, int32_t layer) { return int64_t{c.attention.qkv_features(layer)}; };
constexpr auto kQueryNormDim = [](const C& c, int32_t layer) {
  const HeadShape shape = c.undivided().attention.heads(layer);
  return int64_t{c.attention.qk_norm_joint ? shape.num_heads : 1} * shape.head_dim;
};
constexpr auto kKeyNormDim = [](const C& c, int32_t layer) {
  const HeadShape shape = c.undivided().attention.heads(layer);
  return int64_t{c.attention.qk_norm_joint ? shape.num_kv_heads : 1} * shape.head_dim;
};
constexpr auto kNumHeads = [](const C& c, int32_t layer) { return int64_t{c.attention.heads(layer).num_heads}; };
constexpr auto kHeadDim = [](const C& c, int32_t) { return int64_t{c.attention.head_dim}; };
constexpr auto kAttentionDim = [](const C& c, int32_t layer) {
  return int64_t{c.undivided().attention.output_features(layer)};
};
constexpr auto kGateRows = [](const C& c, int32_t layer) { return int64_t{c.attention.gate_features(layer)}; };
constexpr auto kDeltaInRows = [](const C& c, int32_t) { return int64_t{c.delta.input_features()}; };
constexpr auto kDeltaGateRows = [](const C& c, int32_t) { return int64_t{c.delta.gate_features()}; };
constexpr auto kDeltaConvDim = [](const C& c, int32_t) { return int64_t{c.delta.conv_taps} * c.delta.channels(); };
constexpr auto kDeltaHeads = [](const C& c, int32_t) { return int64_t{c.delta.shape.value_heads}; };
constexpr auto kDeltaHeadDim = [](const C& c, int32_t) { return int64_t{c.delta.shape.value_dim}; };
constexpr auto kDeltaDecays = [](const C& c, int32_t) { return int64_t{c.delta.decay_features()}; };
constexpr auto kDeltaGateRank = [](const C& c, int32_t) { return int64_t{c.delta.gate_rank}; };
constexpr auto kDeltaDim = [](const C& c, int32_t) { return int64_t{c.delta.output_features()}; };
constexpr auto kDeltaOutputs = [](const C& c, int32_t) { return int64_t{c.undivided().delta.output_features()}; };
constexpr auto kShortConvInRows = [](const C& c, int32_t) { return int64_t{c.short_conv.input_features()}; };
constexpr auto kShortConvDim = [](const C& c, int32_t) { return int64_t{c.short_conv.taps} * c.short_conv.channels; };
constexpr auto kShortConvChannels = [](const C& c, int32_t) { return int64_t{c.short_conv.channels}; };
constexpr auto kShortConvOutputs = [](const C& c, int32_t) { return int64_t{c.undivided().short_conv.channels}; };
constexpr auto kMambaInRows = [](const C& c, int32_t) { return int64_t{c.mamba.input_features()}; };
constexpr auto kMambaChannels = [](const C& c, int32_t) { return int64_t{c.mamba.channels()}; };
constexpr auto kMambaConvDim = [](const C& c, int32_t) { return int64_t{c.mamba.conv_taps} * c.mamba.channels(); };
constexpr auto kMambaHeads = [](const C& c, int32_t) { return int64_t{c.mamba.shape.num_heads}; };
constexpr auto kMambaOutputs = [](const C& c, int32_t) { return int64_t{c.undivided().mamba.output_features()}; };
constexpr auto kQueryRank = [](const C& c, int32_t) { return int64_t{c.attention.latent.query_rank}; };
constexpr auto kQueryInput = [](const C& c, int32_t) {
  return int64_t{c.attention.latent.query_rank > 0 ? c.attention.latent.query_rank : c.hidden_dim};
};
constexpr auto kLatentQueryRows = [](const C& c, int32_t) { return int64_t{c.attention.latent_query_features()}; };
constexpr auto kIndexQueryRows = [](const C& c, int32_t) { return int64_t{c.attention.indexer.query_features()}; };
constexpr auto kIndexDim = [](const C& c, int32_t) { return int64_t{c.attention.indexer.dim}; };
constexpr auto kIndexHeads = [](const C& c, int32_t) { return int64_t{c.attention.indexer.num_heads}; };
constexpr auto kKvRank = [](const C& c, int32_t) { return int64_t{c.attention.latent.kv_rank}; };
constexpr auto kPlainDim = [](const C& c, int32_t) { return int64_t{c.attention.latent.plain_dim}; };
constexpr auto kValueDim = [](const C& c, int32_t) { return int64_t{c.attention.latent.value_dim}; };
constexpr auto kFfn = [](const C& c, int32_t layer) { return int64_t{c.undivided().mlp.dim_of(layer)}; };
constexpr auto kUpRows = [](const C& c, int32_t layer) { return int64_t{c.mlp.up_features(c.mlp.dim_of(layer))}; };
constexpr auto kLayerInputDim = [](const C& c, int32_t) { return int64_t{c.layer_inputs.width}; };
constexpr auto kLayerInputPart = [](const C& c, int32_t) { return int64_t{c.part(c.layer_inputs.width).count}; };
constexpr auto kLayerInputsDim = [](const C& c, int32_t) { return int64_t{c.layer_input_features()}; };
constexpr auto kLayerInputsPart = [](const C& c, int32_t) { return int64_t{c.part(c.layer_input_features()).count}; };
constexpr auto kLayerTableRows = [](const C& c, int32_t) { return int64_t{c.part(c.layer_inputs.vocab_size).count}; };
constexpr auto kExpertFfn = [](const C& c, int32_t) { return int64_t{c.undivided().experts.ffn_dim}; };
constexpr auto kExpertUpRows = [](const C& c, int32_t) { return int64_t{c.mlp.up_features(c.experts.ffn_dim)}; };
constexpr auto kExpertDim = [](const C& c, int32_t) { return int64_t{c.expert_dim()}; };
constexpr auto kSharedFfn = [](const C& c, int32_t) { return int64_t{c.undivided().experts.shared_ffn_dim}; };
constexpr auto kSharedUpRows = [](const C& c, int32_t) { return int64_t{c.mlp.up_features(c.experts.shared_ffn_dim)}; };
constexpr auto kRouterRows = [](const C& c, int32_t) { return int64_t{c.experts.router_features()}; };
constexpr auto kNumExperts = [](const C& c, int32_t) { return int64_t{c.experts.routing.num_experts}; };
constexpr auto kNumLabels = [](const C& c, int32_t) { return int64_t{c.classifier.num_labels}; };

using Exists = decltype(WeightSlotRow::exists);
using HasBiasFunction = decltype(WeightSlotRow::has_bias);
using Field = decltype(WeightSlotRow::field);
using Dim = decltype(SlotDims::out_features);
constexpr Exists kAlways = nullptr;
constexpr HasBiasFunction kNoBias = nullptr;

// What most slots do not have.
struct Extras {
  SlotStorage storage = kPacked;
  SlotFactor factor = kUnscaled;
  bool input_scale = false;
};

constexpr WeightSlotRow Matrix(WeightSlot slot, const char* name, SlotCount count, Exists exists,
                               HasBiasFunction has_bias, SlotDims dims, Field field, Extras extras = {}) {
  return {slot, name, count, kMatrix, exists, has_bias, dims, field, extras.storage, extras.factor, extras.input_scale};
}
constexpr WeightSlotRow Norm(WeightSlot slot, const char* name, SlotCount count, Exists exists,
                             HasBiasFunction has_bias, Dim width, Field field, SlotFactor factor = kUnscaled) {
  return {slot, name, count, kNorm, exists, has_bias, {width, kOne}, field, kFp32, factor};
}
constexpr WeightSlotRow Vector(WeightSlot slot, const char* name, SlotCount count, Exists exists, Dim width,
                               Field field) {
  return {slot, name, count, kVector, exists, kNoBias, {width, kOne}, field, kFp32};
}

constexpr std::array<WeightSlotRow, kNumWeightSlots> kRows = {
    Matrix(kEmbedding, "embedding", kOnce, kAlways, kNoBias, {kVocabulary, kHidden},
           OfModel<&PrecisionWeights::embedding>, {.storage = kWideWhenGathered}),
    Matrix(kPositions, "positions", kOnce, kHasPositions, kNoBias, {kPositionRows, kHidden},
           OfModel<&PrecisionWeights::positions>, {.storage = kWide}),
    Matrix(kTokenTypes, "token_types", kOnce, kHasTokenTypes, kNoBias, {kTokenTypeRows, kHidden},
           OfModel<&PrecisionWeights::token_types>, {.storage = kWide}),
    Norm(kEmbeddingNorm, "embedding_norm", kOnce, kHasEmbeddingNorm, kNormBias, kHidden,
         OfModel<&PrecisionWeights::embedding_norm>),
    Matrix(kLayerTable, "layer_table", kOnce, kHasLayerInputs, kNoBias, {kLayerTableRows, kLayerInputsDim},
           OfModel<&PrecisionWeights::layer_table>),
    Matrix(kLayerProjection, "layer_projection", kOnce, kHasLayerInputs, kNoBias, {kLayerInputsPart, kHidden},
           OfModel<&PrecisionWeights::layer_projection>),
    Norm(kLayerProjectionNorm, "layer_projection_norm", kOnce, kHasLayerInputs, kNoBias, kLayerInputDim,
         OfModel<&PrecisionWeights::layer_projection_norm>, kLayerInput),
    Norm(kAttentionNorm, "attention_norm", kPerLayer, kHasAttentionNorm, kNormBias, kHidden,
         OfLayer<&LayerWeights::attention_norm>),
    Matrix(kQkv, "qkv", kPerLayer, kHasQkv, kQkvBias, {kQkvRows, kHidden}, OfLayer<&LayerWeights::qkv>,
           {.factor = kInverseLayer, .input_scale = true}),
    Matrix(kAttentionGate, "attention_gate", kPerLayer, kHasGate, kNoBias, {kGateRows, kHidden},
           OfLayer<&LayerWeights::attention_gate>),
    Norm(kQueryNorm, "query_norm", kPerLayer, kHasQkNorms, kNoBias, kQueryNormDim, OfLayer<&LayerWeights::query_norm>),
    Norm(kKeyNorm, "key_norm", kPerLayer, kHasKeyNorm, kNoBias, kKeyNormDim, OfLayer<&LayerWeights::key_norm>),
    Vector(kAttentionSinks, "attention_sinks", kPerLayer, kHasSinks, kNumHeads, OfLayer<&LayerWeights::sinks>),
    Matrix(kQueryDown, "query_down", kPerLayer, kHasQueryDown, kQkvBias, {kQueryRank, kHidden},
           OfLatent<&LatentWeights::query_down>),
    Norm(kQueryDownNorm, "query_down_norm", kPerLayer, kHasQueryDown, kNoBias, kQueryRank,
         OfLatent<&LatentWeights::query_norm>),
    Matrix(kLatentQuery, "latent_query", kPerLayer, kHasLatent, kNoBias, {kLatentQueryRows, kQueryInput},
           OfLatent<&LatentWeights::query>),
    Matrix(kKvDown, "kv_down", kPerLayer, kHasLatent, kQkvBias, {kHeadDim, kHidden}, OfLatent<&LatentWeights::kv_down>),
    Norm(kKvDownNorm, "kv_down_norm", kPerLayer, kHasLatent, kNoBias, kKvRank, OfLatent<&LatentWeights::kv_norm>),
    Matrix(kKeyUp, "key_up", kPerHead, kHasLatent, kNoBias, {kKvRank, kPlainDim}, OfHead<&LatentWeights::key_up>),
    Matrix(kValueUp, "value_up", kPerHead, kHasLatent, kNoBias, {kValueDim, kKvRank}, OfHead<&LatentWeights::value_up>),
    Matrix(kIndexQuery, "index_query", kPerLayer, kHasIndexer, kNoBias, {kIndexQueryRows, kQueryRank},
           OfIndexer<&IndexerWeights::query>, {.storage = kWide}),
    Matrix(kIndexKey, "index_key", kPerLayer, kHasIndexer, kNoBias, {kIndexDim, kHidden},
           OfIndexer<&IndexerWeights::key>, {.storage = kWide}),
    Norm(kIndexKeyNorm, "index_key_norm", kPerLayer, kHasIndexer, kIndexerBias, kIndexDim,
         OfIndexer<&IndexerWeights::key_norm>),
    Matrix(kIndexWeights, "index_weights", kPerLayer, kHasIndexer, kNoBias, {kIndexHeads, kHidden},
           OfIndexer<&IndexerWeights::weights>, {.storage = kWide}),
    Matrix(kDeltaIn, "delta_in", kPerLayer, kIsDelta, kNoBias, {kDeltaInRows, kHidden}, OfDelta<&DeltaWeights::in>),
    Matrix(kDeltaGates, "delta_gates", kPerLayer, kIsDelta, kNoBias, {kDeltaGateRows, kHidden},
           OfDelta<&DeltaWeights::gates>, {.storage = kWide}),
    Matrix(kDeltaDecay, "delta_decay", kPerLayer, kIsChannelDelta, kNoBias, {kDeltaDecays, kDeltaGateRank},
           OfDelta<&DeltaWeights::decay>, {.storage = kWide}),
    Matrix(kDeltaOutputGate, "delta_output_gate", kPerLayer, kIsChannelDelta, kNoBias, {kDeltaDim, kDeltaGateRank},
           OfDelta<&DeltaWeights::z>, {.storage = kWide}),
    Vector(kDeltaConv, "delta_conv", kPerLayer, kIsDelta, kDeltaConvDim, OfDelta<&DeltaWeights::conv>),
    Vector(kDeltaRate, "delta_rate", kPerLayer, kIsDelta, kDeltaHeads, OfDelta<&DeltaWeights::rate>),
    Vector(kDeltaTimeBias, "delta_time_bias", kPerLayer, kIsDelta, kDeltaDecays, OfDelta<&DeltaWeights::time_bias>),
    Vector(kDeltaNorm, "delta_norm", kPerLayer, kIsDelta, kDeltaHeadDim, OfDelta<&DeltaWeights::norm>),
    Matrix(kDeltaOut, "delta_out", kPerLayer, kIsDelta, kNoBias, {kHiddenPart, kDeltaOutputs},
           OfDelta<&DeltaWeights::out>, {.factor = kResidual}),
    Matrix(kShortConvIn, "short_conv_in", kPerLayer, kIsShortConv, kShortConvsBias, {kShortConvInRows, kHidden},
           OfShortConv<&ShortConvWeights::in>),
    Vector(kShortConvTaps, "short_conv_taps", kPerLayer, kIsShortConv, kShortConvDim,
           OfShortConv<&ShortConvWeights::conv>),
    Vector(kShortConvBias, "short_conv_bias", kPerLayer, kHasShortConvBias, kShortConvChannels,
           OfShortConv<&ShortConvWeights::bias>),
    Matrix(kShortConvOut, "short_conv_out", kPerLayer, kIsShortConv, kShortConvsBias, {kHiddenPart, kShortConvOutputs},
           OfShortConv<&ShortConvWeights::out>, {.factor = kResidual}),
    Matrix(kMambaIn, "mamba_in", kPerLayer, kHasMamba, kMambaBias, {kMambaInRows, kHidden}, OfMamba<&MambaWeights::in>),
    Vector(kMambaConv, "mamba_conv", kPerLayer, kHasMamba, kMambaConvDim, OfMamba<&MambaWeights::conv>),
    Vector(kMambaConvBias, "mamba_conv_bias", kPerLayer, kHasMambaConvBias, kMambaChannels,
           OfMamba<&MambaWeights::conv_bias>),
    Vector(kMambaRate, "mamba_rate", kPerLayer, kHasMamba, kMambaHeads, OfMamba<&MambaWeights::rate>),
    Vector(kMambaTimeBias, "mamba_time_bias", kPerLayer, kHasMamba, kMambaHeads, OfMamba<&MambaWeights::time_bias>),
    Vector(kMambaSkip, "mamba_skip", kPerLayer, kHasMamba, kMambaHeads, OfMamba<&MambaWeights::skip>),
    Vector(kMambaNorm, "mamba_norm", kPerLayer, kHasMambaNorm, kMambaOutputs, OfMamba<&MambaWeights::norm>),
    Matrix(kMambaOut, "mamba_out", kPerLayer, kHasMamba, kMambaBias, {kHiddenPart, kMambaOutputs},
           OfMamba<&MambaWeights::out>, {.factor = kResidual}),
    Matrix(kAttentionOut, "attention_out", kPerLayer, kAttends, kOutBias, {kHiddenPart, kAttentionDim},
           OfLayer<&LayerWeights::attention_out>, {.factor = kResidual, .input_scale = true}),
    Norm(kPostAttentionNorm, "post_attention_norm", kPerLayer, kHasPostNorms, kNormBias, kHidden,
         OfLayer<&LayerWeights::post_attention_norm>),
    Norm(kMlpNorm, "mlp_norm", kPerLayer, kHasMlpNorm, kNormBias, kHidden, OfLayer<&LayerWeights::mlp_norm>),
    Norm(kPostMlpNorm, "post_mlp_norm", kPerLayer, kHasPostNorms, kNormBias, kHidden,
         OfLayer<&LayerWeights::post_mlp_norm>),
    Matrix(kMlpUp, "mlp_up", kPerLayer, kHasMlp, kMlpBias, {kUpRows, kHidden, true}, OfLayer<&LayerWeights::mlp_up>,
           {.input_scale = true}),
    Matrix(kMlpDown, "mlp_down", kPerLayer, kHasMlp, kMlpBias, {kHiddenPart, kFfn}, OfLayer<&LayerWeights::mlp_down>,
           {.factor = kResidual, .input_scale = true}),
    Norm(kRouterNorm, "router_norm", kPerLayer, kHasBoth, kNoBias, kHidden, OfLayer<&LayerWeights::router_norm>,
         kRouterInput),
    Matrix(kRouter, "router", kPerLayer, kHasExperts, kRouterBias, {kRouterRows, kHidden},
           OfLayer<&LayerWeights::router>, {.storage = kFp32}),
    Vector(kRouterCorrection, "router_correction", kPerLayer, kHasCorrection, kNumExperts,
           OfLayer<&LayerWeights::router_correction>),
    Matrix(kLatentIn, "latent_in", kPerLayer, kHasLatentExperts, kNoBias, {kExpertPart, kHidden},
           OfLayer<&LayerWeights::latent_in>),
    Matrix(kLatentOut, "latent_out", kPerLayer, kHasLatentExperts, kNoBias, {kHiddenPart, kExpertDim},
           OfLayer<&LayerWeights::latent_out>),
    Vector(kExpertScales, "expert_scales", kPerLayer, kHasBoth, kNumExperts, OfLayer<&LayerWeights::expert_scales>),
    Norm(kExpertsNorm, "experts_norm", kPerLayer, kHasBoth, kNoBias, kHidden, OfLayer<&LayerWeights::experts_norm>),
    Norm(kPostDenseNorm, "post_dense_norm", kPerLayer, kHasBoth, kNoBias, kHidden,
         OfLayer<&LayerWeights::post_dense_norm>),
    Norm(kPostExpertsNorm, "post_experts_norm", kPerLayer, kHasBoth, kNoBias, kHidden,
         OfLayer<&LayerWeights::post_experts_norm>),
    Matrix(kExpertUp, "expert_up", kPerExpert, kHasExperts, kExpertBias, {kExpertUpRows, kExpertDim, true},
           OfExpert<&ExpertLists::up>),
    Matrix(kExpertDown, "expert_down", kPerExpert, kHasExperts, kExpertBias, {kExpertPart, kExpertFfn},
           OfExpert<&ExpertLists::down>, {.factor = kResidual}),
    Matrix(kSharedUp, "shared_up", kPerLayer, kHasSharedExpert, kNoBias, {kSharedUpRows, kHidden, true},
           OfShared<&ExpertWeights::up>),
    Matrix(kSharedDown, "shared_down", kPerLayer, kHasSharedExpert, kNoBias, {kHiddenPart, kSharedFfn},
           OfShared<&ExpertWeights::down>, {.factor = kResidual}),
    Matrix(kLayerInputGate, "layer_input_gate", kPerLayer, kHasLayerInputs, kNoBias, {kLayerInputPart, kHidden},
           OfLayer<&LayerWeights::layer_input_gate>),
    Matrix(kLayerInputOut, "layer_input_out", kPerLayer, kHasLayerInputs, kNoBias, {kHiddenPart, kLayerInputDim},
           OfLayer<&LayerWeights::layer_input_out>),
    Norm(kPostLayerInputNorm, "post_layer_input_norm", kPerLayer, kHasLayerInputs, kNoBias, kHidden,
         OfLayer<&LayerWeights::post_layer_input_norm>),
    Vector(kLayerFactor, "layer_factor", kPerLayer, kHasFactor, kOne, OfLayer<&LayerWeights::layer_factor>),
    Norm(kPredictorEmbeddingNorm, "predictor_embedding_norm", kPerLayer, kPredicts, kNoBias, kHidden,
         OfPredictor<&PredictorWeights::embedding_norm>),
    Norm(kPredictorHiddenNorm, "predictor_hidden_norm", kPerLayer, kPredicts, kNoBias, kHidden,
         OfPredictor<&PredictorWeights::hidden_norm>),
    Matrix(kPredictorIn, "predictor_in", kPerLayer, kPredicts, kNoBias, {kHiddenPart, kTwiceHidden},
           OfPredictor<&PredictorWeights::in>),
    Norm(kPredictorFinalNorm, "predictor_final_norm", kPerLayer, kPredicts, kNoBias, kHidden,
         OfPredictor<&PredictorWeights::final_norm>),
    Norm(kFinalNorm, "final_norm", kOnce, kHasFinalNorm, kNormBias, kHidden, OfModel<&PrecisionWeights::final_norm>,
         kLogit),
    Matrix(kHead, "head", kOnce, kHasHead, kHeadBias, {kVocabulary, kHidden}, OfModel<&PrecisionWeights::head>,
           {.input_scale = true}),
    Matrix(kClassifierDense, "classifier_dense", kOnce, kHasClassifier, kDenseBias, {kHidden, kHidden},
           OfModel<&PrecisionWeights::classifier_dense>, {.storage = kWide}),
    Norm(kClassifierNorm, "classifier_norm", kOnce, kHasClassifierNorm, kNormBias, kHidden,
         OfModel<&PrecisionWeights::classifier_norm>),
    Matrix(kClassifierOut, "classifier_out", kOnce, kHasClassifier, kLabelBias, {kNumLabels, kHidden},
           OfModel<&PrecisionWeights::classifier_out>, {.storage = kWide}),
};

constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kNumWeightSlots; ++i) {
    if (kRows[i].slot != static_cast<WeightSlot>(i)) return false;
  }
  return true;
}
static_assert(RowsAreInOrder(), "a row for every WeightSlot, in the order of the enumerators");

}  // namespace
}  // namespace slot_rows

constexpr std::array<WeightSlotRow, kNumWeightSlots> kWeightSlotTable = slot_rows::kRows;

}  // namespace dunlin::engine
