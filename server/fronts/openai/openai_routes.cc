// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/openai_routes.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/error_body.h"
#include "server/fronts/openai/lora_routes.h"
#include "server/fronts/openai/models.h"
#include "server/fronts/openai/rerank.h"
#include "server/fronts/openai/responses.h"
#include "server/fronts/openai/text_routes.h"
#include "server/http_calls/caller.h"
#include "server/http_calls/http_embedding.h"
#include "server/http_calls/http_generation.h"
#include "server/http_calls/http_status.h"
#include "server/http_calls/http_text_call.h"
#include "server/serving/resolve/model_list.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCohereRerank[] = "/v2/rerank";
constexpr char kMessages[] = "/v1/messages";
constexpr char kAnthropicVersion[] = "anthropic-version";  // the header that Anthropic's API requires of every request

HttpReply Health(const std::string& unready_reason) {
  if (unready_reason.empty()) return {200, kJsonText, Json{{"status", "ok"}}.dump()};
  return {503, kJsonText, Json{{"status", "unavailable"}, {"reason", unready_reason}}.dump()};
}

ModelFacts FactsOf(const ListedModel& listed) {
  const int64_t created = listed.model == nullptr ? 0 : absl::ToUnixSeconds(listed.model->loaded);
  return {listed.name, created, listed.max_context_tokens, listed.path, listed.parent};
}

bool IsOfAnthropic(const HttpRequest& request) {
  return request.path.starts_with(kMessages) || !request.header(kAnthropicVersion).empty();
}

ModelsApi ModelsApiOf(const HttpRequest& request) {
  return IsOfAnthropic(request) ? ModelsApi::kAnthropic : ModelsApi::kOpenAi;
}

// In the form of the API that the path belongs to, or the client.
std::string ErrorOf(const HttpRequest& request, const absl::Status& status) {
  if (IsOfAnthropic(request)) return AnthropicError(status);
  return request.path == kCohereRerank ? CohereError(status) : OpenAiError(status);
}

HttpReply ModelsReply(const ServingCore& core, const HttpRequest& request) {
  std::vector<ModelFacts> facts;
  for (const ListedModel& listed : ModelListFor(core, request.caller)) facts.push_back(FactsOf(listed));
  HttpReply reply = OkReply(kJsonText, EchoedRequestIdOf(request));
  reply.body = ModelListBody(facts, ModelsApiOf(request));
  return reply;
}

HttpReply ModelReply(const ServingCore& core, const HttpRequest& request) {
  const std::string request_id = EchoedRequestIdOf(request);
  const absl::StatusOr<ListedModel> listed = ListedModelFor(core, request.caller, request.parameter);
  if (!listed.ok()) return ErrorReply(listed.status(), ErrorOf(request, listed.status()), request_id);
  HttpReply reply = OkReply(kJsonText, request_id);
  reply.body = ModelBody(FactsOf(*listed), ModelsApiOf(request));
  return reply;
}

// To a caller who may not call.
HttpReply RefusalReply(const HttpRequest& request, const absl::Status& status) {
  return ErrorReply(status, ErrorOf(request, status), EchoedRequestIdOf(request));
}

HttpRoute AnswerRoute(const char* path, std::function<HttpReply(const HttpRequest&)> answer) {
  HttpRoute route{"GET", path, std::move(answer)};
  route.cors = true;
  return route;
}

ResponseFacts FactsNow(const OpenAiSources& sources) {
  return {absl::ToUnixSeconds(absl::Now()), sources.version, sources.cpu_variant, sources.strict};
}

HttpRoute TextRoute(ServingCore* core, const char* path, const OpenAiSources& sources, TextWork work) {
  work.strict = sources.strict;
  return HttpTextCall::Route(core, path, work);
}

template <class Translator>
HttpRoute GenerationRoute(ServingCore* core, const char* path, const OpenAiSources& sources) {
  return HttpGeneration::Route(core, path, [sources] { return std::make_unique<Translator>(FactsNow(sources)); });
}

}  // namespace

std::vector<HttpRoute> OpenAiRoutes(ServingCore* core, const OpenAiSources& sources) {
  const auto version = [body = Json{{"version", sources.version}}.dump()](const HttpRequest&) {
    return HttpReply{200, kJsonText, body};
  };
  std::vector<HttpRoute> routes = {
      AnswerRoute("/health", [reason = sources.unready_reason](const HttpRequest&) { return Health(reason()); }),
      AnswerRoute("/version", version),
      AnswerRoute("/v1/models", [core](const HttpRequest& request) { return ModelsReply(*core, request); }),
      AnswerRoute("/v1/models/{id}", [core](const HttpRequest& request) { return ModelReply(*core, request); }),
      GenerationRoute<ChatCompletionsTranslator>(core, "/v1/chat/completions", sources),
      GenerationRoute<CompletionsTranslator>(core, "/v1/completions", sources),
      GenerationRoute<ResponsesTranslator>(core, "/v1/responses", sources),
      GenerationRoute<AnthropicTranslator>(core, "/v1/messages", sources),
      TextRoute(core, "/v1/messages/count_tokens", sources, kCountTokensWork),
      HttpEmbedding::Route(core, "/v1/embeddings",
                           [sources] { return std::make_unique<EmbeddingsTranslator>(FactsNow(sources)); }),
      HttpEmbedding::Route(core, "/v1/rerank",
                           [sources] { return std::make_unique<RerankTranslator>(FactsNow(sources)); }),
      HttpEmbedding::Route(core, "/rerank",
                           [sources] { return std::make_unique<RerankTranslator>(FactsNow(sources)); }),
      HttpEmbedding::Route(
          core, kCohereRerank,
          [sources] { return std::make_unique<RerankTranslator>(FactsNow(sources), RerankApi::kCohereV2); }),
      TextRoute(core, "/tokenize", sources, kTokenizeWork),
      TextRoute(core, "/detokenize", sources, kDetokenizeWork),
  };
  for (HttpRoute& route : LoraRoutes(core, sources.strict)) routes.push_back(std::move(route));
  for (HttpRoute& route : routes) {
    route.refusal = &RefusalReply;
    route.refusal_body = &OpenAiError;
    if (route.path == kCohereRerank) route.refusal_body = &CohereError;
    if (!route.path.starts_with(kMessages)) continue;
    route.refusal_body = &AnthropicError;
    route.client_header = kAnthropicVersion;
  }
  return routes;
}

}  // namespace dunlin::server
