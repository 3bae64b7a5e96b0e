// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/admission_replies.h"

namespace dunlin::server {

AdmissionReplies::AdmissionReplies(const ServingCore& core) {
  for (size_t i = 0; i < kNumAdmissionRefusals; ++i) {
    replies_[i] = ToGrpcReply(core.StatusOf(static_cast<AdmissionRefusal>(i)));
  }
}

}  // namespace dunlin::server
