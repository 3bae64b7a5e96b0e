// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/http_embedding.h"

#include "server/http_calls/caller.h"
#include "server/http_calls/http_status.h"
#include "server/serving/core/parse_share.h"

namespace dunlin::server {

HttpRoute HttpEmbedding::Route(ServingCore* core, const char* path,
                               std::function<std::unique_ptr<EmbedTranslator>()> new_translator) {
  return CallRoute(*core, path, [core, new_translator = std::move(new_translator)] {
    return std::make_shared<HttpEmbedding>(core, new_translator());
  });
}

void HttpEmbedding::Serve(const ClientCall& call, Admission::Ticket ticket) {
  job_ = std::make_shared<EmbedJob>(core(), std::move(ticket), call, shared_from_this());
  job_->Start();
}

absl::Status HttpEmbedding::ReadRequest(ClientEmbedRequest* request) {
  ParseShare share;
  absl::Status status = share.TakeForJson(core(), body());
  if (status.ok()) status = translator_->Read(body(), request);
  DropBody();
  SetIgnored(std::exchange(request->ignored, {}));
  if (request->request_id.empty()) request->request_id = RequestIdOf(exchange()->request());
  return status;
}

// The exchange may end, and this object with it, as soon as its last call is made.
void HttpEmbedding::Finish(const ResponseEnd& end, const EmbedResult* result) {
  if (!end.status.ok()) return RespondWithError(end.status, end.request_id);
  HttpReply reply = OkReply(kJsonText, end.request_id);
  reply.body = result == nullptr ? translator_->LoadedDocument() : translator_->Document(*result);
  exchange()->Respond(std::move(reply));
}

}  // namespace dunlin::server
