// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/http_text_call.h"

#include <memory>
#include <utility>

#include "server/http_calls/caller.h"
#include "server/http_calls/http_status.h"
#include "server/serving/core/parse_share.h"

namespace dunlin::server {

HttpRoute HttpTextCall::Route(ServingCore* core, const char* path, const TextWork& work) {
  return CallRoute(*core, path, [core, work] { return std::make_shared<HttpTextCall>(core, work); });
}

void HttpTextCall::Serve(const ClientCall& call, Admission::Ticket ticket) {
  caller_ = call.principal;
  ticket_ = std::move(ticket);
  core()->text_pool()->Schedule(this);
}

// The exchange may end as soon as its last call is made; the pool keeps this object until Run returns.
void HttpTextCall::Run() {
  IgnoredNames ignored;
  ParseShare share;
  const absl::Status taken = share.TakeForJson(core(), body());
  absl::StatusOr<std::string> document =
      taken.ok() ? work_.document(*core(), caller_, body(), work_.strict ? nullptr : &ignored) : taken;
  DropBody();
  SetIgnored(std::move(ignored));
  ticket_.ReleaseBytes();
  const std::string request_id = EchoedRequestIdOf(exchange()->request());
  if (!document.ok()) return RespondWithError(document.status(), request_id);
  HttpReply reply = OkReply(kJsonText, request_id);
  reply.body = *std::move(document);
  exchange()->Respond(std::move(reply));
}

}  // namespace dunlin::server
