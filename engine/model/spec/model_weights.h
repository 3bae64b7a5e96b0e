// SPDX-License-Identifier: Apache-2.0
// The packed weights of a model in one precision: a field for every row of kWeightSlotTable (weight_slot.h). They point
// into device memory and own none of it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "engine/model/spec/weight_slot.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// y = x W^T + bias.
using LinearWeights = kernels::BiasedWeight;

// FP32 [hidden_dim], for Q and K [head_dim] or, with AttentionSpec::qk_norm_joint, of all heads, in device memory; bias
// is null where the norm has none.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

struct ExpertWeights {
  LinearWeights up;    // [up_features(width), hidden_dim]
  LinearWeights down;  // [hidden_dim, width]
};

// Of a layer, as grouped products take them.
struct ExpertLists {
  std::vector<LinearWeights> up;
  std::vector<LinearWeights> down;

  size_t size() const { return up.size(); }
  ExpertWeights operator[](size_t expert) const { return {up[expert], down[expert]}; }
};

// With AttentionSpec::is_latent, in place of LayerWeights::qkv.
struct LatentWeights {
  LinearWeights query_down;             // [query_rank, hidden_dim], where query_rank > 0
  NormWeights query_norm;               // [query_rank], as that
  LinearWeights query;                  // [latent_query_features, query_rank or hidden_dim]: of a head plain, rotated
  LinearWeights kv_down;                // [rope_dim + kv_rank, hidden_dim]
  NormWeights kv_norm;                  // [kv_rank]
  std::vector<LinearWeights> key_up;    // [num_heads] of [kv_rank, plain_dim]
  std::vector<LinearWeights> value_up;  // [num_heads] of [value_dim, kv_rank]
};

// With AttentionSpec::has_indexer of the layer.
struct IndexerWeights {
  LinearWeights query;     // [query_features, query_rank or hidden_dim], at least 16 bits, as the others
  NormWeights query_norm;  // [dim], by blocks
  LinearWeights key;       // [dim, hidden_dim]
  NormWeights key_norm;    // [dim], a LayerNorm with bias or, by blocks, as query_norm
  LinearWeights weights;   // [num_heads, hidden_dim], not by blocks
};

// With AttentionSpec::is_compressed: what a layer has besides LatentWeights::query_down to kv_norm, kv_norm [head_dim].
// Rows are values, then gates, at least 16 bits; `index` is the same of index keys. The layer's indexer has `query` and
// `weights` alone.
struct CompressedWeights {
  struct Entries {
    LinearWeights rows;           // [2 * series * dim, hidden_dim]
    const float* bias = nullptr;  // [rate, series, dim]
    NormWeights norm;             // [dim]
  };
  Entries keys;                         // of head_dim, in layers with a rate
  Entries index;                        // of IndexerSpec::dim, in layers that choose
  std::vector<LinearWeights> out_down;  // [out_groups] of [out_rank, the features of a group's heads], 16 bits or more
};

// With ModelConfig::has_streams, of a term; of the head.
struct StreamWeights {
  LinearWeights mixes;           // [stream_mixes, streams * hidden_dim] in FP32; of the head [streams, ...]
  const float* base = nullptr;   // [stream_mixes]; [streams]
  const float* scale = nullptr;  // [3]; [1]
};

// Of a layer with MixerKind::kDelta, in place of LayerWeights::qkv.
struct DeltaWeights {
  LinearWeights in;                  // [input_features, hidden_dim]: queries, keys, values, z
  LinearWeights gates;               // [gate_features, hidden_dim], at least 16 bits, as the next two
  LinearWeights decay;               // [decay_features, gate_rank or hidden_dim], with decays_by_channel()
  LinearWeights z;                   // [output_features, gate_rank], where gate_rank > 0
  const float* conv = nullptr;       // [conv_taps, channels]
  const float* rate = nullptr;       // [value_heads]
  const float* time_bias = nullptr;  // [decay_features]
  const float* norm = nullptr;       // [value_dim]
  LinearWeights out;                 // [hidden_dim, output_features], in place of LayerWeights::attention_out
};

// Of a layer with MixerKind::kShortConv, as that.
struct ShortConvWeights {
  LinearWeights in;             // [3 * channels, hidden_dim]: B, C, x
  const float* conv = nullptr;  // [taps, channels]
  const float* bias = nullptr;  // [channels], with ShortConvSpec::bias
  LinearWeights out;            // [hidden_dim, channels]
};

// Of a layer with MixerKind::kMamba, in place of LayerWeights::qkv; with kParallel next to it.
struct MambaWeights {
  LinearWeights in;                  // [input_features, hidden_dim]: z, x, B, C, steps
  const float* conv = nullptr;       // [conv_taps, channels]
  const float* conv_bias = nullptr;  // [channels], with MambaSpec::conv_bias
  const float* rate = nullptr;       // [num_heads]
  const float* time_bias = nullptr;  // [num_heads]
  const float* skip = nullptr;       // [num_heads]
  const float* norm = nullptr;       // [output_features], not with MambaNorm::kNone
  LinearWeights out;                 // [hidden_dim, output_features], in place of LayerWeights::attention_out
};

// Of a layer that predicts further tokens (ModelConfig::predicts): what it has besides its mixers.
struct PredictorWeights {
  NormWeights embedding_norm;  // of the token's embedding
  NormWeights hidden_norm;     // of the hidden row
  LinearWeights in;            // [hidden_dim, 2 * hidden_dim]: of the normed embedding, then the normed hidden row
  NormWeights final_norm;      // before the head
  LinearWeights head;          // [vocab_size, hidden_dim], with PredictorSpec::own_head; else the head is the model's
};

