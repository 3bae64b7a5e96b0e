// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/http_generation.h"

#include "server/http_calls/caller.h"
#include "server/http_calls/http_status.h"

namespace dunlin::server {
namespace {

constexpr char kEventStream[] = "text/event-stream; charset=utf-8";
constexpr char kKeepAliveComment[] = ": keep-alive\n\n";

// X-Accel-Buffering: nginx passes events on as they come.
HttpReply EventsReply(const std::string& request_id, std::string events) {
  HttpReply reply = OkReply(kEventStream, request_id);
  reply.headers.push_back({"Cache-Control", "no-cache"});
  reply.headers.push_back({"X-Accel-Buffering", "no"});
  reply.body = std::move(events);
  return reply;
}

}  // namespace

HttpRoute HttpGeneration::Route(ServingCore* core, const char* path,
                                std::function<std::unique_ptr<RequestTranslator>()> new_translator) {
  return CallRoute(*core, path, [core, new_translator = std::move(new_translator)] {
    return std::make_shared<HttpGeneration>(core, new_translator());
  });
}

void HttpGeneration::Serve(const ClientCall& call, Admission::Ticket ticket) {
  generation_ = std::make_shared<Generation>(core(), std::move(ticket), call, shared_from_this());
  generation_->Start();
}

absl::Status HttpGeneration::ReadRequest(ClientRequest* request) {
  absl::Status status = translator_->Read(body(), request);
  DropBody();
  if (request->request_id.empty()) request->request_id = RequestIdOf(exchange()->request());
  return status;
}

void HttpGeneration::Write(const OutputChunk& chunk) {
  std::string events;
  translator_->OnChunk(chunk, &events);
  if (translator_->streams() && !begun_) {
    begun_ = true;
    return exchange()->Begin(EventsReply(chunk.request_id, std::move(events)), kKeepAliveComment);
  }
  if (events.empty()) return generation_->OnWriteDone(true);
  exchange()->Write(std::move(events));
}

// The exchange may end, and this object with it, as soon as its last call is made.
void HttpGeneration::Finish(const ResponseEnd& end, const OutputChunk* last) {
  if (!end.status.ok() && !begun_) return RespondWithError(end.status, end.request_id);
  std::string rest;
  translator_->OnEnd(end, last, &rest);
  if (begun_) return exchange()->End(std::move(rest));
  if (translator_->streams()) return exchange()->Respond(EventsReply(end.request_id, std::move(rest)));
  HttpReply reply = OkReply(kJsonText, end.request_id);
  reply.body = std::move(rest);
  exchange()->Respond(std::move(reply));
}

}  // namespace dunlin::server
