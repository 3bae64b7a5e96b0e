// What a call hears that is refused at the door, made once: a server that is flooded has better things to do than to
// make it again for each. Const after construction; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <array>
#include <optional>
#include <string>

#include "server/admission.h"
#include "server/request_record.h"

namespace dunlin::server {

struct DoorAnswer {
  RequestRecord record;  // but its times
  grpc::Status status;
  std::optional<std::string> retry_pushback_ms;
};

class DoorAnswers {
 public:
  explicit DoorAnswers(const Admission& admission);
  const DoorAnswer& operator[](DoorRefusal refusal) const { return answers_[static_cast<size_t>(refusal)]; }

 private:
  std::array<DoorAnswer, kNumDoorRefusals> answers_;
};

}  // namespace dunlin::server
