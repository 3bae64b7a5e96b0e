// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/call_admission.h"

#include <utility>

#include "absl/status/statusor.h"
#include "server/serving/resolve/key_limits.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/overload_scheduling.h"

namespace dunlin::server {

std::variant<AdmittedCall, CallRefusal> CallAdmission::Admit(const char* method,
                                                             const grpc::CallbackServerContext& context,
                                                             size_t message_bytes, Kind kind) const {
  absl::StatusOr<Principal> caller = CallerOf(*core_, method, context);
  if (!caller.ok()) return CallRefusal(ToGrpcReply(caller.status()));
  return Admit(*std::move(caller), context, message_bytes, kind);
}

std::variant<AdmittedCall, CallRefusal> CallAdmission::Admit(Principal caller,
                                                             const grpc::CallbackServerContext& context,
                                                             size_t message_bytes, Kind kind) const {
  std::variant<Admission::Ticket, AdmissionRefusal> answer = core_->TryAdmit(caller.payer(), message_bytes);
  const engine::TimeNs now = core_->now();
  UseBatchSchedulingWhenOverloaded(*core_->overload(), now);
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) {
    if (kind == Kind::kInference) core_->ReportRefused(*refusal, now);
    return CallRefusal(&replies_[*refusal]);
  }
  auto ticket = std::get<Admission::Ticket>(std::move(answer));
  if (absl::Status refused = BeginRequest(*core_, caller, &ticket); !refused.ok()) {
    if (kind == Kind::kInference) core_->ReportRefused(refused, now);
    return CallRefusal(ToGrpcReply(refused));
  }
  return AdmittedCall{std::move(ticket), ClientCall{std::move(caller), now, DeadlineNs(context, now), message_bytes,
                                                    TraceOf(*core_, context)}};
}

}  // namespace dunlin::server
