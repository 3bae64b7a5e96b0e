// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/generation.h"

#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/loop/validate.h"
#include "server/access/tenant.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/resolve.h"

namespace dunlin::server {
namespace {

// Limits for planning on the transport's thread: waking a text thread (7 to 40 us, docs/decisions.md) costs more than
// parsing 256 bytes of message, some 60 words or 100 token ids, and clearing 64 KiB of queues.
constexpr size_t kInlineMessageBytes = 256;
constexpr size_t kInlineQueueBytes = size_t{64} << 10;
// A prompt that one step computes: its first token comes early enough for the first chunk to wait for it.
constexpr size_t kShortPromptTokens = 256;

// Of one output.
size_t ConstraintBytes(const GenerationPlan& plan) {
  return plan.request.constraint == nullptr ? 0 : plan.constraint_bytes + text::kGrammarStateGrowth;
}

}  // namespace

Generation::Generation(ServingCore* core, Admission::Ticket ticket, const ClientCall& call,
                       std::shared_ptr<ResponseWriter> writer)
    : core_(core),
      call_(call),
      cut_off_writer_(std::move(writer)),
      writer_(cut_off_writer_.get()),
      ticket_(std::move(ticket)) {
  record_.arrival = call.arrival;
  record_.trace = call.trace;
}

void Generation::Start() {
  if (call_.message_bytes <= kInlineMessageBytes) {
    core_->text_pool()->RunInline(this);
  } else {
    core_->text_pool()->Schedule(this);
  }
}

void Generation::OnWriteDone(bool ok) {
  if (!ok) {
    cancelled_.store(true, std::memory_order_release);
    requests_.CancelAll(engine::FinishReason::kCancelled);
  }
  writing_since_.store(0, std::memory_order_relaxed);
  write_pending_.store(false, std::memory_order_release);
  core_->text_pool()->Schedule(this);
}

void Generation::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  requests_.CancelAll(engine::FinishReason::kCancelled);
  core_->text_pool()->Schedule(this);
}

void Generation::OnClosed() {
  core_->stall_watch()->Forget(this);
  std::shared_ptr<ResponseWriter> writer;  // destroyed after the lock is released
  {
    absl::MutexLock lock(&cut_off_mutex_);
    writer = std::move(cut_off_writer_);
  }
  closed_.store(true, std::memory_order_release);
  core_->text_pool()->Schedule(this);
}

void Generation::Run() {
  Advance(false);
  if (phase_ == Phase::kEnded) Report();
}

void Generation::RunInline() {
  if (phase_ == Phase::kEnded) return core_->text_pool()->Schedule(this);
  Advance(true);
}

void Generation::Advance(bool inline_run) {
  if (phase_ == Phase::kArrived) {
    phase_ = Phase::kRead;
    if (absl::Status s = Read(); !s.ok()) return End(s);
  }
  if (phase_ == Phase::kRead) {
    // A short message may make a chat template or a grammar's compiler work for long.
    if (inline_run &&
        (std::holds_alternative<text::ChatInput>(request_->prompt) || request_->structured_output.has_value())) {
      return core_->text_pool()->Schedule(this);
    }
    if (request_->frees_model && request_->loads_only) return End(Free());
    const absl::StatusOr<bool> there = AwaitModel();
    if (!there.ok()) return End(there.status());
    if (!*there) return;
    if (request_->loads_only) return End(CheckLoaded());
    if (request_->frees_model) (void)FreeModel(*core_, call_.principal, request_->model);  // once its use is over
    phase_ = Phase::kPlanned;
    if (absl::Status s = Plan(); !s.ok()) return End(s);
  }
  if (phase_ == Phase::kPlanned) {
    absl::StatusOr<bool> settled = SettleImages();
    if (settled.ok() && *settled) settled = SettleConstraint();
    if (!settled.ok()) return End(settled.status());
    if (!*settled) return;
    if (inline_run && GenerationOutputs::QueueBytes(*plan_, core_->limits()) > kInlineQueueBytes) {
      return core_->text_pool()->Schedule(this);
    }
    phase_ = Phase::kStreaming;
    UseDeliveryLane();
    if (absl::Status s = Submit(); !s.ok()) return End(s);
  }
  if (phase_ == Phase::kStreaming) Continue();
}

