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
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/model/checkpoint/integer/integer_codes.h"
#include "engine/model/checkpoint/integer/integer_rows.h"
#include "engine/model/checkpoint/integer/integer_weight.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class IntegerTensors final : public TensorSource {
 public:
  // Errors: as FindIntegerWeights and DescribeCodes; INVALID_ARGUMENT where the checkpoint has no quantised weight.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(const IntegerQuantization& quantization,
                                                            std::unique_ptr<TensorSource> stored);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override;
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  std::string WhyNoCodes(const TensorInfo& tensor) const override;
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override { return stored_->CheckUnchanged(); }
  std::vector<const TensorInfo*> List() const override;

 private:
  explicit IntegerTensors(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {}
  // The weight that a tensor of this source stands for, or null for one that is given as stored.
  const IntegerWeight* WeightOf(const TensorInfo& tensor) const;
  // The same of its codes.
  const IntegerCodes* DescriptionOf(const TensorInfo& tensor) const;
  absl::StatusOr<std::shared_ptr<const IntegerRows>> RowsOf(const IntegerWeight& weight) const;

  const std::unique_ptr<TensorSource> stored_;
  std::vector<IntegerWeight> weights_;   // in the order of the files
  std::vector<IntegerCodes> codes_;      // of the weights
  std::vector<TensorInfo> infos_;        // of the weights
  std::vector<size_t> by_name_;          // indices of infos_
  std::vector<const TensorInfo*> used_;  // tensors of the weights, sorted by address

  mutable Mutex mutex_;
  mutable const IntegerWeight* loaded_weight_ ABSL_GUARDED_BY(mutex_) = nullptr;
  mutable std::shared_ptr<const IntegerRows> loaded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
