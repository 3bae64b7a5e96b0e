// SPDX-License-Identifier: Apache-2.0
// A checkpoint whose linear layers hold integer codes, as the FP32 tensors that they stand for: they are dequantised as
// they are read, or given as codes where products can have these (integer_codes.h). One weight is kept in memory at a
// time, because some layouts store the columns of a row far apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/model/checkpoint/derived_tensors.h"
#include "engine/model/checkpoint/integer/integer_codes.h"
#include "engine/model/checkpoint/integer/integer_rows.h"
#include "engine/model/checkpoint/integer/integer_weight.h"

namespace dunlin::engine {

class IntegerTensors final : public DerivedTensors {
 public:
  // Errors: as FindIntegerWeights and DescribeCodes; INVALID_ARGUMENT where the checkpoint has no quantised weight,
  // or has one twice.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(const IntegerQuantization& quantization,
                                                            std::unique_ptr<TensorSource> stored);

 private:
  explicit IntegerTensors(std::unique_ptr<TensorSource> stored) : DerivedTensors(std::move(stored)) {}
  absl::Status Add(IntegerWeight weight);
  absl::StatusOr<std::shared_ptr<const IntegerRows>> RowsOf(size_t index) const;

  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  std::optional<kernels::CodeTraits> DerivedCodes(size_t index) const override { return codes_[index].traits; }
  absl::Status ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  std::string WhyNoDerivedCodes(size_t index) const override { return codes_[index].reason; }

  // Of the derived tensors, in the order of the files.
  std::vector<IntegerWeight> weights_;
  std::vector<IntegerCodes> codes_;

  mutable Mutex mutex_;
  mutable std::optional<size_t> loaded_index_ ABSL_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const IntegerRows> loaded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
