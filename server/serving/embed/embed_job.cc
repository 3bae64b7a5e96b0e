// SPDX-License-Identifier: Apache-2.0
#include "server/serving/embed/embed_job.h"

#include <utility>

#include "server/access/tenant.h"
#include "server/serving/embed/embed_plan.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/resolve.h"

namespace dunlin::server {
EmbedJob::EmbedJob(ServingCore* core, Admission::Ticket ticket, const ClientCall& call,
                   std::shared_ptr<EmbedWriter> writer)
    : core_(core), call_(call), writer_(std::move(writer)), ticket_(std::move(ticket)) {
  record_.arrival = call.arrival;
  record_.trace = call.trace;
}

void EmbedJob::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  {
    absl::MutexLock lock(&submit_mutex_);
    if (engine_ != nullptr) engine_->Cancel(engine_id_, engine::FinishReason::kCancelled);
  }
  core_->text_pool()->Schedule(this);
}

void EmbedJob::OnFinish(std::unique_ptr<engine::EncodeCall> call) {
  finished_ = std::move(call);
  engine_done_.store(true, std::memory_order_release);
  core_->text_pool()->Schedule(this);
}

void EmbedJob::Run() {
  if (phase_ == Phase::kArrived) {
    phase_ = Phase::kRead;
    if (absl::Status s = Read(); !s.ok()) End(s);
  }
  if (phase_ == Phase::kRead) {
    const absl::StatusOr<bool> there = AwaitModel();
    if (there.ok() && !*there) return;
    phase_ = Phase::kRunning;
    const bool loads_only = request_->loads_only;
    if (there.ok() && request_->frees_model) (void)FreeModel(*core_, call_.principal, request_->model);
    const absl::Status s = !there.ok() ? there.status() : loads_only ? CheckLoaded() : PlanAndSubmit();
    if (loads_only || !s.ok()) End(s);
  }
  if (phase_ == Phase::kRunning) Continue();
  if (phase_ == Phase::kEnded) Report();
}

absl::Status EmbedJob::Read() {
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus(call_.deadline, core_->now());
  if (core_->now() >= call_.deadline) return StatusOf(engine::FinishReason::kDeadline, core_->limits());
  ClientEmbedRequest& request = request_.emplace();
  request.principal = call_.principal;
  absl::Status read = writer_->ReadRequest(&request);
  request.principal = call_.principal;  // whatever the front end has set
  if (absl::Status s = ResolveRequestId(request.request_id, *request.field_names, &record_); !s.ok()) return s;
  return read;
}

absl::StatusOr<bool> EmbedJob::AwaitModel() {
  if (!core_->loads_for_requests()) return true;
  const engine::TimeNs now = core_->now();
  if (cancelled_.load(std::memory_order_acquire) || now >= call_.deadline) {
    return CancelledStatus(call_.deadline, now);
  }
  if (model_use_ == nullptr) {
    model_use_ = std::make_unique<ModelUse>(*core_, call_.deadline, [core = core_, weak = weak_from_this()] {
      if (const std::shared_ptr<TextTask> self = weak.lock()) core->text_pool()->Schedule(self.get());
    });
  }
  return model_use_->Ready(call_.principal, request_->model);
}

// Of a request that asks for its model to be in memory, and for nothing else.
absl::Status EmbedJob::CheckLoaded() {
  ClientEmbedRequest request = *std::exchange(request_, std::nullopt);
  ticket_.ReleaseBytes();
  const CallContext call{*core_, call_.principal, *request.field_names, &record_};
  return CheckLoadedModel(call, request.model, CheckEmbeds, &request.execution);
}

