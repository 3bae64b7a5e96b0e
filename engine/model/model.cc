// SPDX-License-Identifier: Apache-2.0
#include "engine/model/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/model/load/model_builder.h"
#include "engine/model/load/opened_model.h"

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

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const ModelSource& source, kernels::Device* device,
                                                   const std::atomic<bool>* stop) {
  if (absl::Status status = CheckPrecisions(source.precisions); !status.ok()) return status;
  const absl::StatusOr<OpenedModel> opened = OpenModelSource(source, true);
  if (!opened.ok()) return opened.status();
  return LoadOpenedModel(*opened, source, device, stop);
}

absl::StatusOr<std::unique_ptr<Model>> LoadOpenedModel(const OpenedModel& opened, const ModelSource& source,
                                                       kernels::Device* device, const std::atomic<bool>* stop) {
  absl::StatusOr<std::unique_ptr<Model>> model = ModelBuilder::Build(opened, source, device, stop);
  if (model.ok()) return model;
  const std::string& where = source.path.empty() ? source.random_shape : source.path;
  return absl::Status(model.status().code(), absl::StrCat(where, ": ", model.status().message()));
}

Model::~Model() {
  for (const Allocation& block : allocations_) device_->ops->release(device_->context, block.memory, block.bytes);
}

size_t Model::IndexOf(Precision precision) const {
  const auto found = std::find(precisions_.begin(), precisions_.end(), precision);
  DUNLIN_CHECK(found != precisions_.end(), "requested weights of a precision that is not resident");
  return static_cast<size_t>(found - precisions_.begin());
}

const PrecisionWeights& Model::weights(Precision precision) const {
  return weights_[IndexOf(precision)];
}

size_t Model::weight_bytes(Precision precision) const {
  return weight_bytes_[IndexOf(precision)];
}

}  // namespace dunlin::engine
