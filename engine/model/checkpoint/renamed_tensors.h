// SPDX-License-Identifier: Apache-2.0
// A checkpoint some of whose tensors go by other names, besides their own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

// Tensors whose names begin with `stored` have `name` in its place.
struct RenamedPrefix {
  std::string stored;
  std::string name;
};

class RenamedTensors final : public TensorSource {
 public:
  // Of several prefixes of a name the first counts. What already has one of the new names stays as it is.
  RenamedTensors(std::unique_ptr<TensorSource> stored, std::span<const RenamedPrefix> prefixes);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override {
    return stored_->Read(StoredOf(tensor), first_byte, out);
  }
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override {
    return stored_->ReadOnce(StoredOf(tensor), first_byte, bytes, buffer);
  }
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override {
    return stored_->CodesOf(StoredOf(tensor));
  }
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override {
    return stored_->ReadCodes(StoredOf(tensor), first_row, num_rows, out);
  }
  std::string WhyNoCodes(const TensorInfo& tensor) const override { return stored_->WhyNoCodes(StoredOf(tensor)); }
  std::string FileOf(const TensorInfo& tensor) const override { return stored_->FileOf(StoredOf(tensor)); }
  absl::Status CheckUnchanged() const override { return stored_->CheckUnchanged(); }
  // Renamed ones by their new names alone.
  std::vector<const TensorInfo*> List() const override;

 private:
  struct Entry {
    TensorInfo info;
    const TensorInfo* stored;
  };
  // The tensor of stored_ that a tensor of this source is.
  const TensorInfo& StoredOf(const TensorInfo& tensor) const;

  const std::unique_ptr<TensorSource> stored_;
  std::unordered_map<std::string, Entry> entries_;                 // by the new name
  std::unordered_map<const TensorInfo*, const Entry*> of_stored_;  // the same
};

}  // namespace dunlin::engine
