// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/front.h"

#include <iterator>
#include <utility>

#include "server/fronts/ollama/ollama_routes.h"

namespace dunlin::server {
namespace {

// What manages files is refused to everybody, and needs no more than a call.
constexpr Endpoint kEndpoints[] = {
    {"GET /api/version", Permission::kInfer},
    {"GET /api/tags", Permission::kInfer},
    {"GET /api/ps", Permission::kInfer},
    {"POST /api/show", Permission::kInfer},
    {"POST /api/chat", Permission::kInfer},
    {"POST /api/generate", Permission::kInfer},
    {"POST /api/embed", Permission::kInfer},
    {"POST /api/embeddings", Permission::kInfer},
    {"POST /api/pull", Permission::kInfer},
    {"POST /api/create", Permission::kInfer},
    {"POST /api/copy", Permission::kInfer},
    {"POST /api/push", Permission::kInfer},
    {"POST /api/blobs/{digest}", Permission::kInfer},
    {"DELETE /api/delete", Permission::kInfer},
};

class OllamaFront final : public Front {
 public:
  explicit OllamaFront(const FrontSources& sources)
      : sources_{sources.core, sources.version, sources.cpu_variant,
                 sources.settings.Flag("protocols.openai.strict", false),
                 !sources.settings.Flag("protocols.page", true)} {}

  void AddRoutes(std::vector<HttpRoute>* routes) override {
    std::vector<HttpRoute> own = ollama::OllamaRoutes(sources_);
    std::move(own.begin(), own.end(), std::back_inserter(*routes));
  }

 private:
  const ollama::OllamaSources sources_;
};

}  // namespace

const FrontRow kOllamaFront = {
    "ollama", "protocols.ollama", kEndpoints,
    [](const FrontSources& sources) -> std::unique_ptr<Front> { return std::make_unique<OllamaFront>(sources); }};

}  // namespace dunlin::server
