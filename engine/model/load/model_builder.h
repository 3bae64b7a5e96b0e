// SPDX-License-Identifier: Apache-2.0
// Builds a Model: plans its memory, then streams every tensor once from its source into all resident precisions and,
// where the model is divided, into all ranks, each of which takes its rows.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/load/model_source.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/model.h"
#include "engine/model/spec/rank_config.h"
#include "engine/model/weights/weight_parts.h"
#include "engine/model/weights/weight_reader.h"
#include "engine/parallel/rank_devices.h"
#include "engine/parallel/rank_threads.h"

namespace dunlin::engine {

class ModelBuilder {
 public:
  // REQUIRES: the source's precisions are distinct. Peak memory is the packed weights and, during the call, three
  // buffers of 16 MiB, 192 rows or the largest transposed tensor, whichever is largest, a fourth where tensors are not
  // aligned to their elements, and one of floats where rows are scaled. RESOURCE_EXHAUSTED when the device lacks the
  // memory (the message says how much was planned), INVALID_ARGUMENT when a scale is not finite and > 0, DATA_LOSS when
  // a file changes, INTERNAL when the device fails, CANCELLED once *stop is true (may be null). FAILED_PRECONDITION
  // when the device lacks experts or int8_inputs and the model or the source has them, and where the model or the
  // device is not divided. devices: of the source's ranks.
  static absl::StatusOr<std::unique_ptr<Model>> Build(const OpenedModel& opened, const ModelSource& source,
                                                      const std::vector<kernels::Device*>& devices,
                                                      const std::atomic<bool>* stop);

 private:
  ModelBuilder(const OpenedModel& opened, Model* model);

  absl::Status Allocate(Model* rank);
  absl::StatusOr<std::byte*> AllocateBlock(size_t bytes, size_t planned_bytes, Model* rank);
  // Calls body(rank) for all ranks, at once where there are several; the first error.
  absl::Status ForEachRank(absl::FunctionRef<absl::Status(Model* rank)> body);
  absl::Status LoadParts(WeightReader* reader, const std::atomic<bool>* stop);
  absl::Status LoadScales();
  absl::Status LoadVector(const WeightRows& rows);
  absl::Status FillFixedNorms(Model* rank);
  absl::Status CopyVector(const WeightPart& part, size_t count, Model* rank);
  absl::Status LoadMatrix(const WeightRows& rows);
  absl::Status LoadCodes(const WeightRows& rows);
  absl::Status PackRows(const WeightRows& rows, const void* values, kernels::DType dtype);
  absl::Status PackPart(const WeightRows& rows, const void* values, kernels::DType dtype, const RankRows& part,
                        Model* rank) const;
  void Widen(const std::byte* values, kernels::DType dtype, size_t count);
  void ExpandScales(const WeightRows& rows);

  const OpenedModel& opened_;
  const TensorSource& source_;
  std::vector<Model*> ranks_;
  std::unique_ptr<ScopedCpus> bound_;                       // of several ranks: this thread is rank 0's
  std::unique_ptr<RankThreads> threads_;                    // of the ranks; null where there is one
  std::vector<float> widened_;                              // values converted to FP32 or scaled
  std::map<const WeightPart*, std::vector<float>> scales_;  // of the FP8 parts, as stored in the file
  std::vector<float> row_scales_;                           // [rows of one call, ScalesPerRow]
};

}  // namespace dunlin::engine
