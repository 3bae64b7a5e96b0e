// SPDX-License-Identifier: Apache-2.0
// One layer of a model, of a decoder or an encoder: x += Out(TokenMixer(Norm1(x))); x += ChannelMixer(Norm2(x)), norms
// as NormPlacement says, or with ModelConfig::single_terms one of the two; with per-layer embeddings a third term
// (layer_inputs.h). A new kind of mixer is a type in a file of its own, and a place in TokenMixer or ChannelMixer.
#pragma once

#include <cstdint>
#include <variant>

#include "engine/layers/attention.h"
#include "engine/layers/compressed_attention.h"
#include "engine/layers/delta_layer.h"
#include "engine/layers/experts.h"
#include "engine/layers/latent_attention.h"
#include "engine/layers/mamba_layer.h"
#include "engine/layers/mlp.h"
#include "engine/layers/mlp_and_experts.h"
#include "engine/layers/parallel_mixer.h"
#include "engine/layers/short_conv.h"

namespace dunlin::engine {

// A layer has the first type of a list whose IsIn(config, layer) is true.
//
// A token mixer mixes rows of a sequence. InputOf: its first product, whose input the layer fills. StoreKv(): stores
// what later tokens read, of every row, and leaves queries in LayerRows::query; after those of
// ModelConfig::last_storing_layer only kept rows go on. Run(next): from the queries to the input of the output
// projection.
using TokenMixer = std::variant<DeltaLayer, MambaLayer, ParallelMixer, ShortConv, LatentAttentionLayer,
                                CompressedAttention, Attention>;
// A channel mixer changes each row alone. Begin() reads hidden; with a parallel residual before the token mixer's
// output is added, else after it. Run() adds to hidden.
using ChannelMixer = std::variant<MlpAndExperts, Experts, Mlp>;

class DecoderLayer {
 public:
  // The layer LayerContext::layer.
  explicit DecoderLayer(LayerContext* context);

  // The product that reads the input of a layer.
  static Linear InputOf(LayerContext* context, int32_t layer);

  // Up to the keys and values in their pages, and the rest.
  bool AttentionInputs();
  bool AttentionAndMlp();
  bool RunMlp();

  // The same where there are several residual streams, each term of which reads and writes them.
  bool AttentionInputsOfStreams();
  bool AttentionAndMlpOfStreams();

  // Without norm and residual: hidden = Out(attention(hidden W_qkv^T)).
  bool RunAttentionAlone();

 private:
  bool StoreKv();
  bool RunAttention();
  bool AddAttention() const;
  bool mixes_tokens() const;
  // Per-layer embeddings, where the model has them.
  bool AddLayerInput() const;
  // NormPlacement::kPost: the layer's last norm, which makes the input of the next layer.
  bool FinalPostNorm() const;
  Linear attention_out() const;

  LayerContext* context_;
  const LayerWeights& weights_;
  TokenMixer token_mixer_;
  ChannelMixer channel_mixer_;
};

}  // namespace dunlin::engine
