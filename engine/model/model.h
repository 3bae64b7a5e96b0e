// SPDX-License-Identifier: Apache-2.0
// A loaded model: its config and, for each resident precision, its packed weights in device memory.
// Thread rule: immutable after Load; any thread may read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/model_weights.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

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
