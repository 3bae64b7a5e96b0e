// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/fp8_scaling.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

absl::Status DeviceStatus(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " failed: ", kernels::Name(status)));
}

struct InputRow {
  WeightSlot slot;
  int32_t layer;
  const kernels::PackedWeight* weight;
};

// Every linear input of a model, by its index.
std::vector<InputRow> InputsOf(const Model& model) {
  const PrecisionWeights& weights = model.weights(Precision::kFp8);
  std::vector<InputRow> rows;
  for (int32_t i = 0; i < model.config().num_layers; ++i) {
    const LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    rows.push_back({WeightSlot::kQkv, i, &layer.qkv.weight});
    rows.push_back({WeightSlot::kAttentionOut, i, &layer.attention_out.weight});
    rows.push_back({WeightSlot::kMlpUp, i, &layer.mlp_up.weight});
    rows.push_back({WeightSlot::kMlpDown, i, &layer.mlp_down.weight});
  }
  rows.push_back({WeightSlot::kHead, 0, &weights.head.weight});
  return rows;
}

constexpr const char* NameOf(WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kQkv:
      return "the qkv projection";
    case WeightSlot::kAttentionOut:
      return "the attention output";
    case WeightSlot::kMlpUp:
      return "the up projection";
    case WeightSlot::kMlpDown:
      return "the down projection";
    default:
      return "the head";
  }
}

}  // namespace

absl::StatusOr<std::vector<float>> InputConstants(const Fp8Options& options, const Model& model) {
  if (options.recipe == Fp8Recipe::kPerToken) return std::vector<float>();
  if (model.config().is_recurrent()) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].fp8.recipe is ", Traits(options.recipe).name, ", but ", model.config().architecture,
                     " has recurrent layers; the recipe of such a model is per_token"));
  }
  if (model.config().has_layer_inputs()) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].fp8.recipe is ", Traits(options.recipe).name, ", but ", model.config().architecture,
                     " has per-layer embeddings, whose products take a scale per token; the recipe of such a model is "
                     "per_token"));
  }
  if (model.config().has_experts()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "models[].fp8.recipe is ", Traits(options.recipe).name, ", but ", model.config().architecture,
        " has experts, whose inputs are other rows in every step; the recipe of such a model is per_token"));
  }
  if (model.config().attention.values_in_keys()) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].fp8.recipe is ", Traits(options.recipe).name, ", but ", model.config().architecture,
                     " has latent attention, whose products take a scale per token; the recipe of such a model is "
                     "per_token"));
  }
  std::vector<float> constants;
  for (const InputRow& row : InputsOf(model)) {
    if (row.weight->scale_block != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "models[].fp8.recipe is ", Traits(options.recipe).name, ", but the weights of ", NameOf(row.slot),
          " have a scale per ", row.weight->scale_block, " inputs, which takes the recipe per_token"));
    }
    const auto found = model.input_scales().find({row.slot, row.layer});
    const bool has_scale = found != model.input_scales().end();
    if (options.recipe == Fp8Recipe::kStatic && !has_scale && row.weight->precision == Precision::kFp8) {
      return absl::FailedPreconditionError(
          absl::StrCat("models[].fp8.recipe is static, but the model has no input scale for ", NameOf(row.slot),
                       " of layer ", row.layer, "; take a checkpoint that has them, or another recipe"));
    }
    constants.push_back(has_scale ? found->second : 1.0F);
  }
  return constants;
}

absl::Status CheckFp8Recipe(const Fp8Options& options, bool deterministic) {
  const Fp8RecipeTraits& recipe = Traits(options.recipe);
  if (!deterministic || recipe.deterministic) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("models[].fp8.recipe is ", recipe.name, ", which takes its scale from ", recipe.scale,
                   ", but models[].deterministic is true; set it to false, or the recipe to per_token or static"));
}

absl::StatusOr<Fp8Scaling> Fp8Scaling::Create(const Fp8Options& options, int32_t num_inputs,
                                              const std::vector<float>& constants, kernels::Device* device,
                                              float* memory) {
  Fp8Scaling scaling(options, num_inputs, device, memory);
  if (options.recipe == Fp8Recipe::kPerToken) return scaling;
  const bool is_static = options.recipe == Fp8Recipe::kStatic;
  const std::vector<float> ones(static_cast<size_t>(num_inputs), 1.0F);
  DUNLIN_CHECK(!is_static || constants.size() == ones.size(), "static recipe without its constants");
  absl::Status status = scaling.Write(scaling.scales(), is_static ? constants : ones);
  // The amax history starts at 0, as new device memory does.
  if (status.ok() && options.recipe == Fp8Recipe::kDelayed) status = scaling.Write(scaling.factors(), ones);
  if (!status.ok()) return status;
  return scaling;
}

Fp8Scaling Fp8Scaling::Observe(float* amaxes) {
  Fp8Scaling scaling({}, 0, nullptr, nullptr);
  scaling.observed_ = amaxes;
  return scaling;
}

void Fp8Scaling::Apply(int32_t input_index, kernels::Activation* activation) const {
  if (input_index == kUnobservedInput) return;
  if (observed_ != nullptr) {
    activation->amax = observed_ + input_index;
    return;
  }
  if (activation->precision != Precision::kFp8 || options_.recipe == Fp8Recipe::kPerToken) return;
  activation->scaling = Traits(options_.recipe).scaling;
  activation->shared_scale = scales() + input_index;
  if (options_.recipe == Fp8Recipe::kDelayed) activation->amax = amaxes() + input_index;
}

absl::Status Fp8Scaling::EndSubBatch() {
  if (options_.recipe != Fp8Recipe::kDelayed) return absl::OkStatus();
  const kernels::DelayedScalingParams params{.history = amaxes(),
                                             .factors = factors(),
                                             .scales = scales(),
                                             .num_inputs = num_inputs_,
                                             .history_len = options_.amax_history_len,
                                             .use_largest = options_.amax_compute_algo == AmaxComputeAlgo::kMax,
                                             .code_max = std::ldexp(kernels::kE4M3Max, -options_.margin)};
  return DeviceStatus(device_->ops->update_delayed_scaling(device_->context, params), "update of the FP8 scales");
}

absl::Status Fp8Scaling::Write(float* row, const std::vector<float>& values) {
  return DeviceStatus(device_->ops->copy_to_device(device_->context, row, values.data(), values.size() * sizeof(float)),
                      "copy of the FP8 scales");
}

}  // namespace dunlin::engine
