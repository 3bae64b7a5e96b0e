// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/front.h"

#include <iterator>
#include <utility>

#include "server/fronts/openai/openai_routes.h"

namespace dunlin::server {
namespace {

constexpr Endpoint kEndpoints[] = {
    {"GET /health", kOpenToAll},
    {"GET /version", Permission::kInfer},
    {"GET /v1/models", Permission::kInfer},
    {"GET /v1/models/{id}", Permission::kInfer},
    {"POST /v1/chat/completions", Permission::kInfer},
    {"POST /v1/completions", Permission::kInfer},
    {"POST /v1/responses", Permission::kInfer},
    {"POST /v1/messages", Permission::kInfer},
    {"POST /v1/messages/count_tokens", Permission::kInfer},
    {"POST /v1/embeddings", Permission::kInfer},
    {"POST /v1/rerank", Permission::kInfer},
    {"POST /rerank", Permission::kInfer},
    {"POST /v2/rerank", Permission::kInfer},
    {"POST /tokenize", Permission::kInfer},
    {"POST /detokenize", Permission::kInfer},
    {"POST /v1/load_lora_adapter", Permission::kAdmin},
    {"POST /v1/unload_lora_adapter", Permission::kAdmin},
};

class OpenAiFront final : public Front {
 public:
  explicit OpenAiFront(const FrontSources& sources)
      : core_(sources.core),
        sources_{sources.unready_reason, sources.version, sources.cpu_variant,
                 sources.settings.Flag("protocols.openai.strict", false)} {}

  void AddRoutes(std::vector<HttpRoute>* routes) override {
    std::vector<HttpRoute> own = OpenAiRoutes(core_, sources_);
    std::move(own.begin(), own.end(), std::back_inserter(*routes));
  }

 private:
  ServingCore* const core_;
  const OpenAiSources sources_;
};

}  // namespace

const FrontRow kOpenAiFront = {
    "openai", "protocols.openai.enabled", kEndpoints,
    [](const FrontSources& sources) -> std::unique_ptr<Front> { return std::make_unique<OpenAiFront>(sources); }};

}  // namespace dunlin::server
