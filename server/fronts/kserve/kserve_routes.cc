// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/kserve_routes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/kserve/http_translators.h"
#include "server/fronts/kserve/infer_json.h"
#include "server/fronts/kserve/model_documents.h"
#include "server/fronts/kserve/repository_calls.h"
#include "server/fronts/kserve/stream_requests.h"
#include "server/http_calls/caller.h"
#include "server/http_calls/document_call.h"
#include "server/http_calls/http_call.h"
#include "server/http_calls/http_embedding.h"
#include "server/http_calls/http_generation.h"
#include "server/http_calls/http_status.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server::kserve {
namespace {

constexpr char kJsonLength[] = "Inference-Header-Content-Length";
constexpr char kBinaryBody[] = "application/octet-stream";
constexpr char kVersions[] = "/versions/";
constexpr int kNotReady = 400;  // the protocol's false

// "{model}[/versions/{version}][/{action}]"; models may have slashes in their names.
struct ModelPath {
  std::string model;
  std::string version;  // "" if there is none
  std::string action;   // "" if there is none of `actions`
};
ModelPath SplitPath(std::string_view path, std::span<const std::string_view> actions) {
  ModelPath split;
  if (const size_t slash = path.rfind('/'); slash != path.npos) {
    const std::string_view tail = path.substr(slash + 1);
    if (std::find(actions.begin(), actions.end(), tail) != actions.end()) {
      split.action = tail;
      path = path.substr(0, slash);
    }
  }
  if (const size_t at = path.rfind(kVersions); at != path.npos) {
    split.version = path.substr(at + std::string_view(kVersions).size());
    path = path.substr(0, at);
  }
  split.model = path;
  return split;
}

HttpReply RouteError(const HttpRequest& request, const absl::Status& status) {
  return ErrorReply(status, ErrorDocument(engine::StdView(status.message())), EchoedRequestIdOf(request));
}

HttpReply DocumentReply(const HttpRequest& request, const google::protobuf::Message& document) {
  HttpReply reply = OkReply(kJsonText, EchoedRequestIdOf(request));
  reply.body = DocumentOf(document);
  return reply;
}

HttpReply ReadyReply(const HttpRequest& request, bool ready) {
  HttpReply reply = OkReply(kJsonText, EchoedRequestIdOf(request));
  if (!ready) reply.status = kNotReady;
  return reply;
}

class Documents {
 public:
  Documents(const ServingCore* core, const ModelStatistics* statistics, std::string version)
      : core_(core), statistics_(statistics), version_(std::move(version)) {}

  bool ServerReady() const { return !core_->refusal().has_value(); }
  HttpReply Server(const HttpRequest& request) const {
    inference::ServerMetadataResponse answer;
    DescribeServer(version_, &answer);
    return DocumentReply(request, answer);
  }
  HttpReply Index(const HttpRequest& request, const std::string& body) const {
    bool ready = false;
    if (const absl::Status status = ReadRepositoryBody(body, "ready", &ready); !status.ok())
      return RouteError(request, status);
    inference::RepositoryIndexResponse answer;
    DescribeIndex(*core_, request.caller, ready, &answer);
    // The protocol's document is the list alone.
    HttpReply reply = OkReply(kJsonText, EchoedRequestIdOf(request));
    reply.body = "[";
    for (const auto& model : answer.models())
      absl::StrAppend(&reply.body, reply.body.size() > 1 ? "," : "", DocumentOf(model));
    reply.body += "]";
    return reply;
  }
  // The path behind /v2/repository/models/: "{model}/load" or "{model}/unload".
  void Repository(const HttpRequest& request, const std::string& body, Respond respond) const {
    static constexpr std::string_view kActions[] = {"load", "unload"};
    const ModelPath path = SplitPath(request.parameter, kActions);
    if (path.action.empty()) {
      return respond(
          RouteError(request, absl::NotFoundError("the path is not /v2/repository/models/{model}/load or /unload")));
    }
    bool has_parameters = false;
    if (const absl::Status status = ReadRepositoryBody(body, "parameters", &has_parameters); !status.ok()) {
      return respond(RouteError(request, status));
    }
    const auto done = [request = &request, respond = std::move(respond)](const absl::Status& status) {
      respond(status.ok() ? OkReply(kJsonText, EchoedRequestIdOf(*request)) : RouteError(*request, status));
    };
    if (path.action == "load") return LoadModel(*core_, request.caller, path.model, has_parameters, done);
    UnloadModel(*core_, request.caller, path.model, done);
  }
  // The path of the request behind /v2/models/.
  HttpReply Model(const HttpRequest& request) const {
    static constexpr std::string_view kActions[] = {"ready", "config", "stats"};
    if (request.parameter == "stats") return Statistics(request, "");
    const ModelPath path = SplitPath(request.parameter, kActions);
    const absl::StatusOr<NamedModel> model = Find(request.caller, path);
    if (path.action == "ready") {
      const bool taken = model.ok() || IsLoadedByRequest(*core_, request.caller, path.model, path.version);
      return ReadyReply(request, taken && ServerReady());
    }
    if (!model.ok()) return RouteError(request, model.status());
    if (path.action == "stats") return Statistics(request, model->model->name);
    if (path.action == "config") {
      inference::ModelConfig config;
      DescribeConfig(*model, &config);
      return DocumentReply(request, config);
    }
    inference::ModelMetadataResponse metadata;
    DescribeModel(*model, &metadata);
    return DocumentReply(request, metadata);
  }

