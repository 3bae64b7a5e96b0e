// SPDX-License-Identifier: Apache-2.0
// A checkpoint whose matrices over neighbouring patches have their columns patch by patch: those that it stores by
// feature, as torch's unfold orders them, column feature * patches + patch, become column patch * features + feature.
// The rows that such a matrix reads are then those of the patches, one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/derived_tensors.h"

namespace dunlin::engine {

class MergedColumns final : public DerivedTensors {
 public:
  // names: of matrices [rows, features * patches], each once; those that `stored` does not have are left to whoever
  // looks for them. patches: >= 1. INVALID_ARGUMENT where a matrix is FP8, or its columns are not of whole features.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<std::string>& names, int64_t patches);

 private:
  MergedColumns(std::unique_ptr<TensorSource> stored, int64_t patches)
      : DerivedTensors(std::move(stored)), patches_(static_cast<uint64_t>(patches)) {}
  absl::Status Add(const std::string& name);
  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  std::string WhyNoDerivedCodes(size_t index) const override;

  const uint64_t patches_;
};

}  // namespace dunlin::engine
