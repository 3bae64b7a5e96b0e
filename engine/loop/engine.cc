// SPDX-License-Identifier: Apache-2.0
// Wires the parts of an engine together; its work is in engine_loop.cc.
#include "engine/loop/engine.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/thread_name.h"
#include "engine/loop/deadline_gate.h"
#include "engine/loop/engine_counters.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/mailbox.h"
#include "engine/loop/mask_thread.h"
#include "engine/scheduler/scheduler.h"
#include "spdlog/spdlog.h"

namespace dunlin::engine {
namespace {

RequestLimits LimitsOf(const EngineOptions& options, const ModelConfig& config, const Runtime& runtime) {
  RequestLimits limits;
  limits.vocab_size = config.vocab_size;
  limits.max_context_tokens =
      options.max_context_tokens > 0 ? std::min(options.max_context_tokens, config.max_context) : config.max_context;
  limits.row_columns = runtime.takes_rows() ? config.hidden_dim : 0;
  limits.image_columns = !config.rotary.axes.empty();
  limits.max_queued_tokens = options.max_queued_tokens;
  limits.num_pages = runtime.num_pages();
  limits.kv_groups = runtime.kv_groups();
  if (!options.free_pages_behind_windows) limits.kv_groups.KeepAll();
  limits.max_tokens_per_step = options.max_tokens_per_step;
  limits.min_priority = options.min_priority;
  limits.max_priority = options.max_priority;
  for (const kernels::PrecisionTraits& traits : kernels::kPrecisionTable) {
    limits.tokens_per_page[static_cast<size_t>(traits.precision)] = runtime.tokens_per_page(traits.precision);
  }
  return limits;
}

// Sequences between Submit and their return to the mailbox: a full queue and a full batch, and as many again that have
// ended in the current step, so that those never take a place from a new request. Every list of the engine has this
// capacity from the start.
MailboxLimits MailboxLimitsOf(const EngineOptions& options) {
  return {.max_queued_requests = options.max_queued_requests,
          .max_queued_tokens = options.max_queued_tokens,
          .max_live = 2 * (options.max_queued_requests + options.max_sequences)};
}

// Pages of one layer group that the longest sequence takes.
int32_t MaxPageSets(const RequestLimits& limits) {
  int32_t most = 0;
  for (const int32_t page_tokens : limits.tokens_per_page) {
    if (page_tokens > 0) most = std::max(most, PagesFor(limits.max_context_tokens, page_tokens));
  }
  return most;
}

StepPlanLimits PlanLimitsOf(const EngineOptions& options, const ModelConfig& config, const RequestLimits& limits) {
  return {.max_sequences = options.max_sequences,
          .max_tokens = options.max_tokens_per_step,
          .max_draft_rows = std::min(options.max_tokens_per_step, Scheduler::kMaxDraftRows),
          .max_context_tokens = limits.max_context_tokens,
          .max_pages_per_sequence = MaxPageSets(limits) * limits.kv_groups.count(),
          .num_eos_token_ids = static_cast<int32_t>(config.eos_token_ids.size()),
          .vocab_size = config.vocab_size};
}

// Sequences that run at once: of a recurrent model as many as have a state.
int32_t MaxRunning(const EngineOptions& options, const Runtime& runtime) {
  const int32_t slots = runtime.num_state_slots();
  return slots > 0 ? std::min(options.max_sequences, slots) : options.max_sequences;
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, const ModelConfig& config,
                                    const RequestLimits& limits, const Runtime& runtime, KvEventLog* kv_events,
                                    const BatchDrafter* drafter) {
  SchedulerOptions scheduler;
  scheduler.max_batch_drafts = drafter == nullptr ? 0 : drafter->max_sequences();
  scheduler.drafts_write_pages = drafter != nullptr && drafter->writes_pages();
  scheduler.max_sequences = MaxRunning(options, runtime);
  scheduler.cache.num_state_slots = runtime.num_state_slots();
  scheduler.max_tokens_per_step = options.max_tokens_per_step;
  scheduler.max_live = MailboxLimitsOf(options).max_live;
  scheduler.prefix_cache = options.prefix_cache;
  scheduler.step_time_target = TimeNs{options.step_time_target_ms} * 1'000'000;
  scheduler.prefill_matches_decode = runtime.prefill_matches_decode();
  scheduler.plan_ahead = runtime.takes_drawn_tokens();
  scheduler.adapt_drafts = options.adapt_drafts;
  scheduler.eos_token_ids = config.eos_token_ids;
  scheduler.max_page_sets_per_sequence = MaxPageSets(limits);
  scheduler.cache.num_pages = limits.num_pages;
  scheduler.pool = runtime.kv_pool();
  scheduler.cache.groups = limits.kv_groups;
  scheduler.cache.max_tokens_per_page = *std::max_element(limits.tokens_per_page.begin(), limits.tokens_per_page.end());
  if (kv_events != nullptr) scheduler.cache.changes = kv_events->changes();
  std::random_device random;
  for (uint32_t& word : scheduler.cache.hash_key) word = random();
  return scheduler;
}

std::shared_ptr<KvEventLog> NewKvEventLog(const EngineOptions& options, const RequestLimits& limits) {
  if (options.kv_events.max_batches == 0) return nullptr;
  return std::make_shared<KvEventLog>(KvEventLogOptions{
      .num_pages = limits.num_pages,
      .max_tokens_per_page = *std::max_element(limits.tokens_per_page.begin(), limits.tokens_per_page.end()),
      .max_batches = options.kv_events.max_batches,
      .default_profile = options.kv_events.default_profile});
}

}  // namespace

struct Engine::State {
  State(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<Runtime> owned_runtime,
        Clock engine_clock, StepObserver* observer, std::unique_ptr<BatchDrafter> owned_drafter)
      : clock(engine_clock),
        runtime(std::move(owned_runtime)),
        drafter(std::move(owned_drafter)),
        first_pages(runtime->kv_pool().num_pages),
        limits(LimitsOf(options, config, *runtime)),
        mailbox(MailboxLimitsOf(options)),
        deadlines(MaxRunning(options, *runtime)),
        speculates(runtime->prefill_matches_decode()),
        default_drafts(options.max_drafts),
        draft_limit(options.draft_limit),
        max_forced_tokens(runtime->prefill_matches_decode() ? options.max_forced_tokens : 0),
        kv_events(NewKvEventLog(options, limits)),
        scheduler(SchedulerOptionsOf(options, config, limits, *runtime, kv_events.get(), drafter.get())),
        masks(2 * static_cast<size_t>(options.max_sequences)),
        loop({&mailbox, &scheduler, runtime.get(), &masks, &counters, &deadlines, observer, kv_events.get(), clock,
              drafter.get()},
             PlanLimitsOf(options, config, limits)) {}

