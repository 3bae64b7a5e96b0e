// A loaded model: its config and, for each resident precision, its packed weights in device memory.
// Immutable after load; any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/model/weight_slot.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// y = x W^T + bias. bias is FP32 [out_features] in device memory, or null.
struct LinearWeights {
  kernels::PackedWeight weight;
  const float* bias = nullptr;
};

// FP32 [hidden_dim], or [head_dim] for Q and K, in device memory; bias is null where the norm has none.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

struct LayerWeights {
  NormWeights attention_norm;       // before the attention; in an encoder after it
  LinearWeights qkv;                // [qkv_features, hidden_dim]: Q heads, K heads, V heads
  NormWeights query_norm;           // with qk_norm
  NormWeights key_norm;             // with qk_norm
  LinearWeights attention_out;      // [hidden_dim, num_heads * head_dim]
  NormWeights post_attention_norm;  // with post_norms
  NormWeights mlp_norm;             // before the MLP; in an encoder after it; not with shared_norm
  LinearWeights mlp_up;             // [up_features, hidden_dim]
  LinearWeights mlp_down;           // [hidden_dim, ffn_dim]
  NormWeights post_mlp_norm;        // with post_norms
};

// The whole model in one precision. FP8 may keep some matrices wider (slot_forms.h): each says its own precision.
struct PrecisionWeights {
  kernels::PackedWeight embedding;    // [vocab_size, hidden_dim]
  kernels::PackedWeight positions;    // [position_rows, hidden_dim] when learned_positions
  kernels::PackedWeight token_types;  // [num_token_types, hidden_dim] when there are any
  NormWeights embedding_norm;         // encoders
  std::vector<LayerWeights> layers;
  NormWeights final_norm;  // decoders
  LinearWeights head;      // decoders: [vocab_size, hidden_dim]; the embedding's own memory when tied
  // Activation::amax_limit of every FP8 input.
  float input_amax_limit = std::numeric_limits<float>::infinity();
};

// The scales of linear inputs that a checkpoint or a calibration gives, by the slot that takes the input.
using InputScales = std::map<std::pair<WeightSlot, int32_t>, float>;

// Where a model comes from.
struct ModelSource {
  std::string path;          // a Hugging Face directory; or empty for random weights:
  std::string random_shape;  // a row of named_shapes.cc, a path to a config.json, or the text of one ("{...")
  uint64_t random_seed = 0;
  std::vector<Precision> precisions;  // resident ones, the first is the default; >= 1, no repeats
};

class Model {
 public:
  // Reads, checks and packs. Files are copied out with pread, converted once and closed: afterwards nothing refers to
  // them. Errors: NOT_FOUND (no such file or tensor), INVALID_ARGUMENT (a file says something wrong; the message names
  // file, field, value and limit), RESOURCE_EXHAUSTED (memory), DATA_LOSS (a file changed while it was read), INTERNAL
  // (the device failed). device outlives the model.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const ModelSource& source, kernels::Device* device);
  ~Model();

  const ModelConfig& config() const { return config_; }
  const std::vector<Precision>& precisions() const { return precisions_; }
  kernels::Device* device() const { return device_; }
  // REQUIRES: precision is one of precisions().
  const PrecisionWeights& weights(Precision precision) const;
  // Bytes of packed weights of one resident precision, with the FP32 norms and biases that all precisions share.
  // REQUIRES: precision is one of precisions().
  size_t weight_bytes(Precision precision) const;
  // Empty unless the checkpoint has them; then finite and above 0.
  const InputScales& input_scales() const { return input_scales_; }
  int64_t num_parameters() const { return num_parameters_; }  // a tied head counts once
  // What the files say that was not used or not believed: one sentence each, for the log.
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
  InputScales input_scales_;
  std::vector<std::string> warnings_;
};

}  // namespace dunlin::engine
