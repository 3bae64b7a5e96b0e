// SPDX-License-Identifier: Apache-2.0
// How a gRPC call begins, whatever its service: key, admission, quota, deadline, trace. Nothing of its message is read.
// One per service, const after construction. Thread rule: any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <cstddef>
#include <variant>

#include "server/access/admission.h"
#include "server/grpc_calls/admission_replies.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_request.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

struct AdmittedCall {
  Admission::Ticket ticket;
  ClientCall client;
};

// Why a call was refused: one of the prebuilt replies, or a reply of its own.
class CallRefusal {
 public:
  explicit CallRefusal(const GrpcReply* prebuilt) : prebuilt_(prebuilt) {}
  explicit CallRefusal(GrpcReply own) : own_(std::move(own)) {}
  const GrpcReply& reply() const { return prebuilt_ == nullptr ? own_ : *prebuilt_; }

 private:
  const GrpcReply* prebuilt_ = nullptr;
  GrpcReply own_;
};

class CallAdmission {
 public:
  // What a call is for: refused generations and embeddings are told to the observer, refused text calls are not.
  enum class Kind : uint8_t { kInference, kText };

  // core outlives this object.
  explicit CallAdmission(ServingCore* core) : core_(core), replies_(*core) {}

  // method: "/package.Service/Method", as the endpoint table names it. message_bytes: of the unread message.
  std::variant<AdmittedCall, CallRefusal> Admit(const char* method, const grpc::CallbackServerContext& context,
                                                size_t message_bytes, Kind kind) const;
  // The same for a further request of a call whose key is already known: one message of a stream.
  std::variant<AdmittedCall, CallRefusal> Admit(Principal caller, const grpc::CallbackServerContext& context,
                                                size_t message_bytes, Kind kind) const;

  ServingCore* core() const { return core_; }

 private:
  ServingCore* const core_;
  const AdmissionReplies replies_;
};

}  // namespace dunlin::server
