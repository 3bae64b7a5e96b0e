// SPDX-License-Identifier: Apache-2.0
// A checkpoint with some of its FP8 matrices as the FP32 ones that they stand for, code times scale: for matrices whose
// rows change places or are cut, whose scales then no longer fit. A product is rounded once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/quantization.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

class WidenedTensors final : public TensorSource {
 public:
  // names: of matrices, each once; those that `stored` does not have, or has in another dtype, stay as they are.
  // Errors: as FindScales; INVALID_ARGUMENT where such a tensor has not two dimensions.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const Quantization& quantization,
                                                            const std::vector<std::string>& names);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  // Of the tensors that are not widened.
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override {
    return EntryOf(tensor) == nullptr ? stored_->CodesOf(tensor) : std::nullopt;
  }
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override {
    return stored_->ReadCodes(tensor, first_row, num_rows, out);
  }
  std::string WhyNoCodes(const TensorInfo& tensor) const override {
    return EntryOf(tensor) == nullptr ? stored_->WhyNoCodes(tensor) : "";
  }
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override { return stored_->CheckUnchanged(); }
  std::vector<const TensorInfo*> List() const override;  // without the scales of the widened ones

 private:
  struct Entry {
    TensorInfo info;  // with a file_index of its own: no two of these are read with one call
    const TensorInfo* stored;
    PartScales scales;
  };
  explicit WidenedTensors(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {}
  // Of a tensor of stored_ that is read as FP32 from now on.
  absl::Status Add(const Quantization& quantization, const TensorInfo& tensor);
  const Entry* EntryOf(const TensorInfo& tensor) const;
  // Elements [first, first + values.size()) of a matrix.
  absl::Status Widen(const Entry& entry, uint64_t first, std::span<float> values) const;

  const std::unique_ptr<TensorSource> stored_;
  std::vector<Entry> entries_;                            // by file_index
  std::unordered_map<std::string_view, size_t> by_name_;  // indices of entries_
};

}  // namespace dunlin::engine
