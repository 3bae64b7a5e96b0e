// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/decoder_layer.h"

#include <type_traits>

#include "engine/layers/layer_inputs.h"
#include "engine/layers/norm.h"
#include "engine/layers/residual_streams.h"

namespace dunlin::engine {
namespace {

const LayerWeights& WeightsOf(const LayerContext& context, int32_t layer) {
  return context.weights.layers[static_cast<size_t>(layer)];
}

// visit(std::type_identity<Mixer>) for the first type of a list that a layer has.
template <typename Mixers, size_t kIndex = 0, typename Visit>
auto VisitKind(const ModelConfig& config, int32_t layer, const Visit& visit) {
  using Mixer = std::variant_alternative_t<kIndex, Mixers>;
  if constexpr (kIndex + 1 < std::variant_size_v<Mixers>) {
    if (!Mixer::IsIn(config, layer)) return VisitKind<Mixers, kIndex + 1>(config, layer, visit);
  }
  return visit(std::type_identity<Mixer>());
}

const LinearWeights& OutputOf(MixerKind mixer, const LayerWeights& weights) {
  switch (mixer) {
    case MixerKind::kAttention:
    case MixerKind::kParallel:  // of the attention; the mixer adds Mamba2's itself
      return weights.attention_out;
    case MixerKind::kDelta:
      return weights.delta.out;
    case MixerKind::kShortConv:
      return weights.short_conv.out;
    case MixerKind::kMamba:
      return weights.mamba.out;
    case MixerKind::kNone:
      break;
  }
  return weights.attention_out;
}

template <typename Mixers>
Mixers MixerOf(LayerContext* context) {
  const LayerWeights& weights = WeightsOf(*context, context->layer);
  return VisitKind<Mixers>(context->config, context->layer,
                           [&](auto mixer) -> Mixers { return typename decltype(mixer)::type(context, weights); });
}

}  // namespace

DecoderLayer::DecoderLayer(LayerContext* context)
    : context_(context),
      weights_(WeightsOf(*context, context->layer)),
      token_mixer_(MixerOf<TokenMixer>(context)),
      channel_mixer_(MixerOf<ChannelMixer>(context)) {}

Linear DecoderLayer::InputOf(LayerContext* context, int32_t layer) {
  return VisitKind<TokenMixer>(context->config, layer, [&](auto mixer) {
    return decltype(mixer)::type::InputOf(context, WeightsOf(*context, layer), layer);
  });
}

bool DecoderLayer::AttentionInputs() {
  const int32_t layer = context_->layer;
  if (!mixes_tokens()) return true;
  const Linear input = InputOf(context_, layer);
  const bool unnormed = context_->norms_inside() || (layer == 0 && context_->config.norm.first_absent);
  if (unnormed) return input.Quantize("qkv input", context_->rows.hidden, context_->rows.count) && StoreKv();
  // A post norm has made the input already.
  const Norm norm(context_, weights_.attention_norm);
  return (context_->post_norm() || norm.Run("attention norm", &input, RowsOf(*context_))) && StoreKv();
}

// With a parallel residual the MLP begins before the attention's output is added, so that both read the same rows.
bool DecoderLayer::AttentionAndMlp() {
  if (!mixes_tokens()) return RunMlp();
  if (!context_->config.has_mlp(context_->layer)) return RunAttention() && AddAttention();
  const auto begin_mlp = [this] { return std::visit([](auto& mixer) { return mixer.Begin(); }, channel_mixer_); };
  const auto run_mlp = [this] { return std::visit([](auto& mixer) { return mixer.Run(); }, channel_mixer_); };
  const bool parallel = context_->config.parallel_residual;
  return (!parallel || begin_mlp()) && RunAttention() && AddAttention() && (parallel || begin_mlp()) && run_mlp() &&
         AddLayerInput() && (!context_->post_norm() || FinalPostNorm());
}

bool DecoderLayer::AttentionInputsOfStreams() {
  return ResidualStreams(context_).Read(weights_.attention_streams) && AttentionInputs();
}

bool DecoderLayer::AttentionAndMlpOfStreams() {
  const ResidualStreams streams(context_);
  const LayerRows& rows = context_->rows;
  return RunAttention() && attention_out().Run("attention out", nullptr, rows.hidden, rows.count) && streams.Write() &&
         streams.Read(weights_.mlp_streams) && RunMlp() && streams.Write();
}

bool DecoderLayer::RunMlp() {
  return std::visit([](auto& mixer) { return mixer.Begin() && mixer.Run(); }, channel_mixer_);
}

bool DecoderLayer::RunAttentionAlone() {
  const LayerRows& rows = context_->rows;
  return InputOf(context_, context_->layer).Quantize("quantize", rows.hidden, rows.count) && StoreKv() &&
         RunAttention() && attention_out().Run("attention out", nullptr, rows.hidden, rows.count);
}

bool DecoderLayer::StoreKv() {
  return std::visit([](auto& mixer) { return mixer.StoreKv(); }, token_mixer_);
}

bool DecoderLayer::RunAttention() {
  return std::visit([this](auto& mixer) { return mixer.Run(attention_out()); }, token_mixer_);
}

bool DecoderLayer::AddAttention() const {
  return attention_out().AddToResidual("attention out", weights_.post_attention_norm);
}

bool DecoderLayer::mixes_tokens() const {
  return context_->config.mixer(context_->layer) != MixerKind::kNone;
}

bool DecoderLayer::AddLayerInput() const {
  return !context_->config.has_layer_inputs() || LayerInputTerm(context_, weights_).Run();
}

bool DecoderLayer::FinalPostNorm() const {
  const Norm norm(context_, weights_.mlp_norm);
  const int32_t next = context_->layer + 1;
  if (next == context_->config.num_layers) return norm.Run("mlp norm", nullptr, RowsOf(*context_));
  const Linear input = InputOf(context_, next);
  return norm.Run("mlp norm", &input, RowsOf(*context_));
}

Linear DecoderLayer::attention_out() const {
  return {context_, OutputOf(context_->config.mixer(context_->layer), weights_),
          InputIndex(context_->layer, LayerInput::kAttentionOut)};
}

}  // namespace dunlin::engine
