// SPDX-License-Identifier: Apache-2.0
// What Engine wires together, on the fake runtime and without a thread: its loop runs where Run is called, and the
// clock that it reads lets the rest of the world act. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "engine/cache/kv_events.h"
#include "engine/loop/deadline_gate.h"
#include "engine/loop/engine_counters.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/mailbox.h"
#include "engine/loop/mask_thread.h"
#include "engine/scheduler/scheduler.h"
#include "tests/simulation/fake_runtime.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

class FakeEngine {
 public:
  // limits.max_live: also of the scheduler.
  FakeEngine(const Workload& workload, const engine::MailboxLimits& limits, engine::MaskThread* masks,
             engine::Clock clock)
      : version_(workload.runtime.version),
        tokens_per_page_(workload.runtime.tokens_per_page),
        mailbox_(limits),
        deadlines_(workload.scheduler.max_sequences),
        kv_events_({.num_pages = workload.runtime.num_pages,
                    .max_tokens_per_page = workload.scheduler.cache.max_tokens_per_page,
                    .max_batches = 16}),
        runtime_(workload.runtime),
        scheduler_(OptionsOf(workload, limits, &kv_events_)),
        loop_({&mailbox_, &scheduler_, &runtime_, masks, &counters_, &deadlines_, nullptr, &kv_events_, clock},
              LimitsOf(workload)) {}

  // Engine::Submit.
  absl::StatusOr<engine::RequestId> Submit(engine::Request request, std::shared_ptr<engine::OutputSink> sink) {
    const int32_t page_tokens = tokens_per_page_[static_cast<size_t>(request.profile.precision)];
    const uint64_t prompt_tokens = request.prompt.size();
    const engine::TenantId tenant = request.tenant;
    const int32_t priority = request.priority;
    auto sequence =
        engine::MakeSequence(std::move(request), std::move(sink), page_tokens, scheduler_.pages().groups().count());
    deadlines_.OnSubmit(tenant, priority);
    absl::StatusOr<engine::RequestId> id = mailbox_.Submit(std::move(sequence), tenant, prompt_tokens);
    if (!id.ok()) deadlines_.OnRefused(tenant, priority);
    if (id.ok()) ++num_live_;
    return id;
  }
  void Pause(std::optional<engine::PauseMode> mode) {
    pause_ = mode;
    launches_at_pause_ = runtime_.num_launched();
    mailbox_.SetPause(mode);
  }
  // Whether it computes though it was paused two steps ago, and not to wait for what runs.
  bool ignores_pause() const {
    return pause_.has_value() && *pause_ != engine::PauseMode::kWait &&
           runtime_.num_launched() > launches_at_pause_ + 2;
  }
  void OnEnded() { --num_live_; }
  void GrowPool(int32_t num_pages) { runtime_.GrowPool(num_pages); }
  bool pool_grows() const { return runtime_.kv_pool().grows; }
  bool awaits_pages() const { return loop_.awaits_pages(); }

  // Nothing is computed before there is mail.
  bool needs_mail() const {
    if (runtime_.num_in_flight() > 0) return false;
    if (pause_.has_value()) return *pause_ != engine::PauseMode::kWait || scheduler_.empty();
    return scheduler_.empty() && num_live_ == 0;
  }
  int32_t num_live() const { return num_live_; }  // submitted and not ended
  uint64_t version() const { return version_; }
  const engine::MailboxLimits& limits() const { return mailbox_.limits(); }
  engine::Mailbox<engine::Sequence>& mailbox() { return mailbox_; }
  const engine::Mailbox<engine::Sequence>& mailbox() const { return mailbox_; }
  const engine::DeadlineGate& deadlines() const { return deadlines_; }
  const engine::Scheduler& scheduler() const { return scheduler_; }
  const engine::EngineCounters& counters() const { return counters_; }
  const FakeRuntime& runtime() const { return runtime_; }
  engine::KvEventLog* kv_events() { return &kv_events_; }
  engine::EngineLoop& loop() { return loop_; }

 private:
  static engine::SchedulerOptions OptionsOf(const Workload& workload, const engine::MailboxLimits& limits,
                                            engine::KvEventLog* kv_events) {
    engine::SchedulerOptions options = workload.scheduler;
    options.max_live = limits.max_live;
    options.cache.changes = kv_events->changes();
    if (options.cache.num_state_slots > 0) {
      options.max_sequences = std::min(options.max_sequences, options.cache.num_state_slots);
    }
    return options;
  }
  static engine::StepPlanLimits LimitsOf(const Workload& workload) {
    return {.max_sequences = workload.scheduler.max_sequences,
            .max_tokens = workload.scheduler.max_tokens_per_step,
            .max_context_tokens = workload.runtime.max_context,
            .max_pages_per_sequence = workload.runtime.num_pages,
            .num_eos_token_ids = 1,
            .vocab_size = workload.runtime.vocab_size};
  }

  const uint64_t version_;
  const std::array<int32_t, kernels::kNumPrecisions> tokens_per_page_;
  engine::Mailbox<engine::Sequence> mailbox_;
  engine::DeadlineGate deadlines_;
  engine::EngineCounters counters_;
  engine::KvEventLog kv_events_;
  FakeRuntime runtime_;
  engine::Scheduler scheduler_;
  engine::EngineLoop loop_;
  std::optional<engine::PauseMode> pause_;  // as requested last
  int64_t launches_at_pause_ = 0;
  int32_t num_live_ = 0;
};

}  // namespace dunlin::simulation
