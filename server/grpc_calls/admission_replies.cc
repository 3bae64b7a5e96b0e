// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/admission_replies.h"

namespace dunlin::server {

AdmissionReplies::AdmissionReplies(const ServingCore& core) {
  for (size_t i = 0; i < kNumAdmissionRefusals; ++i) {
    replies_[i] = ToGrpcReply(core.StatusOf(static_cast<AdmissionRefusal>(i)));
  }
}

}  // namespace dunlin::server
