// SPDX-License-Identifier: Apache-2.0
#include "server/models/default_precisions.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/load/inspect.h"
#include "engine/model/weights/weight_storage.h"

namespace dunlin::server {

absl::StatusOr<Config> WithDefaultPrecisions(Config config, const std::vector<kernels::Device*>& devices) {
  for (size_t i = 0; i < config.models.size(); ++i) {
    ModelSettings& settings = config.models[i];
    if (!settings.source.precisions.empty()) continue;
    std::optional<engine::Precision> own;
    if (!settings.source.path.empty()) {
      const absl::StatusOr<std::optional<engine::Precision>> found = engine::OwnPrecisionOf(settings.source);
      if (!found.ok()) {
        return absl::Status(found.status().code(),
                            absl::StrCat("model \"", settings.name, "\": ", found.status().message()));
      }
      own = *found;
    }
    const auto& allowed = settings.engine.allowed_precisions;
    const bool usable = own && engine::Multiplies(*devices[i]->ops, *own) && allowed[static_cast<size_t>(*own)];
    const engine::Precision chosen = usable ? *own : engine::Precision::kBf16;
    if (!allowed[static_cast<size_t>(chosen)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("model \"", settings.name, "\": models[].precisions is empty, which makes it ",
                       kernels::Name(chosen), "; limit is one of models[].allowed.precisions"));
    }
    settings.source.precisions = {chosen};
  }
  return config;
}

}  // namespace dunlin::server
