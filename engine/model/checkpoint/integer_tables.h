// SPDX-License-Identifier: Apache-2.0
// A checkpoint with tables of indices, stored as 32- or 64-bit integers, as FP32 numbers of the same values.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/derived_tensors.h"

namespace dunlin::engine {

class IntegerTables final : public DerivedTensors {
 public:
  // Those of `names` that are stored as integers; their values are in [0, limit), limit <= 2^24. Reading another value
  // gives INVALID_ARGUMENT.
  static std::unique_ptr<TensorSource> Open(std::unique_ptr<TensorSource> stored, std::span<const std::string> names,
                                            int64_t limit);

 private:
  IntegerTables(std::unique_ptr<TensorSource> stored, int64_t limit)
      : DerivedTensors(std::move(stored)), limit_(limit) {}

  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  // `values` from element `first` on.
  absl::Status ReadValues(size_t index, uint64_t first, std::span<float> values) const;

  const int64_t limit_;
};

}  // namespace dunlin::engine
