// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/generation_call.h"

#include <utility>

#include "server/serving/core/parse_share.h"
#include "server/serving/resolve/check_request.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/overload_scheduling.h"

namespace dunlin::server {

GenerationCall::GenerationCall(const GenerationMethod& method, grpc::CallbackServerContext* context,
                               const grpc::ByteBuffer& message)
    : method_(method),
      core_(method.admission->core()),
      context_(context),
      call_(context->c_call(), core_->limits()),
      message_(message),
      translator_(method.make_translator()) {}

void GenerationCall::Begin(AdmittedCall admitted, std::shared_ptr<GenerationCall> self) {
  if (method_.running != nullptr) caller_ = admitted.client.principal;
  self_ = std::move(self);
  generation_ = std::make_shared<Generation>(core_, std::move(admitted.ticket), admitted.client, self_);
  generation_->Start();
}

void GenerationCall::Close() {
  UseBatchSchedulingWhenOverloaded(*core_->overload(), core_->now());
  call_.OnDone();
  if (!running_id_.empty()) method_.running->Remove(running_id_, generation_.get());
  const std::shared_ptr<GenerationCall> last = std::move(self_);
  std::exchange(generation_, nullptr)->OnClosed();
}

absl::Status GenerationCall::ReadRequest(ClientRequest* request) {
  ParseShare share;
  absl::Status status = share.TakeForMessage(core_, message_.Length());
  if (status.ok()) status = translator_->Read(message_, request);
  message_.Clear();
  if (request->request_id.empty()) request->request_id = RequestIdOf(*context_);
  const std::string& id = request->request_id;
  if (method_.running != nullptr && !id.empty() && !CheckRequestId(id).has_value()) {
    running_id_ = id;
    method_.running->Add(id, caller_, generation_);
  }
  return status;
}

void GenerationCall::AnnounceRequestId(const std::string& request_id) {
  context_->AddInitialMetadata(kRequestIdKey, request_id);
}

grpc::Status GenerationCall::FailureOf(const ResponseEnd& end, bool announced) {
  if (!announced && !end.request_id.empty()) context_->AddTrailingMetadata(kRequestIdKey, end.request_id);
  GrpcReply reply = ToGrpcReply(end.status);
  AddTrailers(reply, context_);
  return std::move(reply.status);
}

}  // namespace dunlin::server
