// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/http_generation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/http_calls/caller.h"
#include "server/http_calls/http_status.h"
#include "server/serving/core/parse_share.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/entropy.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server {
namespace {

size_t BytesOf(const ClientPrompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return text->size();
  const auto* ids = std::get_if<std::vector<engine::TokenId>>(&prompt);
  return ids == nullptr ? 0 : ids->size() * sizeof(engine::TokenId);
}

}  // namespace

HttpRoute HttpGeneration::Route(ServingCore* core, const char* path,
                                std::function<std::unique_ptr<RequestTranslator>()> new_translator) {
  return CallRoute(*core, path, [core, new_translator = std::move(new_translator)] {
    return std::make_shared<HttpGeneration>(core, new_translator());
  });
}

void HttpGeneration::Serve(const ClientCall& call, Admission::Ticket ticket) {
  call_ = call;
  AddPart(ClientPrompt(), std::move(ticket))->Start();
}

std::shared_ptr<Generation> HttpGeneration::AddPart(ClientPrompt further, Admission::Ticket ticket) {
  absl::MutexLock lock(&mutex_);
  if (cancelled_) return nullptr;
  Part* part = parts_.emplace_back(std::make_unique<Part>(this, parts_.size())).get();
  part->further_ = std::move(further);
  std::shared_ptr<ResponseWriter> writer(shared_from_this(), part);
  part->generation_ = std::make_shared<Generation>(core(), std::move(ticket), call_, std::move(writer));
  ++num_unfinished_;
  return part->generation_;
}

absl::Status HttpGeneration::Part::ReadRequest(ClientRequest* request) {
  if (prompt_ == 0) return call_->ReadFirst(request);
  *request = call_->shared_request_;
  request->prompt = std::move(further_);
  return absl::OkStatus();
}

absl::Status HttpGeneration::ReadFirst(ClientRequest* request) {
  ParseShare share;
  absl::Status status = share.TakeForJson(core(), body());
  if (status.ok()) status = translator_->Read(body(), request);
  DropBody();
  SetIgnored(std::exchange(request->ignored, {}));
  if (request->request_id.empty()) request->request_id = RequestIdOf(exchange()->request());
  request->stopping.clamp_max_tokens = true;  // clients of HTTP APIs ask for tens of thousands whatever the model has
  if (!status.ok()) return status;
  num_outputs_ = request->num_outputs;
  std::vector<ClientPrompt> further = translator_->TakeFurtherPrompts();
  return further.empty() ? status : StartFurther(std::move(further), request);
}

// All tickets come first, so that a request that does not fit starts nothing.
absl::Status HttpGeneration::StartFurther(std::vector<ClientPrompt> prompts, ClientRequest* first) {
  const auto limit = static_cast<size_t>(core()->limits().max_concurrent_requests);
  if (prompts.size() >= limit) {
    return InvalidField(
        engine::Violation::Of(ClientField::kPrompt, absl::StrCat("has ", prompts.size() + 1, " prompts"),
                              absl::StrCat(limit, " (limits.max_concurrent_requests)")),
        *first->field_names);
  }
  if (first->request_id.empty()) first->request_id = DrawRequestId();  // of all parts
  std::vector<Admission::Ticket> tickets;
  for (const ClientPrompt& prompt : prompts) {
    std::variant<Admission::Ticket, AdmissionRefusal> answer =
        core()->TryAdmit(call_.principal.payer(), BytesOf(prompt));
    if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) return core()->StatusOf(*refusal);
    tickets.push_back(std::get<Admission::Ticket>(std::move(answer)));
    if (absl::Status refused = BeginRequest(*core(), call_.principal, &tickets.back()); !refused.ok()) return refused;
  }
  ClientPrompt prompt = std::exchange(first->prompt, {});
  shared_request_ = *first;
  first->prompt = std::move(prompt);
  Generations generations;
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::shared_ptr<Generation> generation = AddPart(std::move(prompts[i]), std::move(tickets[i]));
    if (generation == nullptr) break;  // the client is gone: those that exist are cancelled
    generations.push_back(std::move(generation));
  }
  for (const std::shared_ptr<Generation>& generation : generations) generation->StartOnPool();
  return absl::OkStatus();
}

HttpReply HttpGeneration::ReplyOf(const std::string& request_id, std::string body) const {
  HttpReply reply = OkReply(translator_->streams() ? translator_->stream_form().content_type : kJsonText, request_id);
  if (clamped_max_tokens_.has_value()) reply.headers.push_back({kMaxTokensHeader, absl::StrCat(*clamped_max_tokens_)});
  if (translator_->streams()) {
    reply.headers.push_back({"Cache-Control", "no-cache"});
    reply.headers.push_back({"X-Accel-Buffering", "no"});  // nginx passes events on as they come
  }
  reply.body = std::move(body);
  return reply;
}

