// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/direct_run.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/layers/forward_pass.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/memory_plan.h"

namespace dunlin::engine {

DirectRun::DirectRun(const Model* model, const ExecutionProfile& profile, int32_t max_tokens,
                     const DirectRunOptions& run_options)
    : model_(model), profile_(profile), adapter_(run_options.adapter), rows_(run_options.rows) {
  EngineOptions options;
  options.max_sequences = 1;
  options.max_tokens_per_step = max_tokens;
  options.execution = run_options.execution;
  options.fp8 = run_options.fp8;
  options.kv_fp8 = profile.kv_fp8;
  options.adapters.max_adapters = run_options.adapter.id > 0 ? 1 : 0;
  const size_t page_bytes = KvLayoutOf(model->config(), profile.precision, profile.kv_fp8).page_bytes;
  const auto groups = static_cast<size_t>(KvGroupsOf(model->config()).count());
  options.kv_memory_bytes =
      page_bytes * groups * (static_cast<size_t>(max_tokens) / 8 + 2) + StateBytesOf(model->config());
  absl::StatusOr<MemoryPlan> plan = PlanMemory(model->config(), {profile.precision}, *model->device(), options);
  DUNLIN_CHECK(plan.ok(), "the test's memory plan");
  buffers_ = *StepBuffers::Allocate(*plan, model->config().position_constants(), model->device());
  inputs_ = std::make_unique<StepInputs>(*plan);
  adapters_ = std::make_unique<AdapterStage>(model->config(), *plan);
  const Fp8Options fp8 = profile.precision == Precision::kFp8 ? options.fp8 : Fp8Options{};
  absl::StatusOr<Fp8Scaling> scaling = Fp8Scaling::Create(fp8, NumInputs(model->config()), run_options.input_scales,
                                                          model->device(), buffers_->floats(BufferId::kFp8Scales));
  DUNLIN_CHECK(scaling.ok(), "the test's FP8 recipe");
  scaling_ = std::make_unique<Fp8Scaling>(*std::move(scaling));
}

int32_t DirectRun::tokens_per_page() const {
  return KvLayoutOf(model_->config(), profile_.precision, profile_.kv_fp8).tokens_per_page;
}

std::vector<float> DirectRun::Read(BufferId id, size_t count) const {
  std::vector<float> values(count);
  const kernels::Device& device = *model_->device();
  const auto copied =
      device.ops->copy_to_host(device.context, values.data(), buffers_->floats(id), count * sizeof(float));
  DUNLIN_CHECK(copied == kernels::KernelStatus::kOk, "copy to the host");
  DUNLIN_CHECK(device.ops->synchronize(device.context) == kernels::KernelStatus::kOk, "copy to the host");
  return values;
}

std::vector<float> DirectRun::State() const {
  return Read(BufferId::kState, static_cast<size_t>(model_->config().state_floats()));
}

std::vector<float> DirectRun::InputScales() const {
  if (buffers_->floats(BufferId::kFp8Scales) == nullptr) return {};
  return Read(BufferId::kFp8Scales, static_cast<size_t>(NumInputs(model_->config())));
}

std::vector<std::vector<float>> DirectRun::Logits(const std::vector<TokenId>& tokens, int32_t chunk_size,
                                                  int32_t num_cached) {
  const auto vocab_size = static_cast<size_t>(model_->config().vocab_size);
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  SamplingParams sampling;
  sampling.prompt_logprobs = 0;  // makes every prompt row a head row
  // Neither in order nor from 0, so that a page id is never mistaken for an index.
  std::vector<PageId> pages;
  for (int32_t page = buffers_->plan().num_pages; page-- > 1;) pages.push_back(page);

  std::vector<std::vector<float>> logits;
  for (int32_t first = num_cached; first < num_tokens; first += chunk_size) {
    const int32_t count = std::min(chunk_size, num_tokens - first);
    StepPlan plan;
    AppendSequence(profile_,
                   {.tokens = tokens,
                    .prompt_len = num_tokens,
                    .rows = rows_,
                    .pages = pages,
                    .sampling = sampling,
                    .stopping = {},
                    .next_scored_position = first + 1,
                    .adapter = adapter_.adapter.get()},
                   {.first_position = first, .num_tokens = count, .samples = first + count == num_tokens}, &plan);
    inputs_->Stage(plan, plan.sub_batches[0], tokens_per_page());
    DUNLIN_CHECK(inputs_->Upload(buffers_.get()) == kernels::KernelStatus::kOk, "upload");
    PassInputs pass_inputs = inputs_->pass_inputs();
    pass_inputs.adapters = adapters_->Stage(plan, plan.sub_batches[0], inputs_->head_rows());
    ForwardPass pass(model_->config(), model_->weights(profile_.precision), profile_, pass_inputs, buffers_->layers(),
                     scaling_.get());
    DUNLIN_CHECK(pass.RunLayers().ok(), "layers");
    for (int32_t row = 0; row < count; row += kMaxLogitRows) {
      const int32_t rows = std::min(kMaxLogitRows, count - row);
      DUNLIN_CHECK(pass.RunHead(row, rows).ok(), "head");
      const std::vector<float> block = Read(BufferId::kLogits, static_cast<size_t>(rows) * vocab_size);
      for (int32_t i = 0; i < rows; ++i) {
        const float* values = block.data() + static_cast<size_t>(i) * vocab_size;
        logits.emplace_back(values, values + vocab_size);
      }
    }
    DUNLIN_CHECK(scaling_->EndSubBatch().ok(), "end of the sub-batch");
  }
  return logits;
}

}  // namespace dunlin::engine
