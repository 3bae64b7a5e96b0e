#include "server/grpc/door_answers.h"

#include "server/convert/errors.h"
#include "server/grpc/grpc_status.h"

namespace dunlin::server {

DoorAnswers::DoorAnswers(const Admission& admission) {
  for (size_t i = 0; i < kNumDoorRefusals; ++i) {
    const absl::Status& status = admission.StatusOf(static_cast<DoorRefusal>(i));
    DoorAnswer& answer = answers_[i];
    answer.record.status = status;
    answer.record.refusal_reason = ReasonName(status);
    answer.status = ToGrpcStatus(status);
    answer.retry_pushback_ms = RetryPushbackMs(status);
  }
}

}  // namespace dunlin::server
