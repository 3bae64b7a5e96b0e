// SPDX-License-Identifier: Apache-2.0
// What the calls of all routes with a body do alike: admission, and the exchange. A call takes one of its caller's
// quota before its body is read, bytes as they come, and one of the requests in flight once the body is there, so that
// a client that sends nothing keeps nobody out. The calls of HttpHandler come on the HTTP thread. Ownership: shared by
// the connection (until OnDone) and the serving core.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/access/admission.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_request.h"
#include "server/transport/http/http_exchange.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

// POST `path`; its body is bounded by limits.max_http_body_bytes. core outlives the route.
HttpRoute CallRoute(const ServingCore& core, const char* path, std::function<std::shared_ptr<HttpHandler>()> open);

class HttpCall : public HttpHandler {
 public:
  // core outlives the call.
  explicit HttpCall(ServingCore* core) : core_(core) {}

  std::optional<HttpReply> Admit(const HttpRequest& request, size_t body_bytes) override;
  std::optional<HttpReply> OnBodyBytes(size_t bytes) override;
  void Start(std::shared_ptr<HttpExchange> exchange, std::string body) override;
  void AddHeaders(HttpReply* reply) const override;

 protected:
  // The body of a refusal, or of another error.
  virtual std::string ErrorBody(const absl::Status& status) = 0;
  // Refusals are reported to the core's observer.
  virtual bool has_record() const { return true; }
  // The request is complete.
  virtual void Serve(const ClientCall& call, Admission::Ticket ticket) = 0;

  ServingCore* core() const { return core_; }
  // From Serve on. May be called as long as this object lives.
  HttpExchange* exchange() const { return exchange_.get(); }
  // From Serve on; until it is parsed.
  const std::string& body() const { return body_; }
  void DropBody() { std::string().swap(body_); }
  // What of the request had no effect: every response from now on names it in x-dunlin-ignored; the core's observer is
  // told. Before the response begins.
  void SetIgnored(IgnoredNames names);
  void RespondWithError(const absl::Status& status, const std::string& request_id);

 private:
  // The status of a refusal by admission, counted and reported.
  absl::Status Refused(AdmissionRefusal refusal);
  // The reply to a call that is refused before its body is there.
  HttpReply ReplyTo(const absl::Status& refused);
  // Takes one of the requests in flight. Errors: UNAVAILABLE, RESOURCE_EXHAUSTED.
  absl::Status TakePlace();

  ServingCore* const core_;
  Admission::Ticket ticket_;                // from Admit to Start
  std::shared_ptr<Quota> quota_;            // of the caller, const from Admit on; null: no limits
  std::string echoed_id_;                   // for refusals; from Admit on
  std::shared_ptr<HttpExchange> exchange_;  // const from Start on
  std::string body_;
  IgnoredNames ignored_;  // const once the response begins
};

}  // namespace dunlin::server
