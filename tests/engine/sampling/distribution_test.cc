// SPDX-License-Identifier: Apache-2.0
// Samples follow the requested distribution: chi-square over many draws with fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/sampling/sampling_fixture.h"

namespace dunlin::engine {
namespace {

constexpr int kDraws = 20000;

// Probabilities after temperature, min_p, top_k, top_p, written as plainly as possible.
std::vector<double> Expected(const std::vector<float>& logits, const SamplingParams& sampling) {
  std::vector<double> p(logits.size());
  const auto max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  for (size_t i = 0; i < p.size(); ++i) {
    p[i] = std::exp((static_cast<double>(logits[i]) - max) / static_cast<double>(sampling.temperature));
    if (p[i] < static_cast<double>(sampling.min_p)) p[i] = 0.0;
  }
  std::vector<size_t> order(p.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  double total = 0.0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (sampling.top_k > 0 && rank >= static_cast<size_t>(sampling.top_k)) p[order[rank]] = 0.0;
    total += p[order[rank]];
  }
  double kept = 0.0;
  for (size_t i : order) {
    if (kept >= static_cast<double>(sampling.top_p) * total) p[i] = 0.0;
    kept += p[i];
  }
  for (double& x : p) x /= kept;
  return p;
}

// Chi-square over cells of at least five expected draws; rarer tokens share one cell. Returns (statistic, freedom).
std::pair<double, int> ChiSquare(const std::vector<double>& p, const std::vector<int>& seen) {
  double statistic = 0.0;
  double rare_expected = 0.0;
  int rare_seen = 0;
  int cells = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (expected < 5.0) {
      rare_expected += expected;
      rare_seen += seen[i];
      continue;
    }
    statistic += (seen[i] - expected) * (seen[i] - expected) / expected;
    ++cells;
  }
  if (rare_expected > 5.0) {
    statistic += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    ++cells;
  }
  return {statistic, cells - 1};
}

struct Setting {
  const char* name;
  int32_t vocab_size;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
};

class Distribution : public ::testing::TestWithParam<Setting> {};

TEST_P(Distribution, MatchesTheReference) {
  const Setting& setting = GetParam();
  const std::vector<float> logits = RandomLogits(setting.vocab_size, 1.5F, 77);
  SampleCase test;
  test.sampling.temperature = setting.temperature;
  test.sampling.top_k = setting.top_k;
  test.sampling.top_p = setting.top_p;
  test.sampling.min_p = setting.min_p;
  const std::vector<double> p = Expected(logits, test.sampling);

  Sampler sampler(setting.vocab_size);
  std::vector<int> seen(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    test.sampling.seed = static_cast<uint64_t>(i);
    TokenOutput out;
    ASSERT_TRUE(sampler.Sample(test.Input(logits), &out));
    ++seen[static_cast<size_t>(out.token_id)];
  }
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0.0) continue;
    EXPECT_EQ(seen[i], 0) << "token " << i << " was cut off and drawn";
  }
  const auto [statistic, freedom] = ChiSquare(p, seen);
  // Mean freedom, deviation sqrt(2 freedom): four deviations above the mean are beyond the 0.1% tail from freedom 5 on.
  EXPECT_LT(statistic, freedom + 4 * std::sqrt(2.0 * freedom) + 3) << freedom;
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Distribution,
    ::testing::Values(Setting{"plain", 50, 1.0F, 0, 1.0F, 0.0F}, Setting{"across_blocks", 1500, 1.0F, 0, 1.0F, 0.0F},
                      Setting{"hot", 50, 3.0F, 0, 1.0F, 0.0F}, Setting{"cold", 50, 0.4F, 0, 1.0F, 0.0F},
                      Setting{"top_k", 300, 1.0F, 12, 1.0F, 0.0F}, Setting{"top_p", 300, 1.0F, 0, 0.8F, 0.0F},
                      Setting{"min_p", 300, 1.0F, 0, 1.0F, 0.1F}, Setting{"all", 300, 0.8F, 30, 0.9F, 0.05F}),
    [](const auto& test) { return std::string(test.param.name); });

// Consecutive positions of one request must not be correlated: a two-dimensional chi-square on pairs.
TEST(Distribution, PairsOfConsecutivePositionsAreIndependent) {
  constexpr int kTokens = 8;
  const std::vector<float> logits(kTokens, 0.0F);
  Sampler sampler(kTokens);
  std::vector<int> seen(kTokens * kTokens);
  SampleCase test;
  test.tokens.assign(1, 0);
  test.sampling.seed = 4711;
  TokenId previous = 0;
  for (int i = 0; i <= kDraws; ++i) {
    test.tokens.push_back(0);
    TokenOutput out;
    ASSERT_TRUE(sampler.Sample(test.Input(logits), &out));
    if (i > 0) ++seen[static_cast<size_t>(previous * kTokens + out.token_id)];
    previous = out.token_id;
  }
  const std::vector<double> uniform(kTokens * kTokens, 1.0 / (kTokens * kTokens));
  const auto [statistic, freedom] = ChiSquare(uniform, seen);
  EXPECT_LT(statistic, freedom + 4 * std::sqrt(2.0 * freedom));
}

}  // namespace
}  // namespace dunlin::engine