absl::Status Generation::Read() {
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus();
  if (core_->now() >= call_.deadline) return StatusOf(engine::FinishReason::kDeadline, core_->limits());
  ClientRequest& request = request_.emplace();
  request.principal = call_.principal;
  absl::Status read = writer_->ReadRequest(&request);
  request.principal = call_.principal;  // whatever the front end has set
  if (absl::Status s = ResolveRequestId(request.request_id, *request.field_names, &record_); !s.ok()) return s;
  return read;
}

absl::StatusOr<bool> Generation::AwaitModel() {
  if (!core_->loads_for_requests()) return true;
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus();
  if (core_->now() >= call_.deadline) return StatusOf(engine::FinishReason::kDeadline, core_->limits());
  if (model_use_ == nullptr) {
    model_use_ = std::make_unique<ModelUse>(*core_, call_.deadline, [weak = weak_from_this()] {
      if (const std::shared_ptr<TextTask> self = weak.lock()) static_cast<Generation*>(self.get())->Resume();
    });
  }
  return model_use_->Ready(call_.principal, request_->model);
}

// Of a request that asks for its model to be in memory, and for nothing else.
absl::Status Generation::CheckLoaded() {
  ClientRequest request = *std::exchange(request_, std::nullopt);
  ticket_.ReleaseBytes();
  const CallContext call{*core_, call_.principal, *request.field_names, &record_};
  return CheckLoadedModel(call, request.model, CheckGenerates, &request.execution);
}

absl::Status Generation::Free() {
  const std::string model = std::exchange(request_, std::nullopt)->model;
  ticket_.ReleaseBytes();
  const absl::StatusOr<FreedModel> freed = FreeModel(*core_, call_.principal, model);
  if (!freed.ok()) return freed.status();
  model_freed_ = freed->leaves;
  record_.model = freed->name;
  record_.finish_reason = model_freed_ ? "unload" : "load";
  return absl::OkStatus();
}

