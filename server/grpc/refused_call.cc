#include "server/grpc/refused_call.h"

#include "server/convert/errors.h"
#include "server/grpc/grpc_status.h"
#include "server/request_record.h"

namespace dunlin::server {

RefusedCall* RefusedCall::Start(const Edge& edge, grpc::CallbackServerContext* context, const absl::Status& refusal) {
  if (edge.observer != nullptr) {
    RequestRecord record;
    record.arrival = record.finished = edge.clock();
    record.status = refusal;
    record.refusal_reason = ReasonName(refusal);
    edge.observer->OnFinished(record);
  }
  AddStatusTrailers(refusal, context);
  auto* call = new RefusedCall;
  call->Finish(ToGrpcStatus(refusal));
  return call;
}

}  // namespace dunlin::server
