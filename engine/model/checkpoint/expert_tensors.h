// SPDX-License-Identifier: Apache-2.0
// A checkpoint in which the experts of a layer are stacked in one tensor, with one tensor for each expert in its place:
// "a.experts.up" [num_experts, rows, columns] becomes "a.experts.0.up" [rows, columns], "a.experts.1.up", ... So are
// matrices of heads. And one in which rows of matrices are tensors of their own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

// The name of a stacked tensor and that of an expert's, in which '@' stands for its index.
struct ExpertStack {
  std::string stack;
  std::string expert;
};

// Rows [first, first + count) of a matrix that has stored_rows, as a tensor of their own.
struct TensorSlice {
  std::string stored;
  std::string name;
  int64_t stored_rows;
  int64_t first;
  int64_t count;
};

class ExpertTensors final : public TensorSource {
 public:
  // Stacks that `stored` does not have are left to whoever looks for their experts. INVALID_ARGUMENT where a stack's
  // first dimension is not count_of_layer: the number of experts, or of heads.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<ExpertStack>& stacks,
                                                            int32_t count_of_layer);

  // The same for rows of matrices. INVALID_ARGUMENT where a tensor has another number of rows. REQUIRES: none is FP8,
  // whose scales are those of the whole tensor (WidenedTensors).
  static absl::StatusOr<std::unique_ptr<TensorSource>> OpenSlices(std::unique_ptr<TensorSource> stored,
                                                                  const std::vector<TensorSlice>& slices);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override {
    return stored_->CodesOf(*Locate(tensor).first);
  }
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  std::string WhyNoCodes(const TensorInfo& tensor) const override { return stored_->WhyNoCodes(*Locate(tensor).first); }
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override { return stored_->CheckUnchanged(); }
  std::vector<const TensorInfo*> List() const override;

 private:
  struct Entry {
    TensorInfo info;  // a part of its stack's bytes
    const TensorInfo* stack;
  };
  explicit ExpertTensors(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {}
  void AddExperts(const TensorInfo& stack, const std::string& expert_name);
  // info: the name and shape of `bytes` bytes of the stack that start `before` bytes after its first.
  void Add(TensorInfo info, const TensorInfo& stack, uint64_t before, uint64_t bytes);
  // Where a tensor of this source is in a tensor of stored_: that one, and the bytes before it.
  std::pair<const TensorInfo*, uint64_t> Locate(const TensorInfo& tensor) const;

  const std::unique_ptr<TensorSource> stored_;
  std::map<std::string, Entry, std::less<>> entries_;  // by the name of the part
};

}  // namespace dunlin::engine