absl::Status Generation::Plan() {
  ClientRequest request = *std::exchange(request_, std::nullopt);
  absl::StatusOr<GenerationPlan> plan = PlanGeneration(std::move(request), *core_, &record_, call_.deadline);
  if (!plan.ok() || plan->images.empty())
    ticket_.ReleaseBytes();  // images are a part of the message until they are rows
  if (absl::IsResourceExhausted(plan.status())) core_->overload()->OnRefusal(core_->now());
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

absl::Status Generation::CheckStillWanted() const {
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus();
  if (core_->now() >= call_.deadline) return StatusOf(engine::FinishReason::kDeadline, core_->limits());
  return absl::OkStatus();
}

absl::StatusOr<bool> Generation::SettleImages() {
  if (plan_->images.empty() || plan_->request.rows != nullptr) return true;
  if (absl::Status s = CheckStillWanted(); !s.ok()) return s;
  if (images_ == nullptr) {
    if (absl::Status s = StartImages(); !s.ok()) return s;
  }
  auto rows = images_->Advance();
  if (!rows.has_value()) return false;
  if (absl::IsResourceExhausted(rows->status())) core_->overload()->OnRefusal(core_->now());
  if (!rows->ok()) return rows->status();  // End gives their turn back
  images_ = nullptr;
  plan_->request.rows = rows_ = **std::move(rows);
  record_.image_time = core_->now() - images_since_;
  for (PromptImage& image : plan_->images) image.file = nullptr;
  ticket_.ReleaseBytes();
  const auto violation = engine::CheckPrompt(plan_->request, plan_->model->engine->limits());
  if (violation.has_value()) return MakeError(Reason::kInternal, "the rows of images do not fit their prompt");
  return true;
}

absl::Status Generation::StartImages() {
  PendingImages::Caller caller{.tenant = TenantOf(call_.principal.name),
                               .arrival = call_.arrival,
                               .deadline = call_.deadline,
                               .names = plan_->field_names,
                               .limits = &core_->limits(),
                               .on_progress = [weak = weak_from_this()] {
                                 if (const std::shared_ptr<TextTask> self = weak.lock()) {
                                   static_cast<Generation*>(self.get())->Resume();
                                 }
                               }};
  if (absl::Status s = ReserveQuota(); !s.ok()) return s;
  images_since_ = core_->now();
  engine::Request& request = plan_->request;
  auto started = PendingImages::Start(plan_->model->images.get(), plan_->images, request.cache_salt, &request.prompt,
                                      std::move(caller));
  if (!started.ok()) return started.status();
  images_ = *std::move(started);
  return absl::OkStatus();
}

absl::StatusOr<bool> Generation::SettleConstraint() {
  if (plan_->grammar.has_value()) {
    if (absl::Status s = StartConstraint(); !s.ok()) return s;
  }
  if (constraint_ == nullptr) return true;
  if (absl::Status s = CheckStillWanted(); !s.ok()) return s;
  const std::optional<absl::StatusOr<Grammar>> grammar = constraint_->result();
  if (!grammar.has_value()) return false;
  constraint_ = nullptr;
  if (!grammar->ok()) return grammar->status();
  plan_->request.constraint = (*grammar)->constraint;
  plan_->constraint_bytes = (*grammar)->bytes;
  return true;
}

absl::Status Generation::StartConstraint() {
  GrammarCache::Caller caller;
  caller.tenant = TenantOf(call_.principal.name);
  if (call_.deadline != engine::kNoDeadline) {
    caller.deadline = absl::Now() + absl::Nanoseconds(call_.deadline - core_->now());
  }
  caller.on_done = [weak = weak_from_this()] {
    // The core outlives every generation.
    if (const std::shared_ptr<TextTask> self = weak.lock()) static_cast<Generation*>(self.get())->Resume();
  };
  absl::StatusOr<std::unique_ptr<PendingConstraint>> started = PendingConstraint::Start(
      *plan_->model, *plan_->grammar, *plan_->field_names, caller, core_->limits().retry_after_ms);
  plan_->grammar.reset();
  if (absl::IsResourceExhausted(started.status())) core_->overload()->OnRefusal(core_->now());
  if (!started.ok()) return started.status();
  constraint_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status Generation::ReserveQuota() {
  if (std::exchange(quota_reserved_, true)) return absl::OkStatus();
  const int64_t tokens = std::ssize(plan_->request.prompt) + int64_t{plan_->num_outputs} * plan_->reserved_tokens;
  return ReserveTokens(*core_, call_.principal, tokens, &ticket_);
}

absl::Status Generation::Submit() {
  if (absl::Status s = ReserveQuota(); !s.ok()) return s;
  GenerationPlan plan = *std::exchange(plan_, std::nullopt);
  model_ = plan.model;
  engine::Request& request = plan.request;
  request.arrival = call_.arrival;
  request.deadline = call_.deadline;
  request.tenant = TenantOf(call_.principal.name);
  const size_t output_bytes = GenerationOutputs::QueueBytes(plan, core_->limits()) +
                              static_cast<size_t>(plan.num_outputs) * ConstraintBytes(plan);
  if (!ticket_.TakeOutputBytes(output_bytes)) {
    core_->overload()->OnRefusal(core_->now());
    return OutputBytesRefused(output_bytes, core_->limits());
  }
  if (!record_.adapter.empty()) adapter_use_ = AdapterUses::Use(model_->adapter_uses.get(), record_.adapter);
  outputs_ = std::make_unique<GenerationOutputs>(plan, core_, this, &requests_, &write_pending_);
  first_chunk_waits_ = request.prompt.size() <= kShortPromptTokens && model_->engine->stats().idle;
  const std::shared_ptr<const engine::TokenConstraint> constraint = std::move(request.constraint);
  for (size_t i = 0; i < outputs_->size(); ++i) {
    request.output_index = static_cast<int32_t>(i);
    if (constraint != nullptr) request.constraint = outputs_->Constrain(i, constraint);
    // The sink shares ownership of this generation: the engine keeps it alive until OnFinish.
    std::shared_ptr<engine::OutputSink> sink(shared_from_this(), outputs_->queue(i));
    const absl::Status submitted = requests_.Submit(model_->engine.get(), request, std::move(sink));
    if (absl::IsResourceExhausted(submitted)) core_->overload()->OnRefusal(core_->now());
    if (!submitted.ok()) return SubmitRefused(submitted, core_->limits().retry_after_ms);
    outputs_->MarkSubmitted();
    request.sampling.prompt_logprobs = -1;  // the prompt is scored once, with output 0
  }
  if (!outputs_->SetUpTexts(plan.output_text).ok()) {
    return MakeError(Reason::kInternal, "the detokeniser of the output could not be created");
  }
  chunk_.request_id = record_.request_id;
  chunk_.profile = record_.profile;
  chunk_.adapter = record_.adapter;
  chunk_.num_ranks = model_->model->num_ranks();
  chunk_.num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
  chunk_.clamped_max_tokens = plan.clamped_max_tokens;
  if (plan.prompt_token_ids) chunk_.prompt_token_ids = plan.prompt();
  return absl::OkStatus();
}

void Generation::Continue() {
  if (cancelled_.load(std::memory_order_acquire)) return End(CancelledStatus());
  if (const auto failure = outputs_->failure()) {
    record_.finish_reason = FinishReasonName(*failure);  // of the output that failed; the others are only cancelled
    if (outputs_->delivery_behind()) return End(DeliveryBehind(core_->limits().max_unsent_tokens));
    if (outputs_->dropped_for(call_.deadline)) {
      core_->overload()->OnRefusal(core_->now());
      return End(NotBegunForDeadline(core_->limits().retry_after_ms));
    }
    return End(StatusOf(*failure, core_->limits()));
  }
  if (write_pending_.load(std::memory_order_acquire)) return;
  if (!first_chunk_sent_ && first_chunk_waits_ && outputs_->empty()) return;
  const absl::StatusOr<GenerationOutputs::Next> next = outputs_->Fill(&chunk_);
  if (!next.ok()) return End(MakeError(Reason::kInternal, "the output could not be detokenised"));
  if (!chunk_.token_ids.empty()) adapter_use_.Run();
  if (*next == GenerationOutputs::Next::kNothing && first_chunk_sent_) return;
  first_chunk_sent_ = true;
  if (*next == GenerationOutputs::Next::kLastChunk) {
    phase_ = Phase::kEnded;
    WatchForStall();
    ended_at_.store(core_->now(), std::memory_order_relaxed);
    return writer_->Finish({absl::OkStatus(), record_.request_id}, &chunk_);
  }
  WatchForStall();
  writing_since_.store(core_->now(), std::memory_order_relaxed);
  write_pending_.store(true, std::memory_order_relaxed);
  writer_->Write(chunk_);
  chunk_.Clear();
}

void Generation::End(const absl::Status& status) {
  phase_ = Phase::kEnded;
  constraint_ = nullptr;
  if (images_ != nullptr) std::exchange(images_, nullptr)->Cancel();
  plan_.reset();
  UseDeliveryLane();
  record_.status = status;
  requests_.CancelAll(engine::FinishReason::kCancelled);
  const bool submitted = outputs_ != nullptr && outputs_->num_submitted() > 0;
  const std::string reason = ReasonName(status);
  if (!submitted || reason == Traits(Reason::kWouldMissDeadline).name) record_.refusal_reason = reason;
  WatchForStall();
  ended_at_.store(core_->now(), std::memory_order_relaxed);
  writer_->Finish({status, record_.request_id, model_freed_}, nullptr);
}

void Generation::Report() {
  if (outputs_ != nullptr && !outputs_->all_finished()) return;
  if (!reported_) {
    reported_ = true;
    adapter_use_ = AdapterUses::Use();
    record_.finished = core_->now();
    if (outputs_ != nullptr) outputs_->FillRecord(&record_);
    const bool computed = record_.first_scheduled != 0 || record_.image_time != 0;
    rows_ = nullptr;
    ticket_.quota()->Settle(computed ? int64_t{record_.prompt_tokens} + record_.completion_tokens : 0,
                            record_.finished);
    if (core_->observer() != nullptr) core_->observer()->OnFinished(record_);
  }
  if (!closed_.load(std::memory_order_acquire)) return;
  model_.reset();
  model_use_.reset();
  ticket_ = Admission::Ticket();
}

absl::Status Generation::CancelledStatus() const {
  if (cut_off_.load(std::memory_order_acquire)) return StatusOf(engine::FinishReason::kSlowReader, core_->limits());
  return server::CancelledStatus(call_.deadline, core_->now());
}

void Generation::WatchForStall() {
  if (watched_) return;
  watched_ = true;
  core_->stall_watch()->Watch(std::shared_ptr<StallWatch::Call>(shared_from_this(), this));
}

engine::TimeNs Generation::unread_since() const {
  const engine::TimeNs writing_since = writing_since_.load(std::memory_order_relaxed);
  return writing_since != 0 ? writing_since : ended_at_.load(std::memory_order_relaxed);
}

void Generation::CutOff() {
  std::shared_ptr<ResponseWriter> writer;
  {
    absl::MutexLock lock(&cut_off_mutex_);
    writer = cut_off_writer_;
  }
  if (writer == nullptr) return;
  cut_off_.store(true, std::memory_order_release);
  writer->CutOff();
}

}  // namespace dunlin::server
