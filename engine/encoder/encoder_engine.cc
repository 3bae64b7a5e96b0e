// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/thread_name.h"
#include "engine/encoder/encoder_memory.h"
#include "engine/encoder/encoder_scheduler.h"
#include "engine/encoder/live_call.h"
#include "engine/loop/mailbox.h"
#include "spdlog/spdlog.h"

namespace dunlin::engine {
namespace {

EncodeLimits LimitsOf(const EngineOptions& options, const ModelConfig& config) {
  return {.vocab_size = config.vocab_size,
          .hidden_dim = config.hidden_dim,
          .num_labels = config.classifier.num_labels,
          .image = config.image,
          .max_input_tokens = ContextLimit(config, options),
          .max_queued_tokens = options.max_queued_tokens};
}

// A full queue, and as many calls again that have ended in the current batch, so that those never take a place from a
// new one.
MailboxLimits MailboxLimitsOf(const EngineOptions& options) {
  return {.max_queued_requests = options.max_queued_requests,
          .max_queued_tokens = options.max_queued_tokens,
          .max_live = 2 * options.max_queued_requests};
}

}  // namespace

struct EncoderEngine::State {
  State(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<EncoderRuntime> owned_runtime,
        Clock engine_clock, StepObserver* step_observer)
      : clock(engine_clock),
        observer(step_observer),
        limits(LimitsOf(options, config)),
        runtime(std::move(owned_runtime)),
        mailbox(MailboxLimitsOf(options)),
        scheduler({.max_calls = mailbox.limits().max_live,
                   .max_batch_inputs = options.max_sequences,
                   .max_batch_tokens = BatchTokens(config, options),
                   .classifier_pooling = config.classifier.mean ? Pooling::kMean : Pooling::kCls,
                   .image = config.image}) {
    mail.Reserve(mailbox.limits());
  }

  // Serves until the mailbox says stop or the device fails; then every live call has ended. OK, or the device's error.
  absl::Status Run();
  void Exchange(bool may_sleep);
  void TakeMail();
  absl::Status RunBatch();
  void Publish();
  absl::Status Fail(const absl::Status& error);

