// SPDX-License-Identifier: Apache-2.0
// A constrained output with a given mask, for plans made by hand.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/sampling/constrained_output.h"

namespace dunlin::engine {

class FixedMask : public TokenConstraint {
 public:
  explicit FixedMask(std::vector<uint32_t> mask) : mask_(std::move(mask)) {}
  std::unique_ptr<ConstraintState> Start() const override { return std::make_unique<State>(mask_); }

 private:
  class State : public ConstraintState {
   public:
    explicit State(std::vector<uint32_t> mask) : mask_(std::move(mask)) {}
    absl::Status FillMask(std::span<uint32_t> mask) override {
      std::copy(mask_.begin(), mask_.end(), mask.begin());
      return absl::OkStatus();
    }
    absl::Status Accept(TokenId) override { return absl::OkStatus(); }
    bool is_accepting() const override { return false; }
    std::unique_ptr<ConstraintState> Clone() const override { return std::make_unique<State>(mask_); }

   private:
    const std::vector<uint32_t> mask_;
  };

  const std::vector<uint32_t> mask_;
};

// Null, which allows all tokens, of an empty mask.
inline std::shared_ptr<ConstrainedOutput> OutputWithMask(const std::vector<uint32_t>& mask) {
  if (mask.empty()) return nullptr;
  auto output =
      std::make_shared<ConstrainedOutput>(std::make_shared<FixedMask>(mask), static_cast<int32_t>(mask.size()) * 32, 0);
  output->Compute();
  return output;
}

}  // namespace dunlin::engine
