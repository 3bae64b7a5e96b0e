// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/request_mix.h"

#include <algorithm>

#include "engine/runtime/kv_demand.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/profiles.h"

namespace dunlin::engine {

std::vector<ExecutionProfile> AllCpuProfiles(bool kv_fp8) {
  std::vector<ExecutionProfile> profiles;
  for (AttentionBackend backend : kernels::kAutoOrder) {
    for (const kernels::PrecisionTraits& traits : kernels::kPrecisionTable) {
      profiles.push_back({DeviceKind::kCpu, backend, traits.precision});
      profiles.back().kv_fp8 = kv_fp8 && traits.precision == Precision::kFp8;
    }
  }
  return profiles;
}

std::vector<ExecutionProfile> SupportedProfiles(const Model& model, const std::vector<Precision>& precisions,
                                                bool kv_fp8) {
  EngineOptions options;
  options.kv_fp8 = kv_fp8;
  const ProfileTable table(model.config(), precisions, *model.device(), options);
  std::vector<ExecutionProfile> profiles;
  for (const ProfileSupport& row : table.rows()) {
    if (row.supported) profiles.push_back(row.profile);
  }
  return profiles;
}

Request RequestMix::DrawRequest(const ModelConfig& config, const ExecutionProfile& profile) {
  Request request;
  request.profile = profile;
  if (Chance(0.5)) {  // a shared prefix: token i of family f is fixed
    const int32_t family = Draw(1, 2);
    const int32_t length = Draw(1, kMaxPrompt - 1);
    for (int32_t i = 0; i < length; ++i) request.prompt.push_back((i * 7 * family + family) % config.vocab_size);
  }
  const int32_t own = Draw(1, std::min(20, kMaxPrompt - static_cast<int32_t>(request.prompt.size())));
  for (int32_t i = 0; i < own; ++i) request.prompt.push_back(DrawToken(config));
  request.stopping.max_tokens = Chance(0.5) ? kMaxOutput : Draw(1, 16);
  request.stopping.ignore_eos = Chance(0.5);
  request.stopping.min_tokens = Chance(0.3) ? Draw(0, request.stopping.max_tokens) : 0;
  if (Chance(0.2)) request.stopping.stop_token_ids = {DrawToken(config), DrawToken(config)};
  request.output_index = Draw(0, 3);
  if (Chance(0.1)) request.cache_salt = "salt";
  DrawSampling(config, &request);
  return request;
}

void RequestMix::DrawSampling(const ModelConfig& config, Request* request) {
  SamplingParams& sampling = request->sampling;
  sampling.seed = static_cast<uint64_t>(Draw(0, 1 << 30));
  sampling.temperature = Chance(0.3) ? 0.0F : static_cast<float>(Draw(2, 30)) / 10.0F;
  if (Chance(0.3)) sampling.top_k = Draw(1, 50);
  if (Chance(0.3)) sampling.top_p = static_cast<float>(Draw(5, 99)) / 100.0F;
  if (Chance(0.2)) sampling.min_p = static_cast<float>(Draw(1, 30)) / 100.0F;
  if (Chance(0.2)) sampling.repetition_penalty = static_cast<float>(Draw(5, 20)) / 10.0F;
  if (Chance(0.2)) sampling.presence_penalty = static_cast<float>(Draw(-20, 20)) / 10.0F;
  if (Chance(0.2)) sampling.frequency_penalty = static_cast<float>(Draw(-20, 20)) / 10.0F;
  if (Chance(0.1)) sampling.logit_bias = {{DrawToken(config), 3.0F}, {DrawToken(config), -50.0F}};
  if (Chance(0.2)) sampling.bad_words = {{DrawToken(config)}, {DrawToken(config), DrawToken(config)}};
  if (Chance(0.1)) sampling.suppressed_token_ids = {DrawToken(config), DrawToken(config)};
  sampling.logprobs = Draw(0, 5);  // always: their bits are what is compared
  if (Chance(0.15)) sampling.prompt_logprobs = Draw(0, 3);
}

EngineOptions RequestMix::DrawOptions(const ModelConfig& config, bool kv_fp8) {
  constexpr int32_t kBudgets[] = {1, 2, 3, 5, 8, 17, 33, 64, 200};
  EngineOptions options;
  options.max_tokens_per_step = kBudgets[static_cast<size_t>(Draw(0, 8))];
  options.max_sequences = Draw(1, 12);
  options.prefix_cache = Chance(0.75);
  // FP32 pages hold 8 tokens: without windows the longest request needs ceil(155 / 8) = 20 of them.
  const KvGroups groups = KvGroupsOf(config);
  const auto least =
      static_cast<int32_t>(groups.MostPages(kMaxPrompt + kMaxOutput - 1, 8, options.max_tokens_per_step));
  const int32_t pages = Chance(0.7) ? Draw(least, least + least / 2) : 200 * groups.count();
  options.kv_fp8 = kv_fp8;
  options.max_drafts = static_cast<int32_t>(drafts_() % 2 * (1 + drafts_() % kMaxDrafts));
  options.adapt_drafts = drafts_() % 4 == 0;
  options.kv_memory_bytes = static_cast<size_t>(pages) * KvLayoutOf(config, Precision::kFp32, kv_fp8).page_bytes;
  if (!config.is_recurrent()) return options;
  options.kv_memory_bytes += static_cast<size_t>(Draw(1, options.max_sequences)) * StateBytesOf(config);
  return options;
}

}  // namespace dunlin::engine
