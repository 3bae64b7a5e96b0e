#include "server/grpc/embed_call.h"

#include <utility>

#include "server/convert/embed_request.h"
#include "server/convert/errors.h"
#include "server/convert/finish.h"
#include "server/grpc/call_metadata.h"
#include "server/grpc/grpc_status.h"
#include "server/grpc/wire_buffer.h"

namespace dunlin::server {

EmbedCall* EmbedCall::Start(const Edge& edge, grpc::CallbackServerContext* context, const grpc::ByteBuffer& wire,
                            grpc::ByteBuffer* response) {
  std::shared_ptr<EmbedCall> call(new EmbedCall(edge, context, response));
  call->self_ = call;
  absl::StatusOr<Admission::Ticket> ticket = edge.admission->Admit(wire.Length());
  if (!ticket.ok()) {
    call->End(ticket.status());
    call->Report();
    return call.get();
  }
  call->ticket_ = *std::move(ticket);
  call->request_ = wire;
  edge.text_pool->Schedule(call.get());
  return call.get();
}

EmbedCall::EmbedCall(const Edge& edge, grpc::CallbackServerContext* context, grpc::ByteBuffer* response)
    : edge_(edge), context_(context), response_(response) {
  record_.arrival = edge.clock();
  deadline_ = DeadlineNs(*context, record_.arrival);
}

void EmbedCall::OnCancel() {
  cancelled_.store(true, std::memory_order_release);
  {
    absl::MutexLock lock(&submit_mutex_);
    if (engine_ != nullptr) engine_->Cancel(engine_id_, engine::FinishReason::kCancelled);
  }
  edge_.text_pool->Schedule(this);
}

void EmbedCall::OnFinish(std::unique_ptr<engine::EncodeCall> call) {
  finished_ = std::move(call);
  engine_done_.store(true, std::memory_order_release);
  edge_.text_pool->Schedule(this);
}

void EmbedCall::Run() {
  if (phase_ == Phase::kArrived) {
    phase_ = Phase::kRunning;
    if (absl::Status s = Begin(); !s.ok()) End(s);
  }
  if (phase_ == Phase::kRunning) Continue();
  if (phase_ == Phase::kEnded) Report();
}

absl::Status EmbedCall::Begin() {
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus(deadline_, edge_.clock());
  if (edge_.clock() >= deadline_) return StatusOf(engine::FinishReason::kDeadline);
  absl::StatusOr<EmbedPlan> plan = PlanEmbed(request_, *context_, edge_, &record_);
  request_.Clear();
  ticket_.ReleaseBytes();
  if (!plan.ok()) return plan.status();
  return Submit(*std::move(plan));
}

absl::Status EmbedCall::Submit(EmbedPlan plan) {
  plan.call->request.arrival = record_.arrival;
  plan.call->request.deadline = deadline_;
  truncated_ = std::move(plan.truncated);
  // The sink is a share in this call: the engine keeps it alive until it has heard OnFinish.
  std::shared_ptr<engine::EncodeSink> sink(shared_from_this(), this);
  engine::EncoderEngine* engine = plan.model->encoder.get();
  const absl::StatusOr<engine::RequestId> id = engine->Submit(std::move(plan.call), std::move(sink));
  if (!id.ok()) return FromEngine(id.status(), edge_.limits.retry_after_ms);
  submitted_ = true;
  absl::MutexLock lock(&submit_mutex_);
  engine_ = engine;
  engine_id_ = *id;
  if (cancelled_.load(std::memory_order_acquire)) engine->Cancel(*id, engine::FinishReason::kCancelled);
  return absl::OkStatus();
}

void EmbedCall::Continue() {
  const engine::TimeNs now = edge_.clock();
  if (cancelled_.load(std::memory_order_acquire) || now >= deadline_) return End(CancelledStatus(deadline_, now));
  if (!engine_done_.load(std::memory_order_acquire)) return;
  if (absl::Status status = StatusOf(finished_->reason); !status.ok()) return End(status);
  Answer();
}

void EmbedCall::Answer() {
  v1::EmbedResponse response = EmbedToWire(*finished_);
  for (int i = 0; i < response.embeddings_size(); ++i) {
    response.mutable_embeddings(i)->set_truncated(truncated_[static_cast<size_t>(i)]);
  }
  response.set_request_id(record_.request_id);
  *response_ = SerializeWire(response);
  context_->AddInitialMetadata(kRequestIdKey, record_.request_id);
  phase_ = Phase::kEnded;
  Finish(grpc::Status::OK);
}

void EmbedCall::End(const absl::Status& status) {
  phase_ = Phase::kEnded;
  record_.status = status;
  if (!submitted_) record_.refusal_reason = ReasonName(status);
  if (!record_.request_id.empty()) context_->AddTrailingMetadata(kRequestIdKey, record_.request_id);
  AddStatusTrailers(status, context_);
  Finish(ToGrpcStatus(status));
}

void EmbedCall::Report() {
  if (reported_ || (submitted_ && !engine_done_.load(std::memory_order_acquire))) return;
  reported_ = true;
  record_.finished = edge_.clock();
  if (finished_ != nullptr) {
    record_.finish_reason = FinishReasonName(finished_->reason);
    record_.first_scheduled = finished_->first_scheduled;
    record_.finished = finished_->finished;
  }
  if (edge_.observer != nullptr) edge_.observer->OnFinished(record_);
}

}  // namespace dunlin::server
