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

// What linked ranks do not exchange; what no rank divides is CheckDivisible's. Their token ids count from the first of
// the rank's in the vocabulary, by which both tables are read.
absl::Status CheckLinked(const ModelConfig& config, int32_t num_ranks, kernels::DeviceKind kind) {
  if (!config.has_layer_inputs() || config.layer_inputs.vocab_size == config.vocab_size) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("models[].parallel.tensor is ", num_ranks, ", but ", config.architecture,
                   " has per-layer embeddings of ", config.layer_inputs.vocab_size, " tokens and a vocabulary of ",
                   config.vocab_size, ", which are not divided on ", kernels::Name(kind)));
}

// An encoder of images is small next to the decoder that reads its rows, and keeps their precision.
absl::Status CheckImageEncoder(const ModelSource& source, const ModelConfig& config) {
  if (source.num_ranks > 1) {
    return absl::FailedPreconditionError(absl::StrCat("models[].parallel.tensor is ", source.num_ranks, ", but ",
                                                      config.architecture, ", an encoder of images, is not divided"));
  }
  for (const Precision precision : source.precisions) {
    if (ServesImages(precision)) continue;
    return absl::FailedPreconditionError(absl::StrCat("models[].precisions has ", kernels::Name(precision), ", but ",
                                                      config.architecture,
                                                      ", an encoder of images, runs in fp32, bf16 and fp16"));
  }
  return absl::OkStatus();
}

}  // namespace

bool ServesImages(Precision precision) {
  return Traits(Traits(precision).format).code_bits >= 16;
}

absl::Status CheckSource(const ModelSource& source, const ModelConfig& config, const kernels::DeviceOps& ops) {
  if (absl::Status served = CheckServes(ops, config); !served.ok()) return served;
  if (config.is_image_encoder()) {
    if (absl::Status served = CheckImageEncoder(source, config); !served.ok()) return served;
  }
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
