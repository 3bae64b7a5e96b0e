#include "server/grpc/generate_stream.h"

#include <chrono>
#include <utility>

#include "server/convert/errors.h"
#include "server/convert/execution.h"
#include "server/convert/finish.h"
#include "server/grpc/call_metadata.h"
#include "server/grpc/generate_plan.h"
#include "server/grpc/grpc_status.h"
#include "server/grpc/refused_call.h"
#include "server/grpc/wire_buffer.h"

namespace dunlin::server {

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateStream::Start(const Edge& edge,
                                                                  grpc::CallbackServerContext* context,
                                                                  const grpc::ByteBuffer& wire) {
  absl::StatusOr<Admission::Ticket> ticket = edge.admission->Admit(wire.Length());
  if (!ticket.ok()) return RefusedCall::Start(edge, context, ticket.status());
  std::shared_ptr<GenerateStream> stream(new GenerateStream(edge, context));
  stream->self_ = stream;
  stream->ticket_ = *std::move(ticket);
  stream->request_ = wire;
  edge.text_pool->Schedule(stream.get());
  return stream.get();
}

GenerateStream::GenerateStream(const Edge& edge, grpc::CallbackServerContext* context)
    : edge_(edge), call_(context->c_call()), context_(context) {
  record_.arrival = edge.clock();
  deadline_ = DeadlineNs(*context, record_.arrival);
}

void GenerateStream::OnWriteDone(bool ok) {
  if (!ok) {
    cancelled_.store(true, std::memory_order_release);
    requests_.CancelAll(engine::FinishReason::kCancelled);
  }
  write_pending_.store(false, std::memory_order_release);
  edge_.text_pool->Schedule(this);
}

void GenerateStream::OnCancel() {
  cancelled_.store(true, std::memory_order_release);
  requests_.CancelAll(engine::FinishReason::kCancelled);
  edge_.text_pool->Schedule(this);
}

void GenerateStream::OnDone() {
  {
    absl::MutexLock lock(&call_mutex_);
    call_ = nullptr;
  }
  stall_alarm_.Cancel();
  const std::shared_ptr<GenerateStream> last = std::move(self_);
  done_.store(true, std::memory_order_release);
  edge_.text_pool->Schedule(this);
}

void GenerateStream::Run() {
  if (phase_ == Phase::kArrived) {
    phase_ = Phase::kStreaming;
    if (absl::Status s = Begin(); !s.ok()) End(s);
  }
  if (phase_ == Phase::kStreaming) Continue();
  if (phase_ == Phase::kEnded) Report();
}

absl::Status GenerateStream::Begin() {
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus();
  if (edge_.clock() >= deadline_) return StatusOf(engine::FinishReason::kDeadline);
  absl::StatusOr<GeneratePlan> plan = PlanGenerate(request_, *context_, edge_, &record_);
  request_.Clear();
  ticket_.ReleaseBytes();
  if (!plan.ok()) return plan.status();
  return SubmitAll(*std::move(plan));
}

absl::Status GenerateStream::SubmitAll(GeneratePlan plan) {
  absl::StatusOr<std::unique_ptr<GenerateOutputs>> outputs = GenerateOutputs::Create(plan, edge_, this, &requests_);
  if (!outputs.ok()) return MakeError(Reason::kInternal, "the text of the output could not be set up");
  outputs_ = *std::move(outputs);
  engine::Request& request = plan.request.engine;
  request.arrival = record_.arrival;
  request.deadline = deadline_;
  for (size_t i = 0; i < outputs_->size(); ++i) {
    request.output_index = static_cast<int32_t>(i);
    // The sink is a share in this stream: the engine keeps it alive until it has heard OnFinish.
    std::shared_ptr<engine::OutputSink> sink(shared_from_this(), outputs_->queue(i));
    const absl::Status submitted = requests_.Submit(plan.model->engine.get(), request, std::move(sink));
    if (!submitted.ok()) return FromEngine(submitted, edge_.limits.retry_after_ms);
    outputs_->MarkSubmitted();
    request.sampling.prompt_logprobs = -1;  // the prompt is scored once, with output 0
  }
  context_->AddInitialMetadata(kRequestIdKey, record_.request_id);
  return absl::OkStatus();
}

void GenerateStream::Continue() {
  if (cancelled_.load(std::memory_order_acquire)) return End(CancelledStatus());
  if (const auto failure = outputs_->failure()) {
    record_.finish_reason = FinishReasonName(*failure);  // of whichever output it was; the others are only cancelled
    return End(StatusOf(*failure));
  }
  if (write_pending_.load(std::memory_order_acquire)) {
    if (outputs_->all_finished()) ArmStallAlarm();
    return;
  }
  v1::GenerateResponse response;
  if (!first_message_sent_) {
    *response.mutable_execution() = ToWire(*record_.profile);
    response.set_request_id(record_.request_id);
  }
  const absl::StatusOr<GenerateOutputs::Next> next = outputs_->Fill(&response);
  if (!next.ok()) return End(MakeError(Reason::kInternal, "the text of the output could not be made"));
  if (*next == GenerateOutputs::Next::kNothing && first_message_sent_) return;
  first_message_sent_ = true;
  Write(response, *next == GenerateOutputs::Next::kLastMessage);
}

void GenerateStream::Write(const v1::GenerateResponse& response, bool last) {
  write_buffer_ = SerializeWire(response);
  if (!last) {
    write_pending_.store(true, std::memory_order_relaxed);
    StartWrite(&write_buffer_);
    return;
  }
  phase_ = Phase::kEnded;
  ArmStallAlarm();
  StartWriteAndFinish(&write_buffer_, grpc::WriteOptions(), grpc::Status::OK);
}

void GenerateStream::End(const absl::Status& status) {
  phase_ = Phase::kEnded;
  record_.status = status;
  requests_.CancelAll(engine::FinishReason::kCancelled);
  if (outputs_ == nullptr || outputs_->num_submitted() == 0) record_.refusal_reason = ReasonName(status);
  if (!first_message_sent_ && !record_.request_id.empty()) {
    context_->AddTrailingMetadata(kRequestIdKey, record_.request_id);
  }
  AddStatusTrailers(status, context_);
  ArmStallAlarm();
  Finish(ToGrpcStatus(status));
}

void GenerateStream::Report() {
  if (outputs_ != nullptr && !outputs_->all_finished()) return;
  if (!reported_) {
    reported_ = true;
    record_.finished = edge_.clock();
    if (outputs_ != nullptr) outputs_->FillRecord(&record_);
    if (edge_.observer != nullptr) edge_.observer->OnFinished(record_);
  }
  if (done_.load(std::memory_order_acquire)) ticket_ = Admission::Ticket();
}

absl::Status GenerateStream::CancelledStatus() const {
  if (cut_off_.load(std::memory_order_acquire)) return StatusOf(engine::FinishReason::kSlowReader);
  return server::CancelledStatus(deadline_, edge_.clock());
}

void GenerateStream::ArmStallAlarm() {
  if (stall_alarm_armed_) return;
  stall_alarm_armed_ = true;
  const auto when = std::chrono::system_clock::now() + std::chrono::milliseconds(edge_.stalled_reader_ms);
  // Weak: the alarm keeps its function after it has run.
  stall_alarm_.Set(when, [weak = weak_from_this()](bool expired) {
    if (!expired) return;
    if (const auto task = weak.lock()) static_cast<GenerateStream*>(task.get())->CutOff();
  });
}

void GenerateStream::CutOff() {
  grpc_call* call = nullptr;
  {
    absl::MutexLock lock(&call_mutex_);
    if (call_ == nullptr) return;
    call = call_;
    grpc_call_ref(call);
  }
  cut_off_.store(true, std::memory_order_release);
  // Unlike Finish this does not wait behind the message that the client leaves unread.
  grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "the client reads too slowly", nullptr);
  grpc_call_unref(call);
}

}  // namespace dunlin::server
