// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/calibration.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/layers/forward_pass.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

absl::Status DeviceStatus(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " failed: ", kernels::Name(status)));
}

// One FP32 for each input, zero at the start, in device memory.
class Amaxes {
 public:
  Amaxes(kernels::Device* device, int32_t count)
      : device_(device),
        bytes_(static_cast<size_t>(count) * sizeof(float)),
        memory_(static_cast<float*>(device->ops->allocate(device->context, bytes_))) {}
  Amaxes(const Amaxes&) = delete;
  Amaxes& operator=(const Amaxes&) = delete;
  ~Amaxes() {
    if (memory_ != nullptr) device_->ops->release(device_->context, memory_, bytes_);
  }

  float* data() const { return memory_; }
  absl::StatusOr<std::vector<float>> Read() const {
    std::vector<float> values(bytes_ / sizeof(float));
    absl::Status status =
        DeviceStatus(device_->ops->copy_to_host(device_->context, values.data(), memory_, bytes_), "copy of amaxes");
    if (status.ok()) status = DeviceStatus(device_->ops->synchronize(device_->context), "calibration");
    if (!status.ok()) return status;
    return values;
  }

 private:
  kernels::Device* device_;
  size_t bytes_;
  float* memory_;
};

// What a window runs with.
struct Workspace {
  ExecutionProfile profile;
  std::unique_ptr<StepBuffers> buffers;
  int32_t tokens_per_page;
};

absl::StatusOr<Workspace> MakeWorkspace(const Model& model, int32_t window) {
  const Precision precision = model.precisions().front();
  const kernels::KvLayout layout = KvLayoutOf(model.config(), precision);
  EngineOptions options;
  options.max_sequences = 1;
  options.max_tokens_per_step = window;
  options.max_context_tokens = window;
  options.kv_memory_bytes = layout.page_bytes * static_cast<size_t>(PagesFor(window, layout.tokens_per_page) + 1);
  const ProfileTable profiles(model.config(), {precision}, *model.device(), options);
  const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve({});
  if (!profile.ok()) return profile.status();
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(model.config(), {precision}, *model.device(), options);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::unique_ptr<StepBuffers>> buffers =
      StepBuffers::Allocate(*plan, model.config().inv_freq, model.device());
  if (!buffers.ok()) return buffers.status();
  return Workspace{*profile, *std::move(buffers), layout.tokens_per_page};
}

absl::Status RunWindow(const Model& model, const Workspace& place, const Fp8Scaling& scaling,
                       std::span<const TokenId> tokens) {
  const auto count = static_cast<int32_t>(tokens.size());
  SamplingParams sampling;
  sampling.prompt_logprobs = 0;  // makes every row a head row
  std::vector<PageId> pages(static_cast<size_t>(PagesFor(count, place.tokens_per_page)));
  std::iota(pages.begin(), pages.end(), 0);
  StepPlan plan;
  AppendSequence(place.profile,
                 {.tokens = tokens, .prompt_len = count, .pages = pages, .sampling = sampling, .stopping = {}},
                 {.num_tokens = count, .samples = true}, &plan);
  StepInputs inputs(place.buffers->plan());
  inputs.Stage(plan, plan.sub_batches.front(), place.tokens_per_page);
  absl::Status status = DeviceStatus(inputs.Upload(place.buffers.get()), "copy of step inputs");
  if (!status.ok()) return status;
  ForwardPass pass(model.config(), model.weights(place.profile.precision), place.profile, inputs.pass_inputs(),
                   place.buffers->layers(), &scaling);
  if (status = pass.RunLayers(); !status.ok()) return status;
  const auto num_rows = static_cast<int32_t>(inputs.head_rows().size());
  for (int32_t row = 0; row < num_rows && status.ok(); row += kHeadBlockRows) {
    status = pass.RunHead(row, std::min(kHeadBlockRows, num_rows - row));
  }
  return status;
}

// An input that was always 0 gets scale 1; any would do.
absl::StatusOr<InputScales> ToScales(const ModelConfig& config, const std::vector<float>& amaxes) {
  constexpr WeightSlot kSlots[kInputsPerLayer] = {WeightSlot::kQkv, WeightSlot::kAttentionOut, WeightSlot::kMlpUp,
                                                  WeightSlot::kMlpDown};
  InputScales scales;
  for (int32_t i = 0; i < NumInputs(config); ++i) {
    const float amax = amaxes[static_cast<size_t>(i)];
    const int32_t layer = i / kInputsPerLayer;
    if (!std::isfinite(amax)) {
      return absl::InvalidArgumentError(
          absl::StrCat(i == HeadInputIndex(config) ? "the head" : absl::StrCat("layer ", layer),
                       " has an input that is not finite; run the calibration in fp32 (--precision fp32)"));
    }
    const float scale = amax / kernels::kE4M3Max;
    const bool is_head = i == HeadInputIndex(config);
    const auto key = is_head ? std::pair(WeightSlot::kHead, 0) : std::pair(kSlots[i % kInputsPerLayer], layer);
    scales[key] = std::isnormal(scale) ? scale : 1.0F;
  }
  return scales;
}

}  // namespace

absl::StatusOr<InputScales> CalibrateInputs(const Model& model, std::span<const TokenId> tokens) {
  const ModelConfig& config = model.config();
  if (config.is_encoder()) {
    return absl::FailedPreconditionError(absl::StrCat(config.architecture, " is an encoder: it cannot be calibrated"));
  }
  if (config.has_experts()) {
    return absl::FailedPreconditionError(
        absl::StrCat(config.architecture, " has experts: its inputs take a scale per token and are not calibrated"));
  }
  if (tokens.empty()) return absl::InvalidArgumentError("the text has no tokens");
  const auto window = static_cast<size_t>(std::min(config.max_context, kCalibrationWindow));
  const Amaxes amaxes(model.device(), NumInputs(config));
  if (amaxes.data() == nullptr) return absl::ResourceExhaustedError("no memory for the observed magnitudes");
  const absl::StatusOr<Workspace> place = MakeWorkspace(model, static_cast<int32_t>(window));
  if (!place.ok()) return place.status();
  const Fp8Scaling observer = Fp8Scaling::Observe(amaxes.data());
  for (size_t first = 0; first < tokens.size(); first += window) {
    absl::Status status =
        RunWindow(model, *place, observer, tokens.subspan(first, std::min(window, tokens.size() - first)));
    if (!status.ok()) return status;
  }
  const absl::StatusOr<std::vector<float>> observed = amaxes.Read();
  if (!observed.ok()) return observed.status();
  return ToScales(config, *observed);
}

}  // namespace dunlin::engine
