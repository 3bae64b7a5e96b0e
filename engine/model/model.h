// SPDX-License-Identifier: Apache-2.0
// A loaded model: its config and, for each resident precision, its packed weights in device memory. Of a model that is
// divided among ranks: rank 0's part, which owns those of the other ranks.
// Thread rule: immutable once loaded (load/load_model.h); any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/spec/adaptable.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/model_weights.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

class Model {
 public:
  ~Model();

  // Of the undivided model.
  const ModelConfig& config() const { return config_.undivided(); }
  // As the layers of this rank see it (rank_config.h); config() where the model is not divided.
  const ModelConfig& rank_config() const { return config_; }
  int32_t num_ranks() const { return static_cast<int32_t>(other_ranks_.size()) + 1; }
  // REQUIRES: this is rank 0's, 0 <= rank < num_ranks().
  const Model& of_rank(int32_t rank) const { return rank == 0 ? *this : *other_ranks_[static_cast<size_t>(rank) - 1]; }
  const std::vector<Precision>& precisions() const { return precisions_; }
  kernels::Device* device() const { return device_; }  // the rank's
  // What the devices of all ranks have given out, to all their models. REQUIRES: this is rank 0's.
  kernels::DeviceMemory device_memory() const;
  // REQUIRES: precision is one of precisions().
  const PrecisionWeights& weights(Precision precision) const;
  // Bytes of the packed weights of one precision in all ranks, including the FP32 norms and biases that all precisions
  // share.
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
  const AdaptableModules& adaptable() const { return adaptable_; }
  // Contents of the files that were ignored or overridden: one sentence each, for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class ModelBuilder;
  Model() = default;
  size_t IndexOf(Precision precision) const;

  ModelConfig config_;  // rank_config()
  std::vector<std::unique_ptr<Model>> other_ranks_;
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
  AdaptableModules adaptable_;
  std::vector<std::string> warnings_;
};

}  // namespace dunlin::engine
