// SPDX-License-Identifier: Apache-2.0
// The memory that a model would need, from config.json and the headers of its files; of the weights only the scales and
// zero points of integer codes are read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/load/model_source.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/weights/unused_tensors.h"
#include "kernels/api/device.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

// The encoder of images that a multimodal model has next to the text model.
struct ImageEncoderSummary {
  ModelConfig config;
  int64_t num_parameters = 0;
  std::array<size_t, kernels::kNumPrecisions> weight_bytes{};  // by Precision; 0: it is not served in that
};

struct ModelSummary {
  ModelConfig config;
  int64_t num_parameters = 0;                                  // a tied head counts once
  int64_t num_active_parameters = 0;                           // as CountActiveParameters
  std::array<size_t, kernels::kNumPrecisions> weight_bytes{};  // by Precision, as Model::weight_bytes; 0: not supported
  std::optional<kernels::Precision> own_precision;             // as Model::own_precision
  std::array<size_t, kernels::kNumWeightFormats> own_formats{};  // its matrices by format, bytes
  size_t vector_bytes = 0;                                       // of each, the part that all precisions share
  // Elements that an adapter of every module takes on all devices for each of its rank, and those of experts.
  int64_t adaptable_features = 0;
  int64_t expert_features = 0;
  // Bytes of one token's keys and values over all layers.
  struct KvBytes {
    kernels::DType dtype;
    size_t bytes_per_token;
  };
  std::vector<KvBytes> kv_bytes_per_token;           // F32, F16, BF16, E4M3; empty for an encoder, which keeps none
  std::optional<ImageEncoderSummary> image_encoder;  // where it has one that is served
  std::vector<SkippedTensors> skipped;               // of parts that are not served
  std::vector<std::string> warnings;
};

// Checks and errors as LoadModel, except for those that need the weights' values. Ignores source.precisions. Of `ops`
// only packed_weight_bytes is called.
absl::StatusOr<ModelSummary> InspectModel(const ModelSource& source, const kernels::DeviceOps& ops);

// As Model::own_precision. Errors as InspectModel.
absl::StatusOr<std::optional<kernels::Precision>> OwnPrecisionOf(const ModelSource& source);

}  // namespace dunlin::engine
