// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/page/front.h"

#include <iterator>
#include <utility>

#include "server/fronts/page/page_routes.h"

namespace dunlin::server {
namespace {

// The page itself holds nothing secret and asks for a key where there are keys; what it shows needs one.
constexpr Endpoint kEndpoints[] = {
    {"GET /", kOpenToAll},
    {"GET /page/{file}", kOpenToAll},
    {"GET /status/models", Permission::kInfer},
    {"GET /status/profiles", Permission::kMetrics},
};

class PageFront final : public Front {
 public:
  explicit PageFront(const FrontSources& sources)
      : sources_{sources.core, static_cast<const page::ProfileStatistics*>(sources.observer), sources.version,
                 sources.cpu_variant} {}

  void AddRoutes(std::vector<HttpRoute>* routes) override {
    std::vector<HttpRoute> own = page::PageRoutes(sources_);
    std::move(own.begin(), own.end(), std::back_inserter(*routes));
  }

 private:
  const page::PageSources sources_;
};

std::unique_ptr<Front> MakePageFront(const FrontSources& sources) {
  return std::make_unique<PageFront>(sources);
}

std::unique_ptr<RequestObserver> NewProfileStatistics(const ModelRepository& models) {
  return std::make_unique<page::ProfileStatistics>(models);
}

}  // namespace

const FrontRow kPageFront = {"page", "protocols.page", kEndpoints, &MakePageFront, &NewProfileStatistics};

}  // namespace dunlin::server
