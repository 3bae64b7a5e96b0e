#include "server/grpc/generate_stream.h"

#include <utility>
#include <variant>

#include "server/convert/errors.h"
#include "server/convert/execution.h"
#include "server/convert/finish.h"
#include "server/grpc/call_metadata.h"
#include "server/grpc/generate_plan.h"
#include "server/grpc/give_way.h"
#include "server/grpc/grpc_status.h"
#include "server/grpc/refused_call.h"
#include "server/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

// What may be worked off at once on the thread of gRPC or of the engine. 256 bytes are some 60 words or 100 token ids.
constexpr size_t kBriefMessageBytes = 256;
constexpr size_t kBriefQueueBytes = size_t{64} << 10;  // memory to clear
// A prompt that one step computes: its first token comes soon, and brings the first message along.
constexpr size_t kShortPromptTokens = 256;

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateStream::Start(const Edge& edge,
                                                                  grpc::CallbackServerContext* context,
                                                                  const grpc::ByteBuffer& wire) {
  std::variant<Admission::Ticket, DoorRefusal> answer = edge.admission->Knock(wire.Length());
  if (const auto* refusal = std::get_if<DoorRefusal>(&answer)) return RefusedCall::Start(edge, context, *refusal);
  std::shared_ptr<GenerateStream> stream(new GenerateStream(edge, context));
  stream->self_ = stream;
  stream->ticket_ = std::get<Admission::Ticket>(std::move(answer));
  stream->request_ = wire;
  if (wire.Length() <= kBriefMessageBytes) {
    edge.text_pool->RunHere(stream.get());
  } else {
    edge.text_pool->Schedule(stream.get());
  }
  return stream.get();
}

GenerateStream::GenerateStream(const Edge& edge, grpc::CallbackServerContext* context)
    : edge_(edge), call_(context->c_call()), context_(context) {
  record_.arrival = edge.clock();
  GiveWayUnder(*edge.pressure, record_.arrival);
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
  GiveWayUnder(*edge_.pressure, edge_.clock());
  {
    absl::MutexLock lock(&call_mutex_);
    call_ = nullptr;
  }
  edge_.stall_watch->Forget(this);
  const std::shared_ptr<GenerateStream> last = std::move(self_);
  done_.store(true, std::memory_order_release);
  edge_.text_pool->Schedule(this);
}

void GenerateStream::Run() {
  Advance(false);
  if (phase_ == Phase::kEnded) Report();
}

// Reports nothing, as a log line may wait for its reader: the run that OnDone schedules does, and the pool where the
// call has ended before the engine is done.
void GenerateStream::RunBriefly() {
  if (phase_ == Phase::kEnded) return edge_.text_pool->Schedule(this);
  Advance(true);
}

void GenerateStream::Advance(bool briefly) {
  if (phase_ == Phase::kArrived) {
    phase_ = Phase::kPlanned;
    if (absl::Status s = Plan(); !s.ok()) return End(s);
  }
  if (phase_ == Phase::kPlanned) {
    if (briefly && GenerateOutputs::QueueBytes(*plan_, edge_.limits) > kBriefQueueBytes) {
      return edge_.text_pool->Schedule(this);
    }
    phase_ = Phase::kStreaming;
    if (absl::Status s = Submit(); !s.ok()) return End(s);
  }
  if (phase_ == Phase::kStreaming) Continue();
}

absl::Status GenerateStream::Plan() {
  if (cancelled_.load(std::memory_order_acquire)) return CancelledStatus();
  if (edge_.clock() >= deadline_) return StatusOf(engine::FinishReason::kDeadline);
  absl::StatusOr<GeneratePlan> plan = PlanGenerate(request_, *context_, edge_, &record_);
  request_.Clear();
  ticket_.ReleaseBytes();
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

absl::Status GenerateStream::Submit() {
  GeneratePlan plan = *std::exchange(plan_, std::nullopt);
  engine::Request& request = plan.request.engine;
  request.arrival = record_.arrival;
  request.deadline = deadline_;
  outputs_ = std::make_unique<GenerateOutputs>(plan, edge_, this, &requests_);
  first_message_waits_ = request.prompt.size() <= kShortPromptTokens && plan.model->engine->stats().idle;
  for (size_t i = 0; i < outputs_->size(); ++i) {
    request.output_index = static_cast<int32_t>(i);
    // The sink is a share in this stream: the engine keeps it alive until it has heard OnFinish.
    std::shared_ptr<engine::OutputSink> sink(shared_from_this(), outputs_->queue(i));
    const absl::Status submitted = requests_.Submit(plan.model->engine.get(), request, std::move(sink));
    if (absl::IsResourceExhausted(submitted)) edge_.pressure->OnRefusal(edge_.clock());
    if (!submitted.ok()) return FromEngine(submitted, edge_.limits.retry_after_ms);
    outputs_->MarkSubmitted();
    request.sampling.prompt_logprobs = -1;  // the prompt is scored once, with output 0
  }
  if (!outputs_->SetUpTexts(plan.output_text).ok()) {
    return MakeError(Reason::kInternal, "the text of the output could not be set up");
  }
  context_->AddInitialMetadata(kRequestIdKey, record_.request_id);
  *response_.mutable_execution() = ToWire(*record_.profile);
  response_.set_request_id(record_.request_id);
  return absl::OkStatus();
}

void GenerateStream::Continue() {
  if (cancelled_.load(std::memory_order_acquire)) return End(CancelledStatus());
  if (const auto failure = outputs_->failure()) {
    record_.finish_reason = FinishReasonName(*failure);  // of whichever output it was; the others are only cancelled
    return End(StatusOf(*failure));
  }
  if (write_pending_.load(std::memory_order_acquire)) {
    if (outputs_->all_finished()) WatchForStall();
    return;
  }
  if (!first_message_sent_ && first_message_waits_ && outputs_->empty()) return;
  const absl::StatusOr<GenerateOutputs::Next> next = outputs_->Fill(&response_);
  if (!next.ok()) return End(MakeError(Reason::kInternal, "the text of the output could not be made"));
  if (*next == GenerateOutputs::Next::kNothing && first_message_sent_) return;
  first_message_sent_ = true;
  Write(*next == GenerateOutputs::Next::kLastMessage);
}

void GenerateStream::Write(bool last) {
  write_buffer_ = SerializeWire(response_);
  if (!last) {
    response_.Clear();
    write_pending_.store(true, std::memory_order_relaxed);
    StartWrite(&write_buffer_);
    return;
  }
  phase_ = Phase::kEnded;
  WatchForStall();
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
  WatchForStall();
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

void GenerateStream::WatchForStall() {
  if (watched_) return;
  watched_ = true;
  edge_.stall_watch->Watch(std::shared_ptr<StallWatch::Call>(shared_from_this(), this), edge_.clock());
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
