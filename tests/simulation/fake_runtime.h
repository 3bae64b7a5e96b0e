// SPDX-License-Identifier: Apache-2.0
// Runs plans of the fake model in fake pages, and distrusts the scheduler: every read checks that the page holds that
// position, every write that the page is this sequence's own. Violations are counted.
// At depth 1 a step runs in Launch; at depth 2 it runs in Collect, as on a device that lags behind.
// Does not allocate after construction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/runtime.h"
#include "tests/simulation/fake_model.h"
#include "tests/simulation/fake_ranks.h"

namespace dunlin::simulation {

struct FakeRuntimeOptions {
  int32_t num_pages = 16;
  int32_t first_pages = -1;    // that have memory before GrowPool; -1: all
  int32_t final_pages = -1;    // that will have it; -1: all
  engine::KvGroups kv_groups;  // a window of at least 2: the key before its own makes a position's
  int32_t num_state_slots = 0;
  std::array<int32_t, kernels::kNumPrecisions> tokens_per_page = {2, 4, 4, 4, 4, 4};
  int32_t depth = 1;
  bool takes_drawn_tokens = true;  // at depth 2, without states
  int32_t vocab_size = 50;
  int32_t max_context = 256;
  bool prefill_matches_decode = true;
  bool decode_differs = false;  // a decoded position has other bits than the same one in a prompt
  uint64_t version = 0;         // of the weights: each draws other tokens
  int64_t fail_launch_at = -1;  // the step whose Launch returns an error
  int64_t fail_collect_at = -1;
  FakeRankOptions ranks;
  std::function<void(const engine::StepPlan&)> on_launch;  // may block, to hold the engine in a step
};

class FakeRuntime : public engine::Runtime {
 public:
  explicit FakeRuntime(const FakeRuntimeOptions& options);

  absl::StatusOr<engine::StepHandle> Launch(const engine::StepPlan& plan) override;
  absl::Status Collect(engine::StepHandle handle, engine::StepResult* result) override;
  int32_t depth() const override { return options_.depth; }
  int32_t num_pages() const override { return options_.num_pages; }
  engine::KvPoolState kv_pool() const override {
    const bool ended = pool_ended_.load();
    return {num_backed_.load(), !ended};
  }
  int32_t tokens_per_page(engine::Precision precision) const override {
    return options_.tokens_per_page[static_cast<size_t>(precision)];
  }
  engine::KvGroups kv_groups() const override { return options_.kv_groups; }
  int32_t num_state_slots() const override { return options_.num_state_slots; }
  bool prefill_matches_decode() const override { return options_.prefill_matches_decode; }
  bool takes_drawn_tokens() const override {
    return options_.takes_drawn_tokens && options_.depth == 2 && options_.num_state_slots == 0;
  }

  bool takes_rows() const override { return true; }

  // More pages have memory; where all that will have it do, the pool has ended growing. Any thread.
  void GrowPool(int32_t num_pages);

  // How often the scheduler broke its contract, and a description of the first case.
  int64_t violations() const { return violations_; }
  // Steps launched and not collected.
  int64_t num_in_flight() const { return num_launched_ - num_collected_; }
  int64_t num_launched() const { return num_launched_; }
  const std::string& first_violation() const { return first_violation_; }
  const FakeRankOptions& ranks() const { return options_.ranks; }

 private:
  struct Slot {
    int32_t position = -1;
    Kv kv = 0x5EED;
  };
  // The pages of one sequence in a plan.
  struct Pages {
    engine::RequestId owner;
    std::span<const engine::PageId> ids;
    int32_t tokens_per_page;
  };

  // What the state in a slot has seen: as many tokens, and what makes the next position's key.
  struct State {
    int32_t num_tokens = -1;
    Kv kv = 0x5EED;
  };

  // The state before the step's first row, which it continues; null: the step names slots that are not there.
  State* BeginState(const engine::StepPlan& plan, const engine::SequenceStep& step, const Pages& pages);
  State* StateAt(const engine::StepPlan& plan, const engine::SequenceStep& step, int32_t position, State* state);
  void CheckPlan(const engine::StepPlan& plan);
  void CheckDrawn(const engine::StepPlan& plan, const engine::SequenceStep& step);
  engine::TokenId TokenAt(const engine::StepPlan& plan, const engine::SequenceStep& step, int32_t index) const;
  void Execute(const engine::StepPlan& plan, engine::StepResult* result);
  void ExecuteSequence(const engine::StepPlan& plan, const engine::SubBatch& batch, int32_t index,
                       engine::StepResult* result);
  engine::StepOutput DrawAt(const engine::StepPlan& plan, const engine::SequenceStep& step, const Pages& pages,
                            int32_t last, int32_t draw);
  // The token, or -1 where none may be drawn.
  engine::TokenId DrawNext(const engine::StepPlan& plan, const engine::SequenceStep& step, uint64_t attended,
                           int32_t draw) const;
  engine::PageId PageOf(const Pages& pages, int32_t group, int32_t position);
  Slot& SlotOf(const Pages& pages, int32_t group, int32_t position);
  Kv Read(const Pages& pages, int32_t group, int32_t position);
  void Write(const Pages& pages, int32_t group, int32_t position, Kv kv);
  void Violate(const char* what, uint64_t sequence_id);

  FakeRuntimeOptions options_;
  FakeRanks ranks_;
  std::atomic<int32_t> num_backed_;
  std::atomic<bool> pool_ended_;
  int32_t slots_per_page_;
  std::vector<Slot> slots_;                        // [num_pages, slots_per_page]
  std::vector<State> states_;                      // [num_state_slots]
  std::vector<engine::RequestId> writers_;         // [num_pages] who wrote its first slot
  std::vector<const engine::StepPlan*> launched_;  // [depth]
  engine::StepResult early_result_;                // of Launch, at depth 1
  std::vector<engine::TokenId> drawn_;             // by the sequences of the step that was executed last
  int64_t num_launched_ = 0;
  int64_t num_collected_ = 0;
  int64_t violations_ = 0;
  std::string first_violation_;
};

}  // namespace dunlin::simulation
