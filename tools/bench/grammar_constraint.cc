// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/grammar_constraint.h"

#include <algorithm>
#include <cstdlib>

#include "tools/bench/timing.h"
namespace dunlin::tools::bench {
namespace {
class Spin : public engine::TokenConstraint {
 public:
  std::unique_ptr<engine::ConstraintState> Start() const override { return std::make_unique<State>(); }
  class State : public engine::ConstraintState {
    absl::Status FillMask(std::span<uint32_t> mask) override {
      const double begin = Now();
      static const double us = std::getenv("SPIN_US") ? std::atof(std::getenv("SPIN_US")) : 100.0;
      std::fill(mask.begin(), mask.end(), 0x7FFFFFFFU);
      mask[mask.size() - 1] = 0;
      while (Now() - begin < us * 1e-6) {
      }
      return absl::OkStatus();
    }
    absl::Status Accept(engine::TokenId) override { return absl::OkStatus(); }
    bool is_accepting() const override { return false; }
  };
};
}  // namespace
absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> JsonConstraint(const engine::ModelConfig&) {
  return std::shared_ptr<const engine::TokenConstraint>(std::make_shared<Spin>());
}
}  // namespace dunlin::tools::bench
