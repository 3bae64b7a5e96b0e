// SPDX-License-Identifier: Apache-2.0
// Drives a Scheduler against the fake runtime by hand: one Step() is one turn of the engine loop, time is a number.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "engine/scheduler/scheduler.h"
#include "tests/simulation/fake_runtime.h"
#include "tests/simulation/plan_check.h"
#include "tests/simulation/recording_sink.h"
#include "tests/simulation/reference.h"

namespace dunlin::engine {

using simulation::kEos;
inline constexpr ExecutionProfile kFlashBf16{};
inline constexpr ExecutionProfile kMathBf16{DeviceKind::kCpu, AttentionBackend::kMath, Precision::kBf16};
inline constexpr ExecutionProfile kFlashFp8{DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp8};

// Tokens first, first + 1, ...
inline std::vector<TokenId> Prompt(int32_t length, TokenId first = 1) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back(1 + (first - 1 + i) % 49);
  return prompt;
}

// A request that runs until max_tokens.
inline Request Ask(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.stopping.max_tokens = max_tokens;
  request.stopping.ignore_eos = true;
  return request;
}

class SchedulerHarness {
 public:
  struct Client {
    Request request;
    std::unique_ptr<Sequence> sequence;
    std::shared_ptr<simulation::RecordingSink> sink;
    KvGroups groups;

    const FinishInfo& info() const { return sink->info; }
    bool ended() const { return sink->num_finishes() == 1; }
    FinishReason reason() const {
      EXPECT_TRUE(ended());
      return info().reason;
    }
  };

  // 16 pages of 4 tokens, 16 tokens a step, 4 sequences, unless a test says otherwise.
  static SchedulerOptions Defaults() {
    SchedulerOptions options;
    options.max_sequences = 4;
    options.max_tokens_per_step = 16;
    options.max_live = 64;
    options.eos_token_ids = {kEos};
    options.cache.num_pages = 16;
    options.cache.max_tokens_per_page = 4;
    return options;
  }

  explicit SchedulerHarness(const SchedulerOptions& options = Defaults(), int32_t depth = 1)
      : scheduler(options), depth_(depth), runtime_(RuntimeOptions(options, depth)) {}

  Client* Add(Request request, size_t sink_room = 1000) {
    auto client = std::make_unique<Client>();
    client->request = request;
    client->sink = std::make_shared<simulation::RecordingSink>(1000, 1000, sink_room);
    client->groups = scheduler.pages().groups();
    client->sequence = MakeSequence(std::move(request), client->sink, 4, client->groups.count());
    client->sequence->id = clients_.size() + 1;
    StartConstraint(client->sequence.get(), kVocabSize, max_forced_tokens, max_drafts);
    StartDrafts(client->sequence.get(), max_drafts, DefaultDrafter());
    scheduler.Add(client->sequence.get());
    clients_.push_back(std::move(client));
    return clients_.back().get();
  }

  // Plans and launches, without collecting. The plan is also kept in `plan`.
  void Launch() {
    LaunchUnchecked();
    EXPECT_EQ(simulation::CheckNewPlan(plan, find_, scheduler.pages().groups()), "");
  }
  void Collect() {
    EXPECT_EQ(simulation::CheckPagesKept(in_flight_.front().first, find_, scheduler.pages().groups()), "");
    CollectUnchecked();
    Check();
  }
  // The same for runs whose checks, which read every page, would take minutes.
  void LaunchUnchecked() {
    in_flight_.emplace_back();
    in_flight_.back().first.mask_words = kernels::MaskWords(kVocabSize);
    scheduler.Plan(now, &in_flight_.back().first);
    plan = in_flight_.back().first;
    if (plan.empty()) return in_flight_.pop_back();
    in_flight_.back().second = *runtime_.Launch(in_flight_.back().first);
  }
  void CollectUnchecked() {
    StepResult result;
    ASSERT_TRUE(runtime_.Collect(in_flight_.front().second, &result).ok());
    scheduler.Commit(in_flight_.front().first, result, now);
    in_flight_.pop_front();
  }
  // One turn of the engine loop; false when there was nothing to do.
  bool Step() {
    ++now;
    if (!in_flight_.empty() && !scheduler.CanPlan()) {
      Collect();
      return true;
    }
    Launch();
    const bool collect = !in_flight_.empty() && (plan.empty() || static_cast<int32_t>(in_flight_.size()) == depth_);
    if (collect) Collect();
    Check();
    return collect || !plan.empty();
  }
  void StepUntilIdle() {
    for (int i = 0; i < 10000; ++i) {
      if (!Step()) return;
    }
    ADD_FAILURE() << "no end: a livelock";
  }

  void Check() {
    EXPECT_TRUE(scheduler.CheckIntegrity().ok()) << scheduler.CheckIntegrity();
    EXPECT_EQ(runtime_.violations(), 0) << runtime_.first_violation();
  }

  // All of it, and nothing else, as if alone.
  static void ExpectAnswerAsAlone(const Client& client) {
    const simulation::Answer expected =
        simulation::RunAlone(client.request, {kEos}, {.vocab_size = kVocabSize, .groups = client.groups});
    EXPECT_EQ(client.sink->tokens, expected.tokens);
    EXPECT_EQ(client.sink->scores, expected.prompt_scores);
    EXPECT_EQ(client.reason(), expected.reason);
    EXPECT_FALSE(client.sink->late);
  }

  // Tokens of the last plan that are this client's.
  int32_t Planned(const Client* client) const {
    for (const SequenceStep& step : plan.sequences) {
      if (step.request_id == client->sequence->id) return step.num_tokens;
    }
    return 0;
  }

  static constexpr int32_t kVocabSize = 50;

  int32_t max_forced_tokens = 0;  // of constrained clients added from now on
  int32_t max_drafts = 0;         // of clients added from now on
  Scheduler scheduler;
  StepPlan plan;
  TimeNs now = 1;

 private:
  static simulation::FakeRuntimeOptions RuntimeOptions(const SchedulerOptions& options, int32_t depth) {
    simulation::FakeRuntimeOptions runtime;
    runtime.num_pages = options.cache.num_pages;
    runtime.kv_groups = options.cache.groups;
    runtime.num_state_slots = options.cache.num_state_slots;
    runtime.tokens_per_page = {4, 4, 4, 4};
    runtime.depth = depth;
    return runtime;
  }

  int32_t depth_;
  simulation::FakeRuntime runtime_;
  std::deque<std::pair<StepPlan, StepHandle>> in_flight_;
  std::vector<std::unique_ptr<Client>> clients_;  // by id - 1
  const simulation::FindSequence find_ = [this](RequestId id) { return clients_[id - 1]->sequence.get(); };
};

using Client = SchedulerHarness::Client;

}  // namespace dunlin::engine
