#include "engine/encoder/encoder_engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/encoder/encoder_memory.h"
#include "engine/encoder/encoder_queue.h"
#include "engine/encoder/encoder_turns.h"
#include "spdlog/spdlog.h"

namespace dunlin::engine {
namespace {

EncodeLimits LimitsOf(const EngineOptions& options, const ModelConfig& config) {
  return {.vocab_size = config.vocab_size,
          .hidden_dim = config.hidden_dim,
          .max_input_tokens = ContextLimit(config, options),
          .max_queued_tokens = options.max_queued_tokens};
}

}  // namespace

struct EncoderEngine::State {
  State(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<EncoderRuntime> owned_runtime,
        Clock engine_clock, StepObserver* step_observer)
      : clock(engine_clock),
        observer(step_observer),
        limits(LimitsOf(options, config)),
        runtime(std::move(owned_runtime)),
        queue({options.max_queued_requests, options.max_queued_tokens}),
        turns({options.max_queued_requests, options.max_sequences, BatchTokens(config, options)}) {}

  // Serves until the queue says stop or the device fails; then every live call has ended.
  absl::Status Run();
  void TakeMail();
  absl::Status RunBatch();
  void Publish();
  absl::Status Fail(const absl::Status& error);

  const Clock clock;
  StepObserver* const observer;
  const EncodeLimits limits;
  const std::unique_ptr<EncoderRuntime> runtime;  // engine thread
  EncoderQueue queue;
  EncoderTurns turns;       // engine thread
  EncoderQueue::Mail mail;  // engine thread
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> computed_tokens{0};
  std::atomic<int32_t> running{0};
  std::atomic<bool> failed{false};
  std::once_flag joined;
  std::thread thread;
};

absl::Status EncoderEngine::State::Run() {
  while (true) {
    TakeMail();
    if (mail.stop) {
      turns.EndAll(FinishReason::kShutdown, clock());
      Publish();
      return absl::OkStatus();
    }
    if (absl::Status status = RunBatch(); !status.ok()) return Fail(status);
  }
}

// Sleeps only when nothing is live: deadlines are looked at before every batch.
void EncoderEngine::State::TakeMail() {
  Publish();
  queue.Take(turns.empty(), &mail);
  const TimeNs now = clock();
  for (LiveCall& live : mail.arrivals) turns.Add(std::move(live));
  for (const EncoderQueue::Ending& ending : mail.endings) turns.End(ending.id, ending.reason, now);
  turns.EndExpired(now);
}

absl::Status EncoderEngine::State::RunBatch() {
  const TimeNs start = clock();
  EncodeBatch* batch = turns.Plan(start);
  if (batch->inputs.empty()) return absl::OkStatus();
  Publish();
  if (absl::Status status = runtime->Run(batch); !status.ok()) return status;
  const TimeNs now = clock();
  const auto num_inputs = static_cast<int32_t>(batch->inputs.size());
  batches.fetch_add(1, std::memory_order_relaxed);
  if (observer != nullptr) observer->OnStep(batch->num_tokens, num_inputs, now - start);
  turns.Commit(now);
  return absl::OkStatus();
}

void EncoderEngine::State::Publish() {
  const EncoderCounters& counters = turns.counters();
  queue.SetEnded(counters.ended_calls, counters.ended_tokens);
  computed_tokens.store(counters.computed_tokens, std::memory_order_relaxed);
  running.store(counters.running, std::memory_order_relaxed);
}

// Nothing more can be computed. The door closes first, so that no call is left behind it.
absl::Status EncoderEngine::State::Fail(const absl::Status& error) {
  failed.store(true, std::memory_order_relaxed);
  queue.Close(Door::kFailed);
  queue.Take(false, &mail);
  for (LiveCall& live : mail.arrivals) turns.Add(std::move(live));
  turns.EndAll(FinishReason::kInternal, clock());
  Publish();
  return error;
}

EncoderEngine::EncoderEngine(const EngineOptions& options, const ModelConfig& config,
                             std::unique_ptr<EncoderRuntime> runtime, Clock clock, StepObserver* observer)
    : state_(std::make_unique<State>(options, config, std::move(runtime), clock, observer)) {
  state_->thread = std::thread([state = state_.get()] {
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
  DUNLIN_CHECK(call->vectors.size() == request.lengths.size() * static_cast<size_t>(request.dimensions),
               "a call comes with room for its vectors");
  return state_->queue.Submit(std::move(call), std::move(sink));
}

void EncoderEngine::Cancel(RequestId id, FinishReason reason) {
  state_->queue.Cancel(id, reason);
}

void EncoderEngine::StartDraining() {
  state_->queue.Close(Door::kDraining);
}

void EncoderEngine::Stop() {
  state_->queue.Close(Door::kStopped);
  std::call_once(state_->joined, [this] { state_->thread.join(); });
}

EngineStats EncoderEngine::stats() const {
  EngineStats stats;
  const int64_t live = state_->queue.live();
  stats.running = state_->running.load(std::memory_order_relaxed);
  stats.waiting = static_cast<int32_t>(std::max<int64_t>(0, live - stats.running));
  stats.idle = live == 0;
  stats.steps = state_->batches.load(std::memory_order_relaxed);
  stats.failed = state_->failed.load(std::memory_order_relaxed);
  stats.prompt_tokens = state_->computed_tokens.load(std::memory_order_relaxed);
  stats.device_memory_peak_bytes = state_->runtime->device_memory().bytes_peak;
  return stats;
}

int32_t EncoderEngine::max_context_tokens() const {
  return state_->limits.max_input_tokens;
}

}  // namespace dunlin::engine
