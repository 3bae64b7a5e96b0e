// SPDX-License-Identifier: Apache-2.0
// A checkpoint with tensors that are made from stored ones as they are read: in another dtype, order or shape. It gives
// the others as they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class DerivedTensors : public TensorSource {
 public:
  const TensorInfo* Find(std::string_view name) const final;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const final;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const final;
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const final;
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const final;
  std::string WhyNoCodes(const TensorInfo& tensor) const final;
  std::string FileOf(const TensorInfo& tensor) const final;
  absl::Status CheckUnchanged() const final { return stored_->CheckUnchanged(); }
  std::vector<const TensorInfo*> List() const final;

 protected:
  explicit DerivedTensors(std::unique_ptr<TensorSource> stored);

  const TensorSource& stored() const { return *stored_; }
  // Adds the tensor of that name, dtype and shape, which is made from `source`, a tensor of stored() that is no longer
  // found by its own name, and from others. Returns its index: how many were added before it. REQUIRES: !Derives(name).
  size_t Derive(std::string name, const TensorDType& dtype, std::vector<int64_t> shape, const TensorInfo& source);
  // A tensor of stored(), or null, that is no longer found either.
  void Hide(const TensorInfo* tensor);
  bool Derives(std::string_view name) const { return by_name_.contains(name); }
  size_t num_derived() const { return derived_.size(); }
  const TensorInfo& Info(size_t index) const { return derived_[index].info; }
  const TensorInfo& Source(size_t index) const { return *derived_[index].source; }

 private:
  // TensorSource's functions for derived tensor `index`; `out` is not empty. By default it has no codes.
  virtual absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const = 0;
  virtual std::optional<kernels::CodeTraits> DerivedCodes(size_t /*index*/) const { return std::nullopt; }
  virtual absl::Status ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows, CodedRows* out) const;
  virtual std::string WhyNoDerivedCodes(size_t /*index*/) const { return ""; }

  struct Derived {
    TensorInfo info;  // with a file_index of its own: no two of these are read with one call
    const TensorInfo* source;
  };
  // The index of a tensor of this source, or none for one of stored_.
  std::optional<size_t> IndexOf(const TensorInfo& tensor) const;

  const std::unique_ptr<TensorSource> stored_;
  int32_t next_file_index_ = 0;                           // above those of stored_
  std::deque<Derived> derived_;                           // whose addresses stay
  std::unordered_map<std::string_view, size_t> by_name_;  // indices of derived_
  std::unordered_set<const TensorInfo*> hidden_;          // of stored_
};

}  // namespace dunlin::engine
