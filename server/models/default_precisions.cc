// SPDX-License-Identifier: Apache-2.0
#include "server/models/default_precisions.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/inspect.h"
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
    const bool usable = own && engine::Multiplies(*devices[i]->ops, *own) &&
                        settings.engine.allowed_precisions[static_cast<size_t>(*own)];
    settings.source.precisions = {usable ? *own : engine::Precision::kBf16};
  }
  return config;
}

}  // namespace dunlin::server