  const Clock clock;
  StepObserver* const observer;
  const EncodeLimits limits;
  const std::unique_ptr<EncoderRuntime> runtime;  // engine thread
  Mailbox<LiveCall> mailbox;
  EncoderScheduler scheduler;    // engine thread
  Mailbox<LiveCall>::Mail mail;  // engine thread
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> computed_tokens{0};
  std::atomic<TimeNs> longest_batch_ns{0};
  std::atomic<int32_t> running{0};
  std::atomic<bool> failed{false};
  std::once_flag joined;
  std::thread thread;
};

absl::Status EncoderEngine::State::Run() {
  while (true) {
    TakeMail();
    if (mail.stop) {
      scheduler.EndAll(FinishReason::kShutdown, clock());
      Exchange(false);
      mailbox.DestroyRetired();
      return absl::OkStatus();
    }
    if (absl::Status status = RunBatch(); !status.ok()) return Fail(status);
  }
}

void EncoderEngine::State::Exchange(bool may_sleep) {
  Publish();
  mailbox.Exchange(may_sleep, &scheduler.retired(), &mail);
}

// Sleeps only when nothing is live: deadlines are checked before every batch.
void EncoderEngine::State::TakeMail() {
  Exchange(scheduler.empty());
  const TimeNs now = clock();
  for (LiveCall* live : mail.arrivals) scheduler.Add(live);
  for (const Mailbox<LiveCall>::Ending& ending : mail.endings) scheduler.End(ending.work, ending.reason, now);
  scheduler.EndExpired(now);
}

absl::Status EncoderEngine::State::RunBatch() {
  const TimeNs start = clock();
  EncodeBatch* batch = scheduler.Plan(start);
  if (batch->inputs.empty()) return absl::OkStatus();
  Publish();
  if (absl::Status status = runtime->Run(batch); !status.ok()) return status;
  const TimeNs now = clock();
  const auto num_inputs = static_cast<int32_t>(batch->inputs.size());
  batches.fetch_add(1, std::memory_order_relaxed);
  if (now - start > longest_batch_ns.load(std::memory_order_relaxed)) {
    longest_batch_ns.store(now - start, std::memory_order_relaxed);
  }
  if (observer != nullptr) observer->OnStep(batch->num_tokens, num_inputs, now - start);
  scheduler.Commit(now);
  return absl::OkStatus();
}

void EncoderEngine::State::Publish() {
  const EncoderCounters& counters = scheduler.counters();
  mailbox.SetDequeued(counters.ended_calls, counters.ended_tokens);
  computed_tokens.store(counters.computed_tokens, std::memory_order_relaxed);
  running.store(counters.running, std::memory_order_relaxed);
}

// Nothing more can be computed. The mailbox closes first, so that no call is left in it.
absl::Status EncoderEngine::State::Fail(const absl::Status& error) {
  failed.store(true, std::memory_order_relaxed);
  mailbox.Close(AcceptState::kFailed);
  Exchange(false);
  for (LiveCall* live : mail.arrivals) scheduler.Add(live);
  scheduler.EndAll(FinishReason::kInternal, clock());
  Exchange(false);
  mailbox.DestroyRetired();
  return error;
}

EncoderEngine::EncoderEngine(const EngineOptions& options, const ModelConfig& config,
                             std::unique_ptr<EncoderRuntime> runtime, Clock clock, StepObserver* observer)
    : state_(std::make_unique<State>(options, config, std::move(runtime), clock, observer)) {
  state_->thread = std::thread([state = state_.get()] {
    NameThread("encoder");
    const absl::Status status = state->Run();
    if (!status.ok()) spdlog::error("encoder stopped, the device failed: {}", status.ToString());
  });
}

EncoderEngine::~EncoderEngine() {
  Stop();
}

const EncodeLimits& EncoderEngine::limits() const {
  return state_->limits;
}

absl::Status EncoderEngine::Validate(const EncodeRequest& request) const {
  return ValidateEncode(request, state_->limits);
}

absl::StatusOr<RequestId> EncoderEngine::Submit(std::unique_ptr<EncodeCall> call, std::shared_ptr<EncodeSink> sink) {
  const EncodeRequest& request = call->request;
  const auto num_tokens = std::accumulate(request.lengths.begin(), request.lengths.end(), uint64_t{0});
  const size_t num_vectors = request.grids.empty()
                                 ? request.lengths.size()
                                 : num_tokens / static_cast<size_t>(state_->limits.image.patches_per_row());
  DUNLIN_CHECK(call->vectors.size() == num_vectors * static_cast<size_t>(request.dimensions),
               "a call is submitted with memory for its vectors");
  const TenantId tenant = request.tenant;
  auto live = std::make_unique<LiveCall>();
  live->call = std::move(call);
  live->sink = std::move(sink);
  return state_->mailbox.Submit(std::move(live), tenant, num_tokens);
}

void EncoderEngine::Cancel(RequestId id, FinishReason reason) {
  state_->mailbox.Cancel(id, reason);
}

void EncoderEngine::StartDraining() {
  state_->mailbox.Close(AcceptState::kDraining);
}

void EncoderEngine::Stop() {
  state_->mailbox.Close(AcceptState::kStopped);
  std::call_once(state_->joined, [this] { state_->thread.join(); });
}

EngineStats EncoderEngine::stats() const {
  EngineStats stats;
  const int64_t live = state_->mailbox.live();
  stats.running = state_->running.load(std::memory_order_relaxed);
  stats.waiting = static_cast<int32_t>(std::max<int64_t>(0, live - stats.running));
  stats.idle = live == 0;
  stats.steps = state_->batches.load(std::memory_order_relaxed);
  stats.progress = stats.steps + state_->runtime->progress();
  stats.rank_at_fault = state_->runtime->rank_at_fault();
  stats.longest_step_ns = state_->longest_batch_ns.load(std::memory_order_relaxed);
  stats.failed = state_->failed.load(std::memory_order_relaxed);
  stats.prompt_tokens = state_->computed_tokens.load(std::memory_order_relaxed);
  stats.device_memory_peak_bytes = state_->runtime->device_memory().bytes_peak;
  return stats;
}

int32_t EncoderEngine::max_context_tokens() const {
  return state_->limits.max_input_tokens;
}

}  // namespace dunlin::engine
