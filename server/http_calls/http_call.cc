// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/http_call.h"

#include <utility>
#include <variant>

#include "server/http_calls/caller.h"
#include "server/http_calls/http_status.h"
#include "server/http_calls/trace_headers.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server {

HttpRoute CallRoute(const ServingCore& core, const char* path, std::function<std::shared_ptr<HttpHandler>()> open) {
  HttpRoute route{"POST", path};
  route.open = std::move(open);
  route.max_body_bytes = static_cast<size_t>(core.limits().max_http_body_bytes);
  route.max_body_key = "limits.max_http_body_bytes";
  route.cors = true;
  return route;
}

std::optional<HttpReply> HttpCall::Admit(const HttpRequest& request, size_t body_bytes) {
  echoed_id_ = EchoedRequestIdOf(request);
  std::variant<Admission::Ticket, AdmissionRefusal> answer = core_->TryReceive(request.caller.payer(), body_bytes);
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) {
    if (has_record()) core_->ReportRefused(*refusal, core_->now());
    return ReplyTo(core_->StatusOf(*refusal));
  }
  ticket_ = std::get<Admission::Ticket>(std::move(answer));
  quota_ = request.caller.quota;
  const absl::Status refused = BeginQuota(*core_, request.caller, &ticket_);
  if (refused.ok()) return std::nullopt;
  if (has_record()) core_->ReportRefused(refused, core_->now());
  return ReplyTo(refused);
}

std::optional<HttpReply> HttpCall::OnBodyBytes(size_t bytes) {
  const std::optional<AdmissionRefusal> refusal = ticket_.TakeBytes(bytes);
  if (!refusal.has_value()) return std::nullopt;
  return ReplyTo(Refused(*refusal));
}

absl::Status HttpCall::Refused(AdmissionRefusal refusal) {
  core_->CountRefusal(refusal);
  if (has_record()) core_->ReportRefused(refusal, core_->now());
  return core_->StatusOf(refusal);
}

HttpReply HttpCall::ReplyTo(const absl::Status& refused) {
  HttpReply reply = ErrorReply(refused, ErrorBody(refused), echoed_id_);
  AddHeaders(&reply);
  return reply;
}

absl::Status HttpCall::TakePlace() {
  if (const std::optional<AdmissionRefusal> refusal = ticket_.TakePlace()) return Refused(*refusal);
  absl::Status refused = TakeShare(*core_, exchange_->request().caller, &ticket_);
  if (!refused.ok() && has_record()) core_->ReportRefused(refused, core_->now());
  return refused;
}

void HttpCall::AddHeaders(HttpReply* reply) const {
  if (quota_ != nullptr) AppendQuotaHeaders(quota_->Levels(core_->now()), reply);
  if (!ignored_.empty()) reply->headers.push_back({kIgnoredHeader, ignored_.List()});
}

// A route that names what it ignores has no parameter: its path is that of the request.
void HttpCall::SetIgnored(IgnoredNames names) {
  ignored_ = std::move(names);
  if (ignored_.empty() || core_->observer() == nullptr) return;
  core_->observer()->OnIgnored(exchange_->request().path, ignored_);
}

void HttpCall::Start(std::shared_ptr<HttpExchange> exchange, std::string body) {
  exchange_ = std::move(exchange);
  if (const absl::Status refused = TakePlace(); !refused.ok()) {
    ticket_ = Admission::Ticket();
    return RespondWithError(refused, echoed_id_);
  }
  body_ = std::move(body);
  const ClientCall call = {exchange_->request().caller, core_->now(), engine::kNoDeadline, body_.size(),
                           TraceOf(*core_, exchange_->request())};
  Serve(call, std::move(ticket_));
}

void HttpCall::RespondWithError(const absl::Status& status, const std::string& request_id) {
  exchange_->Respond(ErrorReply(status, ErrorBody(status), request_id));
}

}  // namespace dunlin::server
