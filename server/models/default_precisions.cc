// SPDX-License-Identifier: Apache-2.0
#include "server/models/default_precisions.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/load/inspect.h"
#include "engine/model/weights/weight_storage.h"

namespace dunlin::server {

namespace {

// Of the checkpoint's own integer codes, where the device multiplies them.
absl::StatusOr<std::optional<engine::Precision>> UsableOwnPrecision(const engine::ModelSource& source,
                                                                    const kernels::Device& device) {
  if (source.path.empty()) return std::nullopt;
  absl::StatusOr<std::optional<engine::Precision>> own = engine::OwnPrecisionOf(source);
  if (own.ok() && own->has_value() && !engine::Multiplies(*device.ops, **own)) return std::nullopt;
  return own;
}

absl::Status OfModel(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("model \"", name, "\": ", status.message()));
}

// What clients may ask for of the model says nothing about its draft model.
absl::Status CompleteDraft(const kernels::Device& device, ModelSettings* settings) {
  engine::ModelSource& source = settings->draft.source;
  if (!settings->draft.given() || !source.precisions.empty()) return absl::OkStatus();
  const absl::StatusOr<std::optional<engine::Precision>> own = UsableOwnPrecision(source, device);
  if (!own.ok()) {
    return OfModel(settings->name, absl::Status(own.status().code(),
                                                absl::StrCat("models[].speculation.draft: ", own.status().message())));
  }
  source.precisions = {own->value_or(engine::Precision::kBf16)};
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> WithDefaultPrecisions(Config config, const std::vector<kernels::Device*>& devices) {
  for (size_t i = 0; i < config.models.size(); ++i) {
    ModelSettings& settings = config.models[i];
    if (absl::Status status = CompleteDraft(*devices[i], &settings); !status.ok()) return status;
    if (!settings.source.precisions.empty()) continue;
    const absl::StatusOr<std::optional<engine::Precision>> own = UsableOwnPrecision(settings.source, *devices[i]);
    if (!own.ok()) return OfModel(settings.name, own.status());
    const auto& allowed = settings.engine.allowed_precisions;
    const bool usable = own->has_value() && allowed[static_cast<size_t>(**own)];
    const engine::Precision chosen = usable ? **own : engine::Precision::kBf16;
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
