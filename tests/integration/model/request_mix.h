// SPDX-License-Identifier: Apache-2.0
// Seeded random requests and random engines for the bit contract: prompts that share prefixes, every sampling option,
// every profile; engines with few pages, few tokens a step, with and without the prefix cache.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "engine/model/model.h"
#include "engine/request/options.h"
#include "engine/request/types.h"

namespace dunlin::engine {

class RequestMix {
 public:
  explicit RequestMix(uint32_t seed) : random_(seed) {}

  // A request of at most max_prompt + max_output tokens. Half of all prompts begin with one of a few shared prefixes.
  Request DrawRequest(const ModelConfig& config, const ExecutionProfile& profile);
  // An engine in which any one of these requests fits, and often not two.
  EngineOptions DrawOptions(const ModelConfig& config, bool kv_fp8);
  // Uniform in [low, high].
  int32_t Draw(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  static constexpr int32_t kMaxPrompt = 60;
  static constexpr int32_t kMaxOutput = 96;

 private:
  void DrawSampling(const ModelConfig& config, Request* request);
  TokenId DrawToken(const ModelConfig& config) { return Draw(0, config.vocab_size - 1); }

  std::mt19937 random_;
  std::mt19937 drafts_{7};  // of speculation, which nothing depends on
};

// Every backend with every precision. kv_fp8: EngineOptions'.
std::vector<ExecutionProfile> AllCpuProfiles(bool kv_fp8 = false);
// Those that a model's device takes.
std::vector<ExecutionProfile> SupportedProfiles(const Model& model, const std::vector<Precision>& precisions,
                                                bool kv_fp8 = false);

}  // namespace dunlin::engine
