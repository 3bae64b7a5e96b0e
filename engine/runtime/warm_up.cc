// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/layers/forward_pass.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/step_inputs.h"
#include "engine/runtime/tuning.h"

namespace dunlin::engine {
namespace {

absl::Status Done(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " failed: ", kernels::Name(status)));
}

int32_t PageTokens(const Model& model, const ExecutionProfile& profile, const MemoryPlan& memory) {
  return KvLayoutOf(model.config(), profile.precision, memory.kv_fp8).tokens_per_page;
}

int32_t LongestPrompt(const Model& model, const ExecutionProfile& profile, const MemoryPlan& memory) {
  const int64_t pool_tokens = int64_t{memory.num_pages / memory.kv_groups.count()} * PageTokens(model, profile, memory);
  return static_cast<int32_t>(
      std::min<int64_t>(pool_tokens, std::min(memory.max_tokens_per_step, memory.max_context_tokens)));
}

// With a scale per row whatever the recipe, so that the state of a recipe comes from requests alone.
absl::Status RunPrompt(const Model& model, const ExecutionProfile& profile, int32_t num_tokens, StepBuffers* buffers) {
  const MemoryPlan& memory = buffers->plan();
  const int32_t per_page = PageTokens(model, profile, memory);
  const std::vector<TokenId> tokens(static_cast<size_t>(num_tokens), 0);
  std::vector<PageId> pages(static_cast<size_t>(PagesFor(num_tokens, per_page) * memory.kv_groups.count()));
  std::iota(pages.begin(), pages.end(), 0);
  StepPlan plan;
  AppendSequence(profile, {.tokens = tokens, .prompt_len = num_tokens, .pages = pages, .sampling = {}, .stopping = {}},
                 {.num_tokens = num_tokens, .samples = true}, &plan);

  StepInputs inputs(memory);
  inputs.Stage(plan, plan.sub_batches[0], per_page);
  if (absl::Status status = Done(inputs.Upload(buffers), "copy of warm-up inputs"); !status.ok()) return status;
  ForwardPass pass(model.config(), model.weights(profile.precision), profile, inputs.pass_inputs(), buffers->layers());
  absl::Status status = pass.RunLayers();
  if (status.ok()) status = pass.RunHead(0, 1);
  // The host memory of the inputs ends here.
  const kernels::Device& device = *model.device();
  return status.ok() ? Done(device.ops->synchronize(device.context), "warm-up") : status;
}

}  // namespace

absl::Status WarmUp(const Model& model, const ProfileTable& profiles, StepBuffers* buffers, std::string* notice) {
  const Tuning tuning(model.device(), notice);
  if (!tuning.on()) return absl::OkStatus();
  for (const Precision precision : model.precisions()) {
    ExecutionChoice choice;
    choice.precision = precision;
    const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve(choice);
    if (!profile.ok()) continue;  // no backend serves it
    int32_t num_tokens = LongestPrompt(model, *profile, buffers->plan());
    absl::Status status = RunPrompt(model, *profile, num_tokens, buffers);
    // In deterministic mode one algorithm serves any number of rows.
    while (status.ok() && !buffers->plan().deterministic && num_tokens > 1) {
      status = RunPrompt(model, *profile, num_tokens /= 2, buffers);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
