#include "engine/runtime/fp8_scaling.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

absl::Status Copied(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("copy of FP8 ", what, " failed: ", kernels::Name(status)));
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

Fp8Scaling::Fp8Scaling(const Fp8Options& options, int32_t num_inputs, StepBuffers* buffers)
    : options_(options), num_inputs_(num_inputs), buffers_(buffers) {}

absl::StatusOr<Fp8Scaling> Fp8Scaling::Create(const Fp8Options& options, int32_t num_inputs,
                                              const std::vector<float>& constants, StepBuffers* buffers) {
  Fp8Scaling scaling(options, num_inputs, buffers);
  if (options.recipe == Fp8Recipe::kPerToken) return scaling;
  scaling.host_scales_.assign(static_cast<size_t>(num_inputs), 1.0F);
  if (options.recipe == Fp8Recipe::kStatic) {
    DUNLIN_CHECK(constants.size() == scaling.host_scales_.size(), "static recipe without its constants");
    scaling.host_scales_ = constants;
  }
  if (options.recipe == Fp8Recipe::kDelayed) scaling.delayed_ = StartDelayedScaling(options, num_inputs);
  if (absl::Status status = scaling.WriteScales(); !status.ok()) return status;
  if (absl::Status status = scaling.ClearAmaxes(); !status.ok()) return status;
  return scaling;
}

Fp8Scaling Fp8Scaling::Observe(float* amaxes) {
  Fp8Scaling scaling({}, 0, nullptr);
  scaling.observed_ = amaxes;
  return scaling;
}

void Fp8Scaling::Apply(int32_t input_index, kernels::Activation* activation) const {
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
  kernels::Device* device = buffers_->device();
  const size_t bytes = static_cast<size_t>(num_inputs_) * sizeof(float);
  absl::Status status =
      Copied(device->ops->copy_to_host(device->context, delayed_.history.data(), amaxes(), bytes), "amaxes");
  if (status.ok()) status = Copied(device->ops->synchronize(device->context), "amaxes");
  if (!status.ok()) return status;
  UpdateDelayedScaling(options_, &delayed_);
  std::transform(delayed_.scale.begin(), delayed_.scale.end(), host_scales_.begin(),
                 [](float factor) { return 1.0F / factor; });
  status = WriteScales();
  return status.ok() ? ClearAmaxes() : status;
}

absl::Status Fp8Scaling::WriteScales() {
  kernels::Device* device = buffers_->device();
  const size_t bytes = host_scales_.size() * sizeof(float);
  return Copied(device->ops->copy_to_device(device->context, scales(), host_scales_.data(), bytes), "scales");
}

absl::Status Fp8Scaling::ClearAmaxes() {
  kernels::Device* device = buffers_->device();
  if (delayed_.history.empty()) return absl::OkStatus();
  // An update leaves row 0 of the history at 0, and so does the start.
  const size_t bytes = static_cast<size_t>(num_inputs_) * sizeof(float);
  return Copied(device->ops->copy_to_device(device->context, amaxes(), delayed_.history.data(), bytes), "amaxes");
}

}  // namespace dunlin::engine
