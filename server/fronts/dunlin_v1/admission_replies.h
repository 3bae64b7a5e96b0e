// SPDX-License-Identifier: Apache-2.0
// What refused calls end with on the wire, made once: under overload a refusal then costs no more than its status (see
// server/serving/output_queue.h for what that is worth). Const after construction; any thread.
#pragma once

#include <array>

#include "server/access/admission.h"
#include "server/serving/serving_core.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

class AdmissionReplies {
 public:
  explicit AdmissionReplies(const ServingCore& core);
  const GrpcReply& operator[](AdmissionRefusal refusal) const { return replies_[static_cast<size_t>(refusal)]; }

 private:
  std::array<GrpcReply, kNumAdmissionRefusals> replies_;
};

}  // namespace dunlin::server
