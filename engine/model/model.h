// SPDX-License-Identifier: Apache-2.0
// A loaded model: its config and, for each resident precision, its packed weights in device memory.
// Thread rule: immutable after Load; any thread may read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/weight_slot.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// y = x W^T + bias. bias is FP32 [out_features] in device memory, or null.
struct LinearWeights {
  kernels::PackedWeight weight;
  const float* bias = nullptr;
};

// FP32 [hidden_dim], for Q and K [head_dim] or, with qk_norm_joint, of all heads, in device memory; bias is null where
// the norm has none.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

struct ExpertWeights {
  LinearWeights up;    // [up_features(width), hidden_dim]
  LinearWeights down;  // [hidden_dim, width]
};

// With ModelConfig::has_latent_attention, in place of LayerWeights::qkv.
struct LatentWeights {
  LinearWeights query_down;             // [query_rank, hidden_dim], where query_rank > 0
  NormWeights query_norm;               // [query_rank], as that
  LinearWeights query;                  // [latent_query_features, query_rank or hidden_dim]: of a head plain, rotated
  LinearWeights kv_down;                // [rope_dim + kv_rank, hidden_dim]
  NormWeights kv_norm;                  // [kv_rank]
  std::vector<LinearWeights> key_up;    // [num_heads] of [kv_rank, plain_dim]
  std::vector<LinearWeights> value_up;  // [num_heads] of [value_dim, kv_rank]
};

struct LayerWeights {
  NormWeights attention_norm;       // before the attention; with NormPlacement::kPost after it; see first_norm_absent
  LinearWeights qkv;                // [qkv_features, hidden_dim]: Q heads, K heads, V heads
  LatentWeights latent;             // with has_latent_attention
  NormWeights query_norm;           // with qk_norm
  NormWeights key_norm;             // with qk_norm
  const float* sinks = nullptr;     // [num_heads], with attention_sinks
  LinearWeights attention_out;      // [hidden_dim, attention_features]
  NormWeights post_attention_norm;  // with NormPlacement::kPreAndPost and kPostInside
  NormWeights mlp_norm;             // before the MLP; with kPost after it; absent with shared_norm
  LinearWeights mlp_up;             // [up_features, hidden_dim]; absent with experts, as mlp_down
  LinearWeights mlp_down;           // [hidden_dim, ffn_dim]
  NormWeights post_mlp_norm;        // with kPreAndPost and kPostInside
  // Where ModelConfig::has_experts(layer).
  LinearWeights router;                      // [router_features, hidden_dim] in FP32
  const float* router_correction = nullptr;  // [num_experts], with router_correction
  std::vector<ExpertWeights> experts;        // [num_experts], of expert_ffn_dim
  ExpertWeights shared_expert;               // of shared_ffn_dim, where that is > 0
};

// The whole model in one precision. FP8 may keep some matrices in 16 bits (weight_encodings.h): each says its
// precision.
struct PrecisionWeights {
  kernels::PackedWeight embedding;    // [vocab_size, hidden_dim]
  kernels::PackedWeight positions;    // [position_rows, hidden_dim] when learned_positions
  kernels::PackedWeight token_types;  // [num_token_types, hidden_dim] when there are any
  NormWeights embedding_norm;         // with has_embedding_norm()
  std::vector<LayerWeights> layers;
  NormWeights final_norm;          // before the head; not with NormPlacement::kPost
  LinearWeights head;              // decoders: [vocab_size, hidden_dim]; the embedding's own memory when tied
  LinearWeights classifier_dense;  // [hidden_dim, hidden_dim] with num_labels
  NormWeights classifier_norm;     // with ModelConfig::classifier_norm
  LinearWeights classifier_out;    // [num_labels, hidden_dim] with num_labels
  // Activation::amax_limit of every FP8 input.
  float input_amax_limit = std::numeric_limits<float>::infinity();
};

// FP8 scales of linear inputs, from a checkpoint or a calibration, by (slot that takes the input, layer).
using InputScales = std::map<std::pair<WeightSlot, int32_t>, float>;

// Where a model's config and weights come from.
struct ModelSource {
  std::string path;  // a Hugging Face model directory or a GGUF file; empty for random weights
  std::string
      random_shape;  // for random weights: a name of named_shapes.cc, a path to a config.json, or its text ("{...")
  uint64_t random_seed = 0;
  std::vector<Precision> precisions;  // resident precisions, the default first; >= 1, distinct
  bool int8_inputs = false;           // PackedWeight::int8_inputs of every matrix in groups of integer codes; CPU
};

class Model {
 public:
  // Reads, checks and packs. Files are read with pread, converted once and closed; the model does not refer to them
  // afterwards. Errors: NOT_FOUND (a missing file or tensor), INVALID_ARGUMENT (a malformed or unsupported file; the
  // message names file, field, value and limit), RESOURCE_EXHAUSTED (memory), DATA_LOSS (a file changed while it was
  // read), INTERNAL (the device failed), CANCELLED (*stop became true, which is looked at every 16 MiB or so; null:
  // never). device outlives the model.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const ModelSource& source, kernels::Device* device,
                                                     const std::atomic<bool>* stop = nullptr);
  ~Model();

  const ModelConfig& config() const { return config_; }
  const std::vector<Precision>& precisions() const { return precisions_; }
  kernels::Device* device() const { return device_; }
  // REQUIRES: precision is one of precisions().
  const PrecisionWeights& weights(Precision precision) const;
  // Bytes of the packed weights of one precision, including the FP32 norms and biases that all precisions share.
  // REQUIRES: precision is one of precisions().
  size_t weight_bytes(Precision precision) const;
  // The precision in which weights are the integer codes of the checkpoint itself (weight_encodings.h); none where it
  // has none. It need not be one of precisions().
  std::optional<Precision> own_precision() const { return own_precision_; }
  bool int8_inputs() const { return int8_inputs_; }  // ModelSource's
  // Finite and > 0; empty when neither the checkpoint nor a calibration has any.
  const InputScales& input_scales() const { return input_scales_; }
  int64_t num_parameters() const { return num_parameters_; }                // a tied head counts once
  int64_t num_active_parameters() const { return num_active_parameters_; }  // as CountActiveParameters
  // Contents of the files that were ignored or overridden: one sentence each, for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class ModelBuilder;
  Model() = default;
  size_t IndexOf(Precision precision) const;

  ModelConfig config_;
  std::vector<Precision> precisions_;
  std::vector<PrecisionWeights> weights_;  // one per precision
  std::vector<size_t> weight_bytes_;       // one per precision
  struct Allocation {
    void* memory;
    size_t bytes;
  };
  std::vector<Allocation> allocations_;  // released in the destructor
  kernels::Device* device_ = nullptr;
  int64_t num_parameters_ = 0;
  int64_t num_active_parameters_ = 0;
  std::optional<Precision> own_precision_;
  bool int8_inputs_ = false;
  InputScales input_scales_;
  std::vector<std::string> warnings_;
};

}  // namespace dunlin::engine