struct LayerWeights {
  NormWeights attention_norm;    // before the attention; with NormPlacement::kPost after it; see NormSpec::first_absent
  LinearWeights qkv;             // [qkv_features, hidden_dim]: Q heads, K heads, V heads
  LinearWeights attention_gate;  // [gate_features, hidden_dim], with AttentionSpec::output_gate
  LatentWeights latent;          // where the attention is latent
  IndexerWeights indexer;        // where a layer has an indexer
  CompressedWeights compressed;  // where the attention is compressed
  StreamWeights attention_streams;
  StreamWeights mlp_streams;
  DeltaWeights delta;                // of MixerKind::kDelta
  ShortConvWeights short_conv;       // of MixerKind::kShortConv
  MambaWeights mamba;                // of MixerKind::kMamba and kParallel
  NormWeights query_norm;            // with qk_norm
  NormWeights key_norm;              // with qk_norm
  const float* sinks = nullptr;      // [num_heads], with attention_sinks
  LinearWeights attention_out;       // [hidden_dim, output_features]
  NormWeights post_attention_norm;   // with NormPlacement::kPreAndPost and kPostInside
  NormWeights mlp_norm;              // before the MLP; with kPost after it; absent with NormSpec::shared
  LinearWeights mlp_up;              // [up_features, hidden_dim]; absent with experts alone, as mlp_down
  LinearWeights mlp_down;            // [hidden_dim, ffn_dim]
  const float* mlp_curve = nullptr;  // [4] ActivateParams::curve, with MlpSpec::learned_curve
  NormWeights post_mlp_norm;         // with kPreAndPost and kPostInside
  // Where ExpertSpec::in_layer.
  LinearWeights router;                      // [router_features, hidden_dim] in FP32
  const float* router_correction = nullptr;  // [num_experts], with router_correction
  LinearWeights latent_in;                   // [latent_dim, hidden_dim], where latent_dim > 0
  LinearWeights latent_out;                  // [hidden_dim, latent_dim], as that
  // With ExpertSpec::beside_mlp, [hidden_dim] but expert_scales, which is [num_experts].
  NormWeights router_norm;
  NormWeights experts_norm;
  NormWeights post_dense_norm;
  NormWeights post_experts_norm;
  const float* expert_scales = nullptr;
  const float* token_experts = nullptr;  // [vocab_size, num_chosen], with ExpertSpec::chooses_by_token
  ExpertLists experts;                   // [num_experts], of ExpertSpec::ffn_dim
  ExpertWeights shared_expert;           // of shared_ffn_dim, where that is > 0
  // With ModelConfig::has_layer_inputs.
  LinearWeights layer_input_gate;       // [width, hidden_dim]
  LinearWeights layer_input_out;        // [hidden_dim, width]
  NormWeights post_layer_input_norm;    // [hidden_dim]
  const float* layer_factor = nullptr;  // [1], with ModelConfig::layer_factor
  PredictorWeights predictor;           // where the layer predicts
};

// Of an encoder of images (ImageSpec): what follows its layers.
struct ProjectorWeights {
  NormWeights norm;
  LinearWeights merge;  // [hidden_dim, patches_per_row * hidden_dim], with merge_matrix
  LinearWeights up;     // [projector_dim, hidden_dim or, without merge_matrix, patches_per_row * hidden_dim]
  LinearWeights down;   // [out_dim, projector_dim]
};

// The whole model in one precision. FP8 may keep some matrices in 16 bits (weight_encodings.h): each says its
// precision.
struct PrecisionWeights {
  kernels::PackedWeight embedding;  // [vocab_size, hidden_dim], not of an encoder of images
  LinearWeights patch_embedding;    // [hidden_dim, patch_inputs] of one
  // [position_side, position_side, hidden_dim], with a position_side; read by the host, not by operations.
  const float* patch_positions = nullptr;
  kernels::PackedWeight positions;    // [position_rows, hidden_dim] when learned_positions
  kernels::PackedWeight token_types;  // [num_token_types, hidden_dim] when there are any
  NormWeights embedding_norm;         // with has_embedding_norm()
  // With has_layer_inputs().
  kernels::PackedWeight layer_table;  // [LayerInputSpec::vocab_size, layer_input_features]
  LinearWeights layer_projection;     // [layer_input_features, hidden_dim]
  NormWeights layer_projection_norm;  // [width] of each layer, divided by sqrt(2)
  std::vector<LayerWeights> layers;
  StreamWeights head_streams;
  NormWeights final_norm;          // before the head; not with NormPlacement::kPost nor of an encoder of images
  LinearWeights head;              // decoders: [vocab_size, hidden_dim]; the embedding's own memory when tied
  LinearWeights classifier_dense;  // [hidden_dim, hidden_dim] with num_labels
  NormWeights classifier_norm;     // with ClassifierSpec::norm
  LinearWeights classifier_out;    // [num_labels, hidden_dim] with num_labels
  ProjectorWeights projector;      // of an encoder of images
  // Activation::amax_limit of every FP8 input.
  float input_amax_limit = std::numeric_limits<float>::infinity();
};

// FP8 scales of linear inputs, from a checkpoint or a calibration, by (slot that takes the input, layer).
using InputScales = std::map<std::pair<WeightSlot, int32_t>, float>;

}  // namespace dunlin::engine
