// SPDX-License-Identifier: Apache-2.0
// Builds a Model: plans its memory, then streams every tensor once from its source into all resident precisions.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/load/model_source.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/model.h"
#include "engine/model/weights/weight_parts.h"
#include "engine/model/weights/weight_reader.h"

namespace dunlin::engine {

class ModelBuilder {
 public:
  // REQUIRES: the source's precisions are distinct. Peak memory is the packed weights and, during the call, three
  // buffers of 16 MiB, 192 rows or the largest transposed tensor, whichever is largest, a fourth where tensors are not
  // aligned to their elements, and one of floats where rows are scaled. RESOURCE_EXHAUSTED when the device lacks the
  // memory (the message says how much was planned), INVALID_ARGUMENT when a scale is not finite and > 0, DATA_LOSS when
  // a file changes, INTERNAL when the device fails, CANCELLED once *stop is true (may be null). FAILED_PRECONDITION
  // when the device lacks experts or int8_inputs and the model or the source has them.
  static absl::StatusOr<std::unique_ptr<Model>> Build(const OpenedModel& opened, const ModelSource& source,
                                                      kernels::Device* device, const std::atomic<bool>* stop);

 private:
  ModelBuilder(const OpenedModel& opened, Model* model) : opened_(opened), source_(*opened.tensors), model_(model) {}

  absl::Status Allocate();
  absl::StatusOr<std::byte*> AllocateBlock(size_t bytes, size_t planned_bytes);
  absl::Status LoadParts(WeightReader* reader, const std::atomic<bool>* stop);
  absl::Status LoadScales();
  absl::Status LoadVector(const WeightRows& rows);
  absl::Status FillFixedNorms();
  absl::Status FillVector(const WeightPlace& place, float value);
  absl::Status CopyVector(const WeightPart& part, size_t count);
  absl::Status LoadMatrix(const WeightRows& rows);
  absl::Status LoadCodes(const WeightRows& rows);
  absl::Status PackRows(const WeightRows& rows, const void* values, kernels::DType dtype);
  void Widen(const std::byte* values, kernels::DType dtype, size_t count);
  void ExpandScales(const WeightRows& rows);

  const OpenedModel& opened_;
  const TensorSource& source_;
  Model* model_;
  std::vector<float> widened_;                              // values converted to FP32 or scaled
  std::map<const WeightPart*, std::vector<float>> scales_;  // of the FP8 parts, as stored in the file
  std::vector<float> row_scales_;                           // [rows of one call, ScalesPerRow]
};

}  // namespace dunlin::engine
