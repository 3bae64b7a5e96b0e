// SPDX-License-Identifier: Apache-2.0
// The gRPC replies to refused calls, prebuilt, so that a refusal under overload costs no more than sending its status
// (the gain: server/serving/output/output_queue.h). Const after construction; any thread.
#pragma once

#include <array>

#include "server/access/admission.h"
#include "server/serving/core/serving_core.h"
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
