// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/weight_slot.h"

#include "engine/model/spec/model_weights.h"
#include "engine/model/spec/slot_rules.h"

namespace dunlin::engine {
namespace slot_rows {  // apart from names of other sources in a unity batch
namespace {

using enum WeightSlot;
using enum SlotKind;
using enum SlotCount;
using enum SlotStorage;
using enum SlotFactor;

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
template <CompressedWeights::Entries CompressedWeights::*kEntries, auto kMember>
WeightField OfEntries(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).compressed.*kEntries.*kMember);
}
template <StreamWeights LayerWeights::*kStreams, auto kMember>
WeightField OfStreams(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).*kStreams.*kMember);
}
template <auto kMember>
WeightField OfHeadStreams(PrecisionWeights* weights, const WeightPlace& /*place*/) {
  return FieldOf(weights->head_streams.*kMember);
}
WeightField OfGroup(PrecisionWeights* weights, const WeightPlace& place) {
  return FieldOf(LayerOf(weights, place).compressed.out_down[static_cast<size_t>(place.index)]);
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
WeightField OfProjector(PrecisionWeights* weights, const WeightPlace& /*place*/) {
  return FieldOf(weights->projector.*kMember);
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

using Exists = decltype(WeightSlotRow::exists);
using HasBiasFunction = decltype(WeightSlotRow::has_bias);
using Field = decltype(WeightSlotRow::field);
using Dim = decltype(SlotDims::out_features);
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
    Matrix(kEmbedding, "embedding", kOnce, kReadsTokens, kNoBias, {kVocabulary, kHidden},
           OfModel<&PrecisionWeights::embedding>, {.storage = kWideWhenGathered}),
    Matrix(kPatchEmbedding, "patch_embedding", kOnce, kReadsImages, kPatchBias, {kHidden, kPatchInputs},
           OfModel<&PrecisionWeights::patch_embedding>),
    Vector(kPatchPositions, "patch_positions", kOnce, kHasPatchPositions, kPatchPositionsDim,
           OfModel<&PrecisionWeights::patch_positions>),
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
    Matrix(kLatentQuery, "latent_query", kPerLayer, kHasKvRow, kNoBias, {kLatentQueryRows, kQueryInput},
           OfLatent<&LatentWeights::query>),
    Matrix(kKvDown, "kv_down", kPerLayer, kHasKvRow, kQkvBias, {kHeadDim, kHidden}, OfLatent<&LatentWeights::kv_down>),
    Norm(kKvDownNorm, "kv_down_norm", kPerLayer, kHasKvRow, kNoBias, kKvRank, OfLatent<&LatentWeights::kv_norm>),
    Matrix(kKeyUp, "key_up", kPerHead, kHasLatent, kNoBias, {kKvRank, kPlainDim}, OfHead<&LatentWeights::key_up>),
    Matrix(kValueUp, "value_up", kPerHead, kHasLatent, kNoBias, {kValueDim, kKvRank}, OfHead<&LatentWeights::value_up>),
    Matrix(kIndexQuery, "index_query", kPerLayer, kHasIndexQueries, kNoBias, {kIndexQueryRows, kQueryInput},
           OfIndexer<&IndexerWeights::query>, {.storage = kWide}),
    Norm(kIndexQueryNorm, "index_query_norm", kPerLayer, kHasIndexQueryNorm, kNoBias, kIndexDim,
         OfIndexer<&IndexerWeights::query_norm>),
    Matrix(kIndexKey, "index_key", kPerLayer, kHasIndexer, kNoBias, {kIndexDim, kHidden},
           OfIndexer<&IndexerWeights::key>, {.storage = kWide}),
    Norm(kIndexKeyNorm, "index_key_norm", kPerLayer, kHasIndexer, kIndexerBias, kIndexDim,
         OfIndexer<&IndexerWeights::key_norm>),
    Matrix(kIndexWeights, "index_weights", kPerLayer, kHasIndexWeights, kNoBias, {kIndexHeads, kHidden},
           OfIndexer<&IndexerWeights::weights>, {.storage = kWide}),
    Matrix(kEntryRows, "entry_rows", kPerLayer, kHasEntries, kNoBias, {kEntryRowDim, kHidden},
           OfEntries<&CompressedWeights::keys, &CompressedWeights::Entries::rows>, {.storage = kWide}),
    Vector(kEntryBias, "entry_bias", kPerLayer, kHasEntries, kEntryBiasDim,
           OfEntries<&CompressedWeights::keys, &CompressedWeights::Entries::bias>),
    Norm(kEntryNorm, "entry_norm", kPerLayer, kHasEntries, kNoBias, kHeadDim,
         OfEntries<&CompressedWeights::keys, &CompressedWeights::Entries::norm>),
    Matrix(kIndexEntryRows, "index_entry_rows", kPerLayer, kChoosesEntries, kNoBias, {kIndexRowDim, kHidden},
           OfEntries<&CompressedWeights::index, &CompressedWeights::Entries::rows>, {.storage = kWide}),
    Vector(kIndexEntryBias, "index_entry_bias", kPerLayer, kChoosesEntries, kIndexBiasDim,
           OfEntries<&CompressedWeights::index, &CompressedWeights::Entries::bias>),
    Norm(kIndexEntryNorm, "index_entry_norm", kPerLayer, kChoosesEntries, kNoBias, kIndexDim,
         OfEntries<&CompressedWeights::index, &CompressedWeights::Entries::norm>),
    Matrix(kOutDown, "out_down", kPerGroup, kIsCompressed, kNoBias, {kOutRank, kOutGroupDim}, OfGroup,
           {.storage = kWide}),
    Matrix(kDeltaIn, "delta_in", kPerLayer, kIsDelta, kNoBias, {kDeltaInRows, kHidden}, OfDelta<&DeltaWeights::in>),
    Matrix(kDeltaGates, "delta_gates", kPerLayer, kIsDelta, kNoBias, {kDeltaGateRows, kHidden},
           OfDelta<&DeltaWeights::gates>, {.storage = kWide}),
    Matrix(kDeltaDecay, "delta_decay", kPerLayer, kIsChannelDelta, kNoBias, {kDeltaDecays, kDecayInput},
           OfDelta<&DeltaWeights::decay>, {.storage = kWide}),
    Matrix(kDeltaOutputGate, "delta_output_gate", kPerLayer, kHasDeltaRank, kNoBias, {kDeltaDim, kDeltaGateRank},
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
    Matrix(kAttentionStreams, "attention_streams", kPerLayer, kHasStreams, kNoBias, {kStreamMixes, kStreamsDim},
           OfStreams<&LayerWeights::attention_streams, &StreamWeights::mixes>, {.storage = kFp32}),
    Vector(kAttentionStreamBase, "attention_stream_base", kPerLayer, kHasStreams, kStreamMixes,
           OfStreams<&LayerWeights::attention_streams, &StreamWeights::base>),
    Vector(kAttentionStreamScale, "attention_stream_scale", kPerLayer, kHasStreams, kThree,
           OfStreams<&LayerWeights::attention_streams, &StreamWeights::scale>),
    Matrix(kMlpStreams, "mlp_streams", kPerLayer, kHasStreams, kNoBias, {kStreamMixes, kStreamsDim},
           OfStreams<&LayerWeights::mlp_streams, &StreamWeights::mixes>, {.storage = kFp32}),
    Vector(kMlpStreamBase, "mlp_stream_base", kPerLayer, kHasStreams, kStreamMixes,
           OfStreams<&LayerWeights::mlp_streams, &StreamWeights::base>),
    Vector(kMlpStreamScale, "mlp_stream_scale", kPerLayer, kHasStreams, kThree,
           OfStreams<&LayerWeights::mlp_streams, &StreamWeights::scale>),
    Norm(kPostAttentionNorm, "post_attention_norm", kPerLayer, kHasPostNorms, kNormBias, kHidden,
         OfLayer<&LayerWeights::post_attention_norm>),
    Norm(kMlpNorm, "mlp_norm", kPerLayer, kHasMlpNorm, kNormBias, kHidden, OfLayer<&LayerWeights::mlp_norm>),
    Norm(kPostMlpNorm, "post_mlp_norm", kPerLayer, kHasPostNorms, kNormBias, kHidden,
         OfLayer<&LayerWeights::post_mlp_norm>),
    Matrix(kMlpUp, "mlp_up", kPerLayer, kHasMlp, kMlpBias, {kUpRows, kHidden, true}, OfLayer<&LayerWeights::mlp_up>,
           {.input_scale = true}),
    Matrix(kMlpDown, "mlp_down", kPerLayer, kHasMlp, kMlpBias, {kHiddenPart, kFfn}, OfLayer<&LayerWeights::mlp_down>,
           {.factor = kResidual, .input_scale = true}),
    Vector(kMlpCurve, "mlp_curve", kPerLayer, kHasCurve, kCurveNumbers, OfLayer<&LayerWeights::mlp_curve>),
    Norm(kRouterNorm, "router_norm", kPerLayer, kHasBoth, kNoBias, kHidden, OfLayer<&LayerWeights::router_norm>,
         kRouterInput),
    Matrix(kRouter, "router", kPerLayer, kHasExperts, kRouterBias, {kRouterRows, kHidden},
           OfLayer<&LayerWeights::router>, {.storage = kFp32}),
    Vector(kRouterCorrection, "router_correction", kPerLayer, kHasCorrection, kNumExperts,
           OfLayer<&LayerWeights::router_correction>),
    Vector(kTokenExperts, "token_experts", kPerLayer, kChoosesByToken, kTokenExpertsDim,
           OfLayer<&LayerWeights::token_experts>),
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
    Matrix(kPredictorHead, "predictor_head", kPerLayer, kHasPredictorHead, kNoBias, {kVocabulary, kHidden},
           OfPredictor<&PredictorWeights::head>),
    Matrix(kHeadStreams, "head_streams", kOnce, kHasStreams, kNoBias, {kNumStreams, kStreamsDim},
           OfHeadStreams<&StreamWeights::mixes>, {.storage = kFp32}),
    Vector(kHeadStreamBase, "head_stream_base", kOnce, kHasStreams, kNumStreams, OfHeadStreams<&StreamWeights::base>),
    Vector(kHeadStreamScale, "head_stream_scale", kOnce, kHasStreams, kOne, OfHeadStreams<&StreamWeights::scale>),
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
    Norm(kProjectorNorm, "projector_norm", kOnce, kReadsImages, kNormBias, kHidden,
         OfProjector<&ProjectorWeights::norm>),
    Matrix(kProjectorMerge, "projector_merge", kOnce, kMergesByMatrix, kNoBias, {kHidden, kMergedDim},
           OfProjector<&ProjectorWeights::merge>),
    Matrix(kProjectorUp, "projector_up", kOnce, kReadsImages, kProjectorBias, {kProjectorDim, kProjectorInput},
           OfProjector<&ProjectorWeights::up>),
    Matrix(kProjectorDown, "projector_down", kOnce, kReadsImages, kProjectorBias, {kImageRowDim, kProjectorDim},
           OfProjector<&ProjectorWeights::down>),
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
