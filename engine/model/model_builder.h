// Fills a Model: plans its memory, then streams every tensor once from its source into all resident precisions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/tensor_source.h"
#include "engine/model/weight_parts.h"

namespace dunlin::engine {

class ModelBuilder {
 public:
  // REQUIRES: CheckParts(parts, source) is OK and every precision appears once. Peak memory is the packed weights, and
  // a staging buffer of 16 MiB, 192 rows or the largest transposed tensor. RESOURCE_EXHAUSTED when the device has not
  // the memory (the message says how much was planned), DATA_LOSS when a file changes, INTERNAL when the device fails.
  static absl::StatusOr<std::unique_ptr<Model>> Build(const ModelConfig& config, const std::vector<WeightPart>& parts,
                                                      const TensorSource& source,
                                                      const std::vector<Precision>& precisions, kernels::Device* device,
                                                      std::vector<std::string> warnings);

 private:
  ModelBuilder(const TensorSource& source, Model* model) : source_(source), model_(model) {}

  absl::Status Allocate();
  absl::StatusOr<std::byte*> AllocateBlock(size_t bytes, size_t planned_bytes);
  absl::Status LoadPart(const WeightPart& part);
  absl::Status LoadVector(const WeightPart& part, const TensorInfo& tensor);
  absl::Status LoadRows(const WeightPart& part, const TensorInfo& tensor, int64_t first_row, int64_t num_rows);
  absl::Status PackRows(const WeightPart& part, kernels::DType dtype, int64_t first_row, int64_t num_rows);
  void Widen(kernels::DType dtype, size_t count);

  const TensorSource& source_;
  Model* model_;
  std::vector<std::byte> staging_;  // as the file has it
  std::vector<float> widened_;      // where values are converted or scaled
};

}  // namespace dunlin::engine
