// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/load_model.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_builder.h"

namespace dunlin::engine {
namespace {

absl::Status CheckPrecisions(const std::vector<Precision>& precisions) {
  if (precisions.empty()) return absl::InvalidArgumentError("models[].precisions is empty; list at least one");
  for (size_t i = 1; i < precisions.size(); ++i) {
    const auto end = precisions.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(precisions.begin(), end, precisions[i]) != end) {
      return absl::InvalidArgumentError(
          absl::StrCat("models[].precisions lists '", kernels::Name(precisions[i]), "' twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSource& source, kernels::Device* device,
                                                 const std::atomic<bool>* stop) {
  return LoadModel(source, std::vector{device}, stop);
}

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSource& source,
                                                 const std::vector<kernels::Device*>& devices,
                                                 const std::atomic<bool>* stop) {
  if (absl::Status status = CheckPrecisions(source.precisions); !status.ok()) return status;
  const absl::StatusOr<OpenedModel> opened = OpenModelSource(source, true);
  if (!opened.ok()) return opened.status();
  return LoadOpenedModel(*opened, source, devices, stop);
}

absl::StatusOr<std::unique_ptr<Model>> LoadOpenedModel(const OpenedModel& opened, const ModelSource& source,
                                                       const std::vector<kernels::Device*>& devices,
                                                       const std::atomic<bool>* stop) {
  absl::StatusOr<std::unique_ptr<Model>> model = ModelBuilder::Build(opened, source, devices, stop);
  if (model.ok()) return model;
  const std::string& where = source.path.empty() ? source.random_shape : source.path;
  return absl::Status(model.status().code(), absl::StrCat(where, ": ", model.status().message()));
}

}  // namespace dunlin::engine
