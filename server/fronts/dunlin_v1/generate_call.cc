// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/generate_call.h"

#include <utility>
#include <variant>

#include "server/fronts/dunlin_v1/generate_messages.h"
#include "server/fronts/dunlin_v1/refused_call.h"
#include "server/serving/key_limits.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/overload_scheduling.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateCall::Start(ServingCore* core, const AdmissionReplies& replies,
                                                                grpc::CallbackServerContext* context,
                                                                const grpc::ByteBuffer& message) {
  const size_t message_bytes = message.Length();
  absl::StatusOr<Principal> caller = CallerOf(core->access(), "/dunlin.v1.GenerationService/Generate", *context);
  if (!caller.ok()) return RefusedCall::Start(core, context, ToGrpcReply(caller.status()));
  std::variant<Admission::Ticket, AdmissionRefusal> answer = core->TryAdmit(message_bytes);
  const engine::TimeNs now = core->now();
  UseBatchSchedulingWhenOverloaded(*core->overload(), now);
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) {
    core->ReportRefused(*refusal, now);
    return RefusedCall::Start(core, context, replies[*refusal]);
  }
  auto ticket = std::get<Admission::Ticket>(std::move(answer));
  if (absl::Status refused = BeginQuota(*core, *caller, &ticket); !refused.ok()) {
    core->ReportRefused(refused, now);
    return RefusedCall::Start(core, context, ToGrpcReply(refused));
  }
  std::shared_ptr<GenerateCall> call(new GenerateCall(core, context, message));
  const ClientCall client = {*std::move(caller), now, DeadlineNs(*context, now), message_bytes,
                             TraceOf(*core, *context)};
  call->self_ = call;
  call->generation_ = std::make_shared<Generation>(core, std::move(ticket), client, call);
  call->generation_->Start();
  return call.get();
}

void GenerateCall::OnDone() {
  UseBatchSchedulingWhenOverloaded(*core_->overload(), core_->now());
  {
    absl::MutexLock lock(&call_mutex_);
    call_ = nullptr;
  }
  const std::shared_ptr<GenerateCall> last = std::move(self_);
  std::exchange(generation_, nullptr)->OnClosed();
}

absl::Status GenerateCall::ReadRequest(ClientRequest* request) {
  v1::GenerateRequest message;
  absl::Status parsed = ParseWire(message_, &message);
  message_.Clear();
  if (!parsed.ok()) return parsed;
  absl::Status status = GenerateRequestFromWire(&message, request);
  if (request->request_id.empty()) request->request_id = RequestIdOf(*context_);
  return status;
}

void GenerateCall::Serialize(const OutputChunk& chunk) {
  if (!std::exchange(first_written_, true)) context_->AddInitialMetadata(kRequestIdKey, chunk.request_id);
  ChunkToWire(chunk, &response_);
  write_buffer_ = SerializeWire(response_);
}

void GenerateCall::Write(const OutputChunk& chunk) {
  Serialize(chunk);
  StartWrite(&write_buffer_);
}

void GenerateCall::Finish(const ResponseEnd& end, const OutputChunk* last) {
  if (last != nullptr) {
    Serialize(*last);
    return StartWriteAndFinish(&write_buffer_, grpc::WriteOptions(), grpc::Status::OK);
  }
  if (!first_written_ && !end.request_id.empty()) context_->AddTrailingMetadata(kRequestIdKey, end.request_id);
  const GrpcReply reply = ToGrpcReply(end.status);
  AddTrailers(reply, context_);
  ServerWriteReactor::Finish(reply.status);
}

void GenerateCall::CutOff() {
  grpc_call* call = nullptr;
  {
    absl::MutexLock lock(&call_mutex_);
    if (call_ == nullptr) return;
    call = call_;
    grpc_call_ref(call);
  }
  // Unlike Finish, this does not queue behind the message that the client does not read.
  grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "the client reads too slowly", nullptr);
  grpc_call_unref(call);
}

}  // namespace dunlin::server
