#include "server/grpc/refused_call.h"

#include "absl/status/status.h"
#include "server/grpc/give_way.h"
#include "server/grpc/grpc_status.h"
#include "server/request_record.h"

namespace dunlin::server {

RefusedCall* RefusedCall::Start(const Edge& edge, grpc::CallbackServerContext* context, DoorRefusal refusal) {
  const DoorAnswer& answer = (*edge.door_answers)[refusal];
  const engine::TimeNs now = edge.clock();
  if (absl::IsResourceExhausted(answer.record.status)) edge.pressure->OnRefusal(now);
  GiveWayUnder(*edge.pressure, now);
  if (edge.observer != nullptr) {
    RequestRecord record = answer.record;
    record.arrival = record.finished = now;
    edge.observer->OnFinished(record);
  }
  if (answer.retry_pushback_ms.has_value()) context->AddTrailingMetadata(kRetryPushbackKey, *answer.retry_pushback_ms);
  auto* call = new RefusedCall(edge);
  call->Finish(answer.status);
  return call;
}

// Another thread of gRPC's than Start's.
void RefusedCall::OnDone() {
  GiveWayUnder(*edge_.pressure, edge_.clock());
  delete this;
}

}  // namespace dunlin::server
