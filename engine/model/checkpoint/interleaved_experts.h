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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/model/checkpoint/derived_tensors.h"
#include "engine/model/checkpoint/expert_tensors.h"

namespace dunlin::engine {

class InterleavedExperts final : public DerivedTensors {
 public:
  // stacks: of the gate and up projections ("gate_up" in the name), which may alternate, and the down projections.
  // Those that `stored` does not have, in either form, are left to whoever looks for their experts. INVALID_ARGUMENT
  // names the tensor, its shape or dtype, and what was expected.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<ExpertStack>& stacks, int32_t num_experts,
                                                            bool alternating);

 private:
  struct Expert {
    const TensorInfo* scales;  // of MXFP4, or null
    int64_t index;
    bool alternates;  // gate and up rows
  };
  InterleavedExperts(std::unique_ptr<TensorSource> stored, bool alternating)
      : DerivedTensors(std::move(stored)), alternating_(alternating) {}
  absl::Status AddStack(const ExpertStack& names, int32_t num_experts);
  // INVALID_ARGUMENT where an MXFP4 scale is above 252: 255 is no number, and FP32 does not hold all products of the
  // others.
  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  // All bytes of an expert's tensor.
  absl::StatusOr<std::vector<std::byte>> ReadStacked(size_t index) const;
  absl::StatusOr<std::vector<std::byte>> ReadMxfp4(size_t index) const;

  const bool alternating_;
  std::vector<Expert> experts_;  // of the derived tensors

  mutable Mutex mutex_;
  mutable std::optional<size_t> converted_ ABSL_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const std::vector<std::byte>> bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
