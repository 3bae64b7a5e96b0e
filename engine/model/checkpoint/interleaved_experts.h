// SPDX-License-Identifier: Apache-2.0
// GPT-OSS's experts, stacked in one tensor whose rows or columns of gate and up projections alternate (of Llama 4's
// they follow each other), as one tensor for each expert: a matrix [out_features, in_features], gate rows first, or a
// bias [out_features]. Stacks are [num_experts, in_features, out_features] of BF16, F16 or F32, or MXFP4: "_blocks"
// [num_experts, out_features, in_features / 32, 16] (or [.., in_features / 2]) of U8 with two E2M1 codes a byte, the
// low one first, and "_scales" [num_experts, out_features, in_features / 32] of U8, exponents of 2 with a bias of 127.
// MXFP4 becomes BF16, which holds its values exactly. One expert's tensor is kept in memory at a time. Source: OCP
// Microscaling Formats 1.0, sections 5 and 6; transformers 5.23, integrations/mxfp4.py.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/model/checkpoint/expert_tensors.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class InterleavedExperts final : public TensorSource {
 public:
  // stacks: of the gate and up projections ("gate_up" in the name), which may alternate, and the down projections.
  // Those that `stored` does not have, in either form, are left to whoever looks for their experts. INVALID_ARGUMENT
  // names the tensor, its shape or dtype, and what was expected.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<ExpertStack>& stacks, int32_t num_experts,
                                                            bool alternating);

  const TensorInfo* Find(std::string_view name) const override;
  // INVALID_ARGUMENT where an MXFP4 scale is above 252: 255 is no number, and FP32 does not hold all products of the
  // others.
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  // Of the tensors that are no experts.
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
  std::vector<const TensorInfo*> List() const override;

 private:
  struct Entry {
    TensorInfo info;           // with a file_index of its own: no two of these are read with one call
    const TensorInfo* stack;   // or the blocks of MXFP4
    const TensorInfo* scales;  // of MXFP4, or null
    int64_t expert;
    bool alternates;  // gate and up rows
  };
  InterleavedExperts(std::unique_ptr<TensorSource> stored, bool alternating)
      : stored_(std::move(stored)), alternating_(alternating) {}
  absl::Status AddStack(const ExpertStack& names, int32_t num_experts);
  const Entry* EntryOf(const TensorInfo& tensor) const;
  // All bytes of an expert's tensor.
  absl::StatusOr<std::vector<std::byte>> ReadStacked(const Entry& entry) const;
  absl::StatusOr<std::vector<std::byte>> ReadMxfp4(const Entry& entry) const;

  const std::unique_ptr<TensorSource> stored_;
  const bool alternating_;
  std::map<std::string, Entry, std::less<>> entries_;  // by the expert's name
  std::vector<const Entry*> by_file_;                  // by file_index

  mutable Mutex mutex_;
  mutable const Entry* converted_ ABSL_GUARDED_BY(mutex_) = nullptr;
  mutable std::shared_ptr<const std::vector<std::byte>> bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