  int32_t MaxDraftsOf(const Request& request) const {
    // Drafters know tokens alone.
    if (!speculates || request.rows != nullptr) return 0;
    return std::min(request.max_drafts.value_or(default_drafts), draft_limit);
  }

  const Clock clock;
  const std::unique_ptr<Runtime> runtime;
  const std::unique_ptr<BatchDrafter> drafter;  // may be null
  const int32_t first_pages;                    // of the pool, with memory at the start
  const RequestLimits limits;                   // of the pool as it was planned
  std::once_flag pool_ended;                    // with less memory than planned
  RequestLimits smaller_limits;                 // written once then
  EngineCounters counters;
  Mailbox<Sequence> mailbox;
  DeadlineGate deadlines;
  const bool speculates;         // a verified row has the bits of a decoded one, and can be taken back
  const int32_t default_drafts;  // of requests that leave them open
  const int32_t draft_limit;
  const int32_t max_forced_tokens;              // of a request
  const std::shared_ptr<KvEventLog> kv_events;  // null: nobody follows the prefix cache
  Scheduler scheduler;                          // engine thread
  MaskThread masks;
  EngineLoop loop;  // engine thread
  std::once_flag joined;
  std::thread thread;
};

Engine::Engine(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<Runtime> runtime, Clock clock,
               StepObserver* observer, std::unique_ptr<BatchDrafter> drafter)
    : state_(std::make_unique<State>(options, config, std::move(runtime), clock, observer, std::move(drafter))) {
  state_->thread = std::thread([state = state_.get()] {
    NameThread("engine");
    const absl::Status status = state->loop.Run();
    if (!status.ok()) spdlog::error("engine stopped, the device failed: {}", status.ToString());
  });
}

Engine::~Engine() {
  Stop();
}

const RequestLimits& Engine::limits() const {
  const KvPoolState pool = state_->runtime->kv_pool();
  if (pool.grows || pool.num_pages == state_->limits.num_pages) return state_->limits;
  std::call_once(state_->pool_ended, [this, &pool] {
    state_->smaller_limits = state_->limits;
    state_->smaller_limits.num_pages = pool.num_pages;
  });
  return state_->smaller_limits;
}

absl::Status Engine::Validate(const Request& request) const {
  return ValidateRequest(request, limits());
}

absl::StatusOr<RequestId> Engine::Submit(Request request, std::shared_ptr<OutputSink> sink) {
  const int32_t page_tokens = state_->limits.tokens_per_page[static_cast<size_t>(request.profile.precision)];
  DUNLIN_CHECK(page_tokens > 0 && !request.prompt.empty(), "Validate comes before Submit");
  if (request.arrival == 0) request.arrival = state_->clock();
  const uint64_t prompt_tokens = request.prompt.size();
  const TenantId tenant = request.tenant;
  const int32_t priority = request.priority;
  std::unique_ptr<Sequence> sequence =
      MakeSequence(std::move(request), std::move(sink), page_tokens, state_->limits.kv_groups.count());
  const int32_t max_drafts = state_->MaxDraftsOf(sequence->request);
  if (sequence->request.constraint != nullptr) {
    if (absl::Status status = state_->mailbox.CheckRoomFor(tenant, prompt_tokens); !status.ok()) return status;
    StartConstraint(sequence.get(), state_->limits.vocab_size, state_->max_forced_tokens, max_drafts);
  }
  StartDrafts(sequence.get(), max_drafts, DefaultDrafter());
  state_->deadlines.OnSubmit(tenant, priority);
  absl::StatusOr<RequestId> id = state_->mailbox.Submit(std::move(sequence), tenant, prompt_tokens);
  if (!id.ok()) state_->deadlines.OnRefused(tenant, priority);
  return id;
}

std::optional<DeadlineMiss> Engine::CheckDeadline(const DeadlineDemand& demand) const {
  return state_->deadlines.Check(demand, state_->clock());
}

void Engine::Cancel(RequestId id, FinishReason reason) {
  state_->mailbox.Cancel(id, reason);
}

void Engine::Pause(PauseMode mode) {
  state_->mailbox.SetPause(mode);
}

void Engine::Resume() {
  state_->mailbox.SetPause(std::nullopt);
}

void Engine::ClearPrefixCache() {
  state_->mailbox.ClearCache();
}

std::shared_ptr<KvEventLog> Engine::kv_events() const {
  return state_->kv_events;
}

void Engine::StartDraining() {
  state_->mailbox.Close(AcceptState::kDraining);
}

void Engine::Stop() {
  state_->mailbox.Close(AcceptState::kStopped);
  std::call_once(state_->joined, [this] { state_->thread.join(); });
}

EngineStats Engine::stats() const {
  EngineStats stats;
  state_->counters.Fill(&stats);
  stats.longest_mask_wait_ns = state_->runtime->longest_mask_wait_ns();
  const KvPoolState pool = state_->runtime->kv_pool();
  // Requests may wait for pages that get their memory.
  stats.progress =
      stats.steps + state_->runtime->progress() + static_cast<uint64_t>(pool.num_pages - state_->first_pages);
  if (state_->drafter != nullptr) stats.progress += state_->drafter->progress();
  stats.rank_at_fault = state_->runtime->rank_at_fault();
  const int64_t live = state_->mailbox.live();
  stats.idle = live == 0;
  stats.waiting = static_cast<int32_t>(std::max<int64_t>(0, live - stats.running));
  stats.pages_total = state_->limits.num_pages;
  stats.pages_backed = pool.num_pages;
  stats.pages_missing = pool.grows ? 0 : stats.pages_total - pool.num_pages;
  stats.device_memory_peak_bytes = state_->runtime->device_memory().bytes_peak;
  return stats;
}

int32_t Engine::max_context_tokens() const {
  return state_->limits.max_context_tokens;
}

}  // namespace dunlin::engine