void HttpGeneration::Render(const Part& part, const OutputChunk& chunk) {
  if (chunk.clamped_max_tokens.has_value()) {
    clamped_max_tokens_ = std::min(*chunk.clamped_max_tokens, clamped_max_tokens_.value_or(INT32_MAX));
  }
  if (part.prompt_ == 0) return translator_->OnChunk(chunk, &pending_);
  OutputChunk counted = chunk;
  counted.index += static_cast<int32_t>(part.prompt_) * num_outputs_;
  translator_->OnChunk(counted, &pending_);
}

void HttpGeneration::SendPending(const std::string& request_id) {
  writing_ = true;
  for (const std::unique_ptr<Part>& part : parts_) {
    if (part->state_ == PartState::kPending) part->state_ = PartState::kInFlight;
  }
  std::string events = std::exchange(pending_, std::string());
  if (std::exchange(begun_, true)) return exchange()->Write(std::move(events));
  exchange()->Begin(ReplyOf(request_id, std::move(events)), translator_->stream_form().idle_text);
}

// The first chunk begins the stream even if it has no events.
bool HttpGeneration::RenderAndSend(Part* part, const OutputChunk* chunk, const std::string& request_id) {
  if (!failure_.ok()) return false;
  if (chunk != nullptr) Render(*part, *chunk);
  if (!translator_->streams() || (begun_ && pending_.empty())) return false;
  part->state_ = PartState::kPending;
  if (!writing_) SendPending(request_id);
  return true;
}

void HttpGeneration::WritePart(Part* part, const OutputChunk& chunk) {
  std::shared_ptr<Generation> taken;  // its chunk needs no write
  {
    absl::MutexLock lock(&mutex_);
    if (!RenderAndSend(part, &chunk, chunk.request_id)) taken = part->generation_;
  }
  if (taken != nullptr) taken->OnWriteDone(true);
}

void HttpGeneration::FinishPart(Part* part, const ResponseEnd& end, const OutputChunk* last) {
  const std::shared_ptr<HttpGeneration> self = shared_from_this();  // OnDone may come before the lock is released
  Generations cancelled;
  std::shared_ptr<Generation> closed;
  {
    absl::MutexLock lock(&mutex_);
    part->finished_ = true;
    const bool fails = !end.status.ok() && failure_.ok();
    if (fails) failure_ = end.status;
    if (--num_unfinished_ == 0) return EndResponse(*part, end, last);
    if (!RenderAndSend(part, last, end.request_id)) closed = std::exchange(part->generation_, nullptr);
    if (fails) cancelled = OpenGenerations();
  }
  for (const std::shared_ptr<Generation>& generation : cancelled) generation->Cancel();
  if (closed != nullptr) closed->OnClosed();
}

void HttpGeneration::EndResponse(const Part& part, const ResponseEnd& end, const OutputChunk* last) {
  const std::string& request_id = end.request_id;
  if (!failure_.ok() && !begun_) return RespondWithError(failure_, request_id);
  if (last != nullptr && failure_.ok()) Render(part, *last);
  translator_->OnEnd({failure_, request_id, end.model_freed}, &pending_);
  std::string rest = std::exchange(pending_, std::string());
  if (begun_) return exchange()->End(std::move(rest));
  exchange()->Respond(ReplyOf(request_id, std::move(rest)));
}

void HttpGeneration::OnWriteDone(bool ok) {
  Generations taken;
  Generations closed;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    for (const std::unique_ptr<Part>& part : parts_) {
      if (part->state_ != PartState::kInFlight || part->generation_ == nullptr) continue;
      part->state_ = PartState::kIdle;
      if (part->finished_ && num_unfinished_ > 0) {
        closed.push_back(std::exchange(part->generation_, nullptr));
      } else {
        taken.push_back(part->generation_);
      }
    }
    if (!pending_.empty()) SendPending("");
  }
  for (const std::shared_ptr<Generation>& generation : taken) generation->OnWriteDone(ok);
  for (const std::shared_ptr<Generation>& generation : closed) generation->OnClosed();
}

HttpGeneration::Generations HttpGeneration::OpenGenerations() const {
  Generations generations;
  for (const std::unique_ptr<Part>& part : parts_) {
    if (part->generation_ != nullptr) generations.push_back(part->generation_);
  }
  return generations;
}

void HttpGeneration::OnCancel() {
  Generations cancelled;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    cancelled = OpenGenerations();
  }
  for (const std::shared_ptr<Generation>& generation : cancelled) generation->Cancel();
}

void HttpGeneration::OnDone() {
  Generations closed;
  {
    absl::MutexLock lock(&mutex_);
    closed = OpenGenerations();
    for (const std::unique_ptr<Part>& part : parts_) part->generation_ = nullptr;
  }
  for (const std::shared_ptr<Generation>& generation : closed) generation->OnClosed();
}

}  // namespace dunlin::server
