// Fills a Model: plans its memory, then streams every tensor once from its source into all resident precisions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/open_source.h"
#include "engine/model/tensor_source.h"
#include "engine/model/weight_parts.h"

namespace dunlin::engine {

class ModelBuilder {
 public:
  // REQUIRES: every precision appears once. Peak memory is the packed weights, and a staging buffer of 16 MiB, 192 rows
  // or the largest transposed tensor. RESOURCE_EXHAUSTED when the device has not the memory (the message says how much
  // was planned), INVALID_ARGUMENT when a scale is not finite and above 0, DATA_LOSS when a file changes, INTERNAL when
  // the device fails.
  static absl::StatusOr<std::unique_ptr<Model>> Build(const OpenedModel& opened,
                                                      const std::vector<Precision>& precisions,
                                                      kernels::Device* device);

 private:
  ModelBuilder(const OpenedModel& opened, Model* model) : opened_(opened), source_(*opened.tensors), model_(model) {}

  void ReadAhead();
  absl::Status Allocate();
  absl::StatusOr<std::byte*> AllocateBlock(size_t bytes, size_t planned_bytes);
  absl::Status LoadPart(const WeightPart& part);
  absl::Status LoadInputScale(const WeightPart& part);
  absl::Status LoadVector(const WeightPart& part, const TensorInfo& tensor);
  absl::Status LoadRows(const WeightPart& part, const TensorInfo& tensor, int64_t first_row, int64_t num_rows);
  absl::Status PackRows(const WeightPart& part, kernels::DType dtype, int64_t first_row, int64_t num_rows);
  void Widen(kernels::DType dtype, size_t count);
  void SpreadScales(const WeightPart& part, int64_t first_row, int64_t num_rows);

  const OpenedModel& opened_;
  const TensorSource& source_;
  Model* model_;
  size_t next_ahead_ = 0;           // the first part that the source was not told of yet
  uint64_t bytes_ahead_ = 0;        // of parts that it was told of and that are not loaded
  std::vector<std::byte> staging_;  // as the file has it
  std::vector<float> widened_;      // where values are converted or scaled
  std::vector<float> scales_;       // of the FP8 part that is loaded, as the file has them
  std::vector<float> row_scales_;   // [staged rows, scales of a row]
};

}  // namespace dunlin::engine
