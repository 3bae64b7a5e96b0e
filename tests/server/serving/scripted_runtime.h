// SPDX-License-Identifier: Apache-2.0
// A runtime with predictable tokens: output k of a request is its prompt's token (k + output_index) mod length, so the
// prompt's text is repeated. Log-probabilities follow from the ids. A test may slow the steps down, hold them, or
// inject a numerical error.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/runtime/runtime.h"

namespace dunlin::server {

// A request with this seed gets a numerical error instead of its output number `k`.
constexpr uint64_t NumericalErrorAt(uint64_t k) {
  return (uint64_t{1} << 63) | k;
}

// Shared by the test and the runtime, which the engine owns.
struct RuntimeControl {
  std::atomic<int> step_us{0};
  std::atomic<bool> held{false};   // steps wait while set
  std::atomic<bool> fail{false};   // the next Launch reports a broken device
  std::atomic<int64_t> tokens{0};  // drawn so far
  std::atomic<int32_t> rank_at_fault{-1};
};

class ScriptedRuntime final : public engine::Runtime {
 public:
  // control outlives the runtime.
  ScriptedRuntime(RuntimeControl* control, int32_t num_pages)
      : control_(control), num_pages_(num_pages), tokens_(static_cast<size_t>(num_pages) * kPageTokens) {}

  static float LogprobOf(engine::TokenId id) { return -static_cast<float>(id) / 128.0F; }

  absl::StatusOr<engine::StepHandle> Launch(const engine::StepPlan& plan) override;
  absl::Status Collect(engine::StepHandle handle, engine::StepResult* result) override;
  int32_t depth() const override { return 1; }
  bool takes_drawn_tokens() const override { return false; }
  int32_t num_pages() const override { return num_pages_; }
  int32_t tokens_per_page(engine::Precision) const override { return kPageTokens; }
  bool prefill_matches_decode() const override { return true; }
  int32_t rank_at_fault() const override { return control_->rank_at_fault; }

 private:
  static constexpr int32_t kPageTokens = 16;

  static engine::TokenOutput OutputOf(engine::TokenId id, int32_t num_top);
  void RunSequence(const engine::SequenceStep& step, int32_t index, engine::StepResult* result);
  // The token at a position, in the sequence's pages: what a real runtime keeps K and V of.
  engine::TokenId* TokenAt(const engine::SequenceStep& step, int32_t position);

  RuntimeControl* const control_;
  const int32_t num_pages_;
  const engine::StepPlan* plan_ = nullptr;
  std::vector<engine::TokenId> tokens_;  // [num_pages, kPageTokens]
};

}  // namespace dunlin::server