absl::Status EmbedJob::PlanAndSubmit() {
  ClientEmbedRequest request = *std::exchange(request_, std::nullopt);
  const bool keeps_texts = request.rerank.has_value() && request.rerank->keeps_texts;
  absl::StatusOr<EmbedPlan> plan = PlanEmbed(std::move(request), *core_, &record_);
  if (!keeps_texts) ticket_.ReleaseBytes();  // else the ticket's end does
  if (!plan.ok()) return plan.status();
  if (absl::Status s = ReserveTokens(*core_, call_.principal, record_.prompt_tokens, &ticket_); !s.ok()) return s;
  UseDeliveryLane();
  plan->call->request.arrival = call_.arrival;
  plan->call->request.deadline = call_.deadline;
  plan->call->request.tenant = TenantOf(call_.principal.name);
  truncated_ = std::move(plan->truncated);
  rerank_ = plan->rerank;
  model_ = std::move(plan->model);
  // The sink shares ownership of this job: the engine keeps it alive until OnFinish.
  std::shared_ptr<engine::EncodeSink> sink(shared_from_this(), this);
  const absl::StatusOr<engine::RequestId> id = model_->encoder->Submit(std::move(plan->call), std::move(sink));
  if (!id.ok()) return SubmitRefused(id.status(), core_->limits().retry_after_ms);
  submitted_ = true;
  absl::MutexLock lock(&submit_mutex_);
  engine_ = model_->encoder.get();
  engine_id_ = *id;
  if (cancelled_.load(std::memory_order_acquire)) engine_->Cancel(*id, engine::FinishReason::kCancelled);
  return absl::OkStatus();
}

void EmbedJob::Continue() {
  const engine::TimeNs now = core_->now();
  if (cancelled_.load(std::memory_order_acquire) || now >= call_.deadline) {
    return End(CancelledStatus(call_.deadline, now));
  }
  if (!engine_done_.load(std::memory_order_acquire)) return;
  if (finished_->reason == engine::FinishReason::kDeadline && finished_->first_scheduled == 0 &&
      finished_->finished < call_.deadline) {
    core_->overload()->OnRefusal(now);
    return End(NotBegunForDeadline(core_->limits().retry_after_ms));
  }
  if (absl::Status status = StatusOf(finished_->reason, core_->limits()); !status.ok()) return End(status);
  Respond();
}

void EmbedJob::Respond() {
  phase_ = Phase::kEnded;
  const engine::EncodeRequest& request = finished_->request;
  EmbedResult result{*finished_, truncated_, rerank_.has_value() ? &*rerank_ : nullptr, {}, {}};
  result.request_id = record_.request_id;
  result.num_ranks = model_->model->num_ranks();
  result.usage.prompt_tokens = static_cast<int32_t>(request.tokens.size());
  result.timings.queue_ms = MillisecondsBetween(request.arrival, finished_->first_scheduled);
  result.timings.total_ms = MillisecondsBetween(request.arrival, finished_->finished);
  FinishWriter(absl::OkStatus(), &result);
}

void EmbedJob::End(const absl::Status& status) {
  phase_ = Phase::kEnded;
  UseDeliveryLane();
  record_.status = status;
  const std::string reason = ReasonName(status);
  if (!submitted_ || reason == Traits(Reason::kWouldMissDeadline).name) record_.refusal_reason = reason;
  FinishWriter(status, nullptr);
}

void EmbedJob::FinishWriter(const absl::Status& status, const EmbedResult* result) {
  const std::shared_ptr<EmbedWriter> writer = std::move(writer_);
  writer->Finish({status, record_.request_id}, result);
}

void EmbedJob::Report() {
  if (reported_ || (submitted_ && !engine_done_.load(std::memory_order_acquire))) return;
  reported_ = true;
  record_.finished = core_->now();
  if (finished_ != nullptr) {
    record_.finish_reason = FinishReasonName(finished_->reason);
    record_.first_scheduled = finished_->first_scheduled;
    record_.finished = finished_->finished;
  }
  ticket_.quota()->Settle(record_.first_scheduled != 0 ? record_.prompt_tokens : 0, record_.finished);
  if (core_->observer() != nullptr) core_->observer()->OnFinished(record_);
  {
    absl::MutexLock lock(&submit_mutex_);
    engine_ = nullptr;
  }
  model_.reset();
  model_use_.reset();
}

}  // namespace dunlin::server