 private:
  absl::StatusOr<NamedModel> Find(const Principal& caller, const ModelPath& path) const {
    absl::StatusOr<NamedModel> lease = FindFor(*core_, caller, path.model);
    if (!lease.ok() && core_->refusal() == AdmissionRefusal::kLoading) {
      return core_->StatusOf(AdmissionRefusal::kLoading);
    }
    if (lease.ok() && !IsServedVersion(path.version)) {
      return UnknownModel(absl::StrCat(path.model, kVersions, path.version));
    }
    return lease;
  }
  // Of one model, or of all that the caller may use.
  HttpReply Statistics(const HttpRequest& request, const std::string& name) const {
    inference::ModelStatisticsResponse answer;
    for (const ModelLease& model : ModelsFor(*core_, request.caller)) {
      const bool named = name.empty() || name == model->name;
      if (named) statistics_->Fill(*model, answer.add_model_stats());
    }
    return DocumentReply(request, answer);
  }

  const ServingCore* const core_;
  const ModelStatistics* const statistics_;
  const std::string version_;
};

// A call of infer, generate or generate_stream: chooses by path and model what handles it.
class ModelCall final : public HttpHandler {
 public:
  explicit ModelCall(ServingCore* core) : core_(core) {}

  std::optional<HttpReply> Admit(const HttpRequest& request, size_t body_bytes) override {
    if (const absl::Status status = ReadHead(request); !status.ok()) return RouteError(request, status);
    if (facts_->action == HttpAction::kInfer && Embeds(*core_, request.caller, facts_->model)) {
      call_ = std::make_shared<HttpEmbedding>(core_, std::make_unique<HttpEmbedTranslator>(facts_));
    } else {
      call_ = std::make_shared<HttpGeneration>(core_, std::make_unique<HttpGenerateTranslator>(facts_));
    }
    return call_->Admit(request, body_bytes);
  }
  std::optional<HttpReply> OnBodyBytes(size_t bytes) override { return call_->OnBodyBytes(bytes); }
  void Start(std::shared_ptr<HttpExchange> exchange, std::string body) override {
    call_->Start(std::move(exchange), std::move(body));
  }
  void AddHeaders(HttpReply* head) const override {
    if (call_ != nullptr) call_->AddHeaders(head);
    const size_t json_bytes = facts_->response_json_bytes;
    if (json_bytes == 0 || head->status != 200) return;
    head->content_type = kBinaryBody;
    head->headers.push_back({kJsonLength, absl::StrCat(json_bytes)});
  }
  void OnWriteDone(bool ok) override { call_->OnWriteDone(ok); }
  void OnCancel() override { call_->OnCancel(); }
  void OnDone() override { call_->OnDone(); }

 private:
  absl::Status ReadHead(const HttpRequest& request) {
    struct ActionRow {
      std::string_view name;
      HttpAction action;
    };
    static constexpr ActionRow kRows[] = {{"infer", HttpAction::kInfer},
                                          {"generate", HttpAction::kGenerateWhole},
                                          {"generate_stream", HttpAction::kGenerateStream}};
    static constexpr std::string_view kActions[] = {kRows[0].name, kRows[1].name, kRows[2].name};
    ModelPath path = SplitPath(request.parameter, kActions);
    const auto* const row =
        std::find_if(std::begin(kRows), std::end(kRows), [&path](const ActionRow& r) { return r.name == path.action; });
    if (row == std::end(kRows)) {
      return absl::NotFoundError("the path is not /v2/models/{model}/infer, generate or generate_stream");
    }
    facts_->action = row->action;
    facts_->model = std::move(path.model);
    facts_->version = std::move(path.version);
    const std::string_view length = request.header(kJsonLength);
    if (length.empty()) return absl::OkStatus();
    uint64_t json_bytes = 0;
    if (row->action != HttpAction::kInfer)
      return InvalidField(kJsonLength, "is given", "infer alone has binary tensors");
    if (!absl::SimpleAtoi(engine::AbslView(length), &json_bytes)) {
      return InvalidField(kJsonLength, "is not a number of bytes", "");
    }
    facts_->json_bytes = json_bytes;
    return absl::OkStatus();
  }

  ServingCore* const core_;
  const std::shared_ptr<HttpCallFacts> facts_ = std::make_shared<HttpCallFacts>();
  std::shared_ptr<HttpHandler> call_;  // from Admit on, unless that refuses the path
};

std::string RefusalBody(const absl::Status& status) {
  return ErrorDocument(engine::StdView(status.message()));
}

}  // namespace

std::vector<HttpRoute> KserveRoutes(ServingCore* core, const ModelStatistics* statistics, const std::string& version) {
  const auto documents = std::make_shared<const Documents>(core, statistics, version);
  std::vector<HttpRoute> routes = {
      {"GET", "/v2/health/live", [](const HttpRequest& request) { return ReadyReply(request, true); }},
      {"GET", "/v2/health/ready",
       [documents](const HttpRequest& request) { return ReadyReply(request, documents->ServerReady()); }},
      {"GET", "/v2", [documents](const HttpRequest& request) { return documents->Server(request); }},
      {"GET", "/v2/models/{path}", [documents](const HttpRequest& request) { return documents->Model(request); }},
      DocumentRoute(
          "/v2/repository/index",
          [documents](const HttpRequest& request, const std::string& body) { return documents->Index(request, body); }),
      DeferredDocumentRoute("/v2/repository/models/{path}",
                            [documents](const HttpRequest& request, const std::string& body, Respond respond) {
                              documents->Repository(request, body, std::move(respond));
                            }),
      CallRoute(*core, "/v2/models/{path}", [core] { return std::make_shared<ModelCall>(core); }),
  };
  for (HttpRoute& route : routes) {
    route.cors = true;
    route.takes_binary = route.path == "/v2/models/{path}";
    route.refusal = &RouteError;
    route.refusal_body = &RefusalBody;
  }
  return routes;
}

}  // namespace dunlin::server::kserve
