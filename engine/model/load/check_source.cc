// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/check_source.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/spec/model_traits.h"

namespace dunlin::engine {
namespace {

// Whether the device has the operations of the model's layers.
absl::Status CheckServes(const kernels::DeviceOps& ops, const ModelConfig& config) {
  std::vector<std::string> missing;
  if (ops.supports_model(ModelTraitsOf(config), &missing)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model_type ", config.architecture, " has ", absl::StrJoin(missing, " and "), ", which ",
                   kernels::Name(ops.kind), " does not serve; models[].device is cpu for this model"));
}

// Parts of a model whose rows only ranks that share their memory exchange; what no rank divides is CheckDivisible's.
struct SharedMemoryPart {
  const char* name;
  bool (*in)(const ModelConfig&);
};
constexpr SharedMemoryPart kSharedMemoryParts[] = {
    {"heads of several shapes", [](const ModelConfig& c) { return !c.attention.layer_heads.empty(); }},
    {"per-layer embeddings", [](const ModelConfig& c) { return c.has_layer_inputs(); }},
    {"one norm over the heads of its queries", [](const ModelConfig& c) { return c.attention.qk_norm_joint; }},
    {"experts in addition to the MLP of a layer", [](const ModelConfig& c) { return c.experts.beside_mlp; }},
    {"a layer that predicts further tokens", [](const ModelConfig& c) { return c.num_predictors > 0; }},
    {"layers of an encoder", [](const ModelConfig& c) { return c.is_encoder(); }},
};

absl::Status CheckLinked(const ModelConfig& config, int32_t num_ranks, kernels::DeviceKind kind) {
  for (const SharedMemoryPart& part : kSharedMemoryParts) {
    if (!part.in(config)) continue;
    return absl::FailedPreconditionError(absl::StrCat("models[].parallel.tensor is ", num_ranks, ", but ",
                                                      config.architecture, " has ", part.name,
                                                      ", which are not divided on ", kernels::Name(kind)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSource(const ModelSource& source, const ModelConfig& config, const kernels::DeviceOps& ops) {
  if (absl::Status served = CheckServes(ops, config); !served.ok()) return served;
  if (ops.kind == kernels::DeviceKind::kCpu) return absl::OkStatus();
  if (source.int8_inputs) {
    return absl::FailedPreconditionError(absl::StrCat("models[].int8_inputs is true; ", kernels::Name(ops.kind),
                                                      " has no such products (models[].device)"));
  }
  if (source.num_ranks == 1) return absl::OkStatus();
  if (ops.link_ranks != nullptr) return CheckLinked(config, source.num_ranks, ops.kind);
  return absl::FailedPreconditionError(absl::StrCat("models[].parallel.tensor is ", source.num_ranks, "; models on ",
                                                    kernels::Name(ops.kind), " are not divided (models[].device)"));
}

}  // namespace dunlin::engine
