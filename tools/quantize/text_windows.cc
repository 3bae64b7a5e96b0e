// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/text_windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/layers/forward_pass.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/device_status.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/step_inputs.h"

namespace dunlin::engine {
namespace {

// -log of the probability that softmax(logits) gives a token.
double NegativeLogLikelihood(const float* logits, int32_t vocab_size, TokenId token) {
  const float largest = *std::max_element(logits, logits + vocab_size);
  double sum = 0.0;
  for (int32_t i = 0; i < vocab_size; ++i) sum += std::exp(static_cast<double>(logits[i] - largest));
  return std::log(sum) - static_cast<double>(logits[token] - largest);
}

}  // namespace

absl::StatusOr<TextWindows> TextWindows::Create(const Model& model, ExecutionMode execution) {
  const ModelConfig& config = model.config();
  if (config.is_encoder()) {
    return absl::FailedPreconditionError(absl::StrCat(config.architecture, " is an encoder: it predicts no tokens"));
  }
  const int32_t window = std::min(config.max_context, kTextWindow);
  const Precision precision = model.precisions().front();
  const kernels::KvLayout layout = KvLayoutOf(config, precision);
  EngineOptions options;
  options.execution = execution;
  options.max_sequences = 1;
  options.max_tokens_per_step = window;
  options.max_context_tokens = window;
  const int32_t num_blocks = PagesFor(window, layout.tokens_per_page) + 1;
  options.kv_memory_bytes =
      layout.page_bytes * static_cast<size_t>(num_blocks * KvGroupsOf(config).count()) + StateBytesOf(config);
  const ProfileTable profiles(config, {precision}, *model.device(), options);
  const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve({});
  if (!profile.ok()) return profile.status();
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(config, {precision}, *model.device(), options);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::unique_ptr<StepBuffers>> buffers =
      StepBuffers::Allocate(*plan, config.position_constants(), model.device());
  if (!buffers.ok()) return buffers.status();
  return TextWindows(model, window, *profile, *std::move(buffers), layout.tokens_per_page);
}

absl::Status TextWindows::RunWindow(std::span<const TokenId> tokens, const Watch& watch) const {
  const auto count = static_cast<int32_t>(tokens.size());
  SamplingParams sampling;
  sampling.prompt_logprobs = 0;  // makes every row a head row
  const int32_t num_blocks = PagesFor(count, tokens_per_page_);
  std::vector<PageId> pages(static_cast<size_t>(num_blocks * buffers_->plan().kv_groups.count()));
  std::iota(pages.begin(), pages.end(), 0);
  StepPlan plan;
  AppendSequence(profile_,
                 {.tokens = tokens, .prompt_len = count, .pages = pages, .sampling = sampling, .stopping = {}},
                 {.num_tokens = count, .samples = true}, &plan);
  StepInputs inputs(buffers_->plan());
  inputs.Stage(plan, plan.sub_batches.front(), tokens_per_page_);
  absl::Status status = DeviceStatus(inputs.Upload(buffers_.get()), "copy of step inputs");
  if (!status.ok()) return status;
  const ModelConfig& config = model_->config();
  ForwardPass pass(config, model_->weights(profile_.precision), profile_, inputs.pass_inputs(), buffers_->layers(),
                   watch.scaling, watch.inputs);
  if (status = pass.RunLayers(); !status.ok()) return status;
  if (!watch.logits && watch.scaling == nullptr) return status;  // nobody sees the head
  const kernels::Device& device = *model_->device();
  std::vector<float> logits(watch.logits ? static_cast<size_t>(kMaxLogitRows) * static_cast<size_t>(config.vocab_size)
                                         : 0);
  const auto num_rows = static_cast<int32_t>(inputs.head_rows().size());
  for (int32_t row = 0; row < num_rows; row += kMaxLogitRows) {
    const int32_t block = std::min(kMaxLogitRows, num_rows - row);
    if (status = pass.RunHead(row, block); !status.ok()) return status;
    if (!watch.logits) continue;
    const size_t bytes = static_cast<size_t>(block) * static_cast<size_t>(config.vocab_size) * sizeof(float);
    status = DeviceStatus(device.ops->copy_to_host(device.context, logits.data(), buffers_->layers().logits, bytes),
                          "copy of logits");
    if (status.ok()) status = DeviceStatus(device.ops->synchronize(device.context), "copy of logits");
    if (!status.ok()) return status;
    watch.logits(row, block, logits.data());
  }
  return status;
}

absl::Status TextWindows::Run(std::span<const TokenId> tokens, const Watch& watch) const {
  if (tokens.empty()) return absl::InvalidArgumentError("the text has no tokens");
  const auto window = static_cast<size_t>(window_);
  for (size_t first = 0; first < tokens.size(); first += window) {
    absl::Status status = RunWindow(tokens.subspan(first, std::min(window, tokens.size() - first)), watch);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Perplexity> MeasurePerplexity(const Model& model, std::span<const TokenId> tokens) {
  const absl::StatusOr<TextWindows> windows = TextWindows::Create(model, ExecutionMode::kFused);
  if (!windows.ok()) return windows.status();
  const auto window = static_cast<size_t>(windows->window());
  Perplexity perplexity;
  double sum = 0.0;
  size_t begin = 0;  // of the running window
  TextWindows::Watch watch;
  watch.logits = [&](int32_t first, int32_t count, const float* logits) {
    const size_t end = std::min(begin + window, tokens.size());
    for (int32_t row = 0; row < count; ++row) {
      const size_t next = begin + static_cast<size_t>(first + row) + 1;
      if (next == end) {
        begin = end;
        return;
      }
      const int32_t vocab_size = model.config().vocab_size;
      sum += NegativeLogLikelihood(logits + int64_t{row} * vocab_size, vocab_size, tokens[next]);
      ++perplexity.scored_tokens;
    }
  };
  if (const absl::Status status = windows->Run(tokens, watch); !status.ok()) return status;
  if (perplexity.scored_tokens == 0) return absl::InvalidArgumentError("perplexity needs a text of 2 tokens or more");
  perplexity.value = std::exp(sum / static_cast<double>(perplexity.scored_tokens));
  return perplexity;
}

}  // namespace dunlin::engine
