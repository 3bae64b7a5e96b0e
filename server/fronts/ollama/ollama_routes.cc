// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/ollama_routes.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/fronts/ollama/error_body.h"
#include "server/fronts/ollama/generation_translator.h"
#include "server/fronts/ollama/model_documents.h"
#include "server/fronts/ollama/vectors_translator.h"
#include "server/http_calls/caller.h"
#include "server/http_calls/document_call.h"
#include "server/http_calls/http_embedding.h"
#include "server/http_calls/http_generation.h"
#include "server/http_calls/http_status.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/model_list.h"

namespace dunlin::server::ollama {
namespace {

using V = JsonValue;

constexpr char kRunning[] = "Ollama is running";
constexpr char kWhereModelsComeFrom[] =
    "models are named by models[] of the server's configuration, or are folders of model_repository.path";

HttpReply RefusalOf(const HttpRequest& request, const absl::Status& status) {
  return ErrorReply(status, ErrorBody(status), EchoedRequestIdOf(request));
}

HttpReply DocumentOf(const HttpRequest& request, std::string document) {
  HttpReply reply = OkReply(kJsonText, EchoedRequestIdOf(request));
  reply.body = std::move(document);
  return reply;
}

HttpReply ShowReply(const ServingCore& core, const HttpRequest& request, const std::string& body) {
  const absl::StatusOr<NamingBody> naming = ReadNaming(body);
  if (!naming.ok()) return RefusalOf(request, naming.status());
  const absl::StatusOr<ListedModel> listed = ListedModelFor(core, request.caller, naming->model);
  if (!listed.ok()) return RefusalOf(request, listed.status());
  return DocumentOf(request, ShowDocument(*listed));
}

// Clients pull a model before they use it: of one that is served, all is there.
HttpReply PullReply(const ServingCore& core, const HttpRequest& request, const std::string& body) {
  const absl::StatusOr<NamingBody> naming = ReadNaming(body);
  if (!naming.ok()) return RefusalOf(request, naming.status());
  const absl::Status found = ListedModelFor(core, request.caller, naming->model).status();
  if (absl::IsNotFound(found)) {
    const std::string message = absl::StrCat("models that are not served are not pulled: ", kWhereModelsComeFrom);
    return RefusalOf(request, MakeError(Reason::kNotImplemented, message));
  }
  if (!found.ok()) return RefusalOf(request, found);
  HttpReply reply = DocumentOf(request, naming->stream ? "{\"status\":\"success\"}\n" : "{\"status\":\"success\"}");
  if (naming->stream) reply.content_type = "application/x-ndjson";
  return reply;
}

HttpRoute NotOffered(const char* path) {
  return DocumentRoute(path, [path](const HttpRequest& request, const std::string& /*body*/) {
    const std::string message = absl::StrCat(path, " is not offered: ", kWhereModelsComeFrom);
    return RefusalOf(request, MakeError(Reason::kNotImplemented, message));
  });
}

HttpRoute DeleteRoute() {
  HttpRoute route = NotOffered("/api/delete");
  route.method = "DELETE";
  return route;
}

CallFacts FactsNow(const OllamaSources& sources) {
  const absl::Time now = absl::Now();
  return {.response = {absl::ToUnixSeconds(now), sources.version, sources.cpu_variant, sources.strict},
          .created_at = absl::FormatTime(absl::RFC3339_full, now, absl::UTCTimeZone())};
}

HttpRoute GenerationRoute(const OllamaSources& sources, const char* path, GenerationApi api) {
  return HttpGeneration::Route(
      sources.core, path, [sources, api] { return std::make_unique<GenerationTranslator>(api, FactsNow(sources)); });
}

HttpRoute VectorsRoute(const OllamaSources& sources, const char* path, VectorsApi api) {
  return HttpEmbedding::Route(sources.core, path,
                              [sources, api] { return std::make_unique<VectorsTranslator>(api, FactsNow(sources)); });
}

HttpReply VersionReply(const std::string& server_version) {
  const Json document = {{"version", kApiVersion}, {"dunlin", server_version}};
  return {200, kJsonText, document.dump()};
}

struct NamingTarget {
  NamingBody body;
  std::string older_name;
};
constexpr FieldRow<NamingTarget> kNaming[] = {
    Honoured<NamingTarget>("model", [](const V& v, NamingTarget* t) { t->body.model = v.Text(); }),
    Honoured<NamingTarget>("name", [](const V& v, NamingTarget* t) { t->older_name = v.Text(); }),
    Honoured<NamingTarget>("stream", [](const V& v, NamingTarget* t) { t->body.stream = v.Bool(); }),
};

}  // namespace

absl::StatusOr<NamingBody> ReadNaming(std::string_view text) {
  const absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  IgnoredNames ignored;
  NamingTarget target;
  ReadFields(V(*json, &status, &ignored), FieldTable<NamingTarget>(kNaming), &target);
  if (!status.ok()) return status;
  if (target.body.model.empty()) target.body.model = std::move(target.older_name);
  if (target.body.model.empty()) return InvalidField("model", "is missing", "a string");
  return std::move(target.body);
}

std::vector<HttpRoute> OllamaRoutes(const OllamaSources& sources) {
  ServingCore* const core = sources.core;
  std::vector<HttpRoute> routes = {
      {"GET", "/api/version", [version = sources.version](const HttpRequest&) { return VersionReply(version); }},
      {"GET", "/api/tags",
       [core](const HttpRequest& request) {
         return DocumentOf(request, TagsDocument(ModelListFor(*core, request.caller)));
       }},
      {"GET", "/api/ps",
       [core](const HttpRequest& request) {
         return DocumentOf(request, PsDocument(ModelListFor(*core, request.caller)));
       }},
      DocumentRoute("/api/show", [core](const HttpRequest& request,
                                        const std::string& body) { return ShowReply(*core, request, body); }),
      DocumentRoute("/api/pull", [core](const HttpRequest& request,
                                        const std::string& body) { return PullReply(*core, request, body); }),
      GenerationRoute(sources, "/api/chat", GenerationApi::kChat),
      GenerationRoute(sources, "/api/generate", GenerationApi::kGenerate),
      VectorsRoute(sources, "/api/embed", VectorsApi::kEmbed),
      VectorsRoute(sources, "/api/embeddings", VectorsApi::kEmbeddings),
      NotOffered("/api/create"),
      NotOffered("/api/copy"),
      NotOffered("/api/push"),
      NotOffered("/api/blobs/{digest}"),
      DeleteRoute(),
  };
  if (sources.owns_root) {
    routes.push_back({"GET", "/", [](const HttpRequest&) { return HttpReply{200, kPlainText, kRunning}; }});
  }
  for (HttpRoute& route : routes) {
    route.refusal = &RefusalOf;
    route.refusal_body = &ErrorBody;
    route.cors = true;
  }
  return routes;
}

}  // namespace dunlin::server::ollama
