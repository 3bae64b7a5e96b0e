// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/engine/sampling/sampling_fixture.h"

namespace dunlin::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenId SampleOne(const SampleCase& test, const std::vector<float>& logits) {
  Sampler sampler(static_cast<int32_t>(logits.size()));
  TokenOutput out;
  EXPECT_TRUE(sampler.Sample(test.Input(logits), &out));
  return out.token_id;
}

TEST(Sampler, GreedyTakesTheLowestOfEqualTokens) {
  SampleCase test;
  test.sampling.temperature = 0.0F;
  EXPECT_EQ(SampleOne(test, {1.0F, 7.0F, 7.0F, 2.0F}), 1);
}

TEST(Sampler, TopKOfOneMinPOfOneAndATinyTopPAreGreedyAtAnyTemperature) {
  const std::vector<float> logits = RandomLogits(1000, 0.1F, 3);
  SampleCase greedy;
  greedy.sampling.temperature = 0.0F;
  const TokenId best = SampleOne(greedy, logits);
  for (float temperature : {1e-38F, 0.1F, 1.0F, 100.0F}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SampleCase test;
      test.sampling.temperature = temperature;
      test.sampling.seed = seed;
      test.sampling.top_k = 1;
      EXPECT_EQ(SampleOne(test, logits), best);
      test.sampling.top_k = 0;
      test.sampling.min_p = 1.0F;
      EXPECT_EQ(SampleOne(test, logits), best);
      test.sampling.min_p = 0.0F;
      test.sampling.top_p = 1e-9F;
      EXPECT_EQ(SampleOne(test, logits), best);
    }
  }
}

TEST(Sampler, ReportsNumericalErrorForABadRow) {
  for (float bad : {kNan, kInfinity}) {
    for (size_t at : {size_t{0}, size_t{17}, size_t{49}}) {
      std::vector<float> logits(50, 0.0F);
      logits[at] = bad;
      Sampler sampler(50);
      TokenOutput out;
      SampleCase test;
      EXPECT_FALSE(sampler.Sample(test.Input(logits), &out));
      EXPECT_FALSE(sampler.Score(logits.data(), 3, 0, &out));
    }
  }
}

TEST(Sampler, ReportsNumericalErrorWhenTheEditsLeaveNoToken) {
  const std::vector<float> logits(50, 0.0F);
  Sampler sampler(50);
  SampleCase test;
  test.allowed_tokens = {0, 0};
  TokenOutput out;
  EXPECT_FALSE(sampler.Sample(test.Input(logits), &out));
}

TEST(Sampler, DrawsTheOnlyTokenThatIsLeft) {
  for (size_t at : {size_t{0}, size_t{255}, size_t{256}, size_t{999}}) {
    std::vector<float> logits(1000, -kInfinity);
    logits[at] = -80.0F;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      SampleCase test;
      test.sampling.seed = seed;
      test.sampling.top_p = seed % 2 == 0 ? 1.0F : 0.5F;
      test.sampling.top_k = seed % 3 == 0 ? 0 : 5;
      EXPECT_EQ(SampleOne(test, logits), static_cast<TokenId>(at));
    }
  }
}

TEST(Sampler, HonoursTheTokenMask) {
  const std::vector<float> logits = RandomLogits(100, 1.0F, 5);
  Sampler sampler(100);
  int seen33 = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SampleCase test;
    test.sampling.seed = seed;
    test.allowed_tokens = {0, 0b1010, 0, 0};  // 33 and 35
    TokenOutput out;
    ASSERT_TRUE(sampler.Sample(test.Input(logits), &out));
    ASSERT_TRUE(out.token_id == 33 || out.token_id == 35);
    seen33 += out.token_id == 33 ? 1 : 0;
  }
  EXPECT_GT(seen33, 0);
  EXPECT_LT(seen33, 200);
}

TEST(Sampler, LogprobsAreOfTheRawRowWhateverTheRequestAsks) {
  const std::vector<float> logits = RandomLogits(1000, 3.0F, 8);
  double sum = 0.0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  SampleCase test;
  test.sampling.temperature = 5.0F;
  test.sampling.logit_bias = {{4, 100.0F}};
  test.sampling.top_k = 3;
  test.sampling.logprobs = 2;
  Sampler sampler(1000);
  TokenOutput out;
  ASSERT_TRUE(sampler.Sample(test.Input(logits), &out));
  EXPECT_EQ(out.token_id, 4);
  EXPECT_NEAR(out.logprob, static_cast<double>(logits[4]) - std::log(sum), 2e-6);
  EXPECT_EQ(out.num_top, 2);
  EXPECT_NE(out.top[0].token_id, 4);
  EXPECT_EQ(out.rank, std::count_if(logits.begin(), logits.end(), [&](float x) { return x >= logits[4]; }));
  EXPECT_GT(out.rank, 2);
  TokenOutput best;
  ASSERT_TRUE(sampler.Score(logits.data(), out.top[0].token_id, 0, &best));
  EXPECT_EQ(best.rank, 1);
  EXPECT_EQ(best.num_top, 0);
}

TEST(Sampler, EqualTokensShareTheLastRankOfTheirs) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 2.0F, 2.0F, -1.0F};
  Sampler sampler(6);
  const int32_t ranks[] = {5, 1, 4, 4, 4, 6};  // vLLM's: how many are at least as likely
  for (TokenId id = 0; id < 6; ++id) {
    TokenOutput out;
    ASSERT_TRUE(sampler.Score(logits.data(), id, 0, &out));
    EXPECT_EQ(out.rank, ranks[id]) << id;
  }
}

TEST(Sampler, LogprobsDoNotChangeTheDraw) {
  const std::vector<float> logits = RandomLogits(500, 1.0F, 21);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SampleCase test;
    test.sampling.seed = seed;
    const TokenId plain = SampleOne(test, logits);
    test.sampling.logprobs = 20;
    EXPECT_EQ(SampleOne(test, logits), plain);
  }
}

TEST(Sampler, SeedOutputIndexAndPositionDrawIndependently) {
  const std::vector<float> logits(4096, 0.0F);
  SampleCase base;
  SampleCase other_seed;
  other_seed.sampling.seed = 1;
  SampleCase other_output;
  other_output.output_index = 1;
  SampleCase other_position;
  other_position.tokens = {0, 0};
  const TokenId drawn = SampleOne(base, logits);
  EXPECT_EQ(SampleOne(base, logits), drawn);
  EXPECT_NE(SampleOne(other_seed, logits), drawn);
  EXPECT_NE(SampleOne(other_output, logits), drawn);
  EXPECT_NE(SampleOne(other_position, logits), drawn);
}

TEST(Sampler, ARowDoesNotDependOnTheRowsSampledBefore) {
  Sampler used(300);
  for (uint32_t i = 0; i < 100; ++i) {
    const std::vector<float> logits = RandomLogits(300, 2.0F, i);
    SampleCase test;
    test.sampling.seed = i;
    test.sampling.top_p = i % 2 == 0 ? 0.8F : 1.0F;
    test.sampling.top_k = i % 3 == 0 ? 10 : 0;
    test.sampling.frequency_penalty = i % 5 == 0 ? 0.5F : 0.0F;
    test.sampling.repetition_penalty = i % 7 == 0 ? 1.3F : 1.0F;
    test.stopping.min_tokens = i % 4 == 0 ? 10 : 0;
    test.sampling.logprobs = 5;
    test.tokens = {1, 2, 3, 3, static_cast<TokenId>(i)};
    test.eos_token_ids = {7};
    Sampler fresh(300);
    TokenOutput a;
    TokenOutput b;
    ASSERT_TRUE(used.Sample(test.Input(logits), &a));
    ASSERT_TRUE(fresh.Sample(test.Input(logits), &b));
    EXPECT_EQ(a.token_id, b.token_id);
    EXPECT_EQ(a.logprob, b.logprob);
  }
}

// Every pair of options together on small rows: no crash, a token in range (reliability table A4).
TEST(Sampler, EveryPairOfOptionsGivesATokenInRange) {
  using Option = void (*)(SampleCase*);
  const Option options[] = {
      [](SampleCase* c) { c->sampling.temperature = 0.0F; },
      [](SampleCase* c) { c->sampling.temperature = 100.0F; },
      [](SampleCase* c) { c->sampling.top_k = 3; },
      [](SampleCase* c) { c->sampling.top_p = 0.3F; },
      [](SampleCase* c) { c->sampling.min_p = 0.5F; },
      [](SampleCase* c) { c->sampling.repetition_penalty = 10.0F; },
      [](SampleCase* c) { c->sampling.repetition_penalty = 1e-6F; },
      [](SampleCase* c) { c->sampling.presence_penalty = -2.0F; },
      [](SampleCase* c) { c->sampling.frequency_penalty = 2.0F; },
      [](SampleCase* c) {
        c->sampling.logit_bias = {{0, -100.0F}, {5, 100.0F}};
      },
      [](SampleCase* c) { c->sampling.logprobs = 20; },
      [](SampleCase* c) { c->stopping.min_tokens = 9; },
      [](SampleCase* c) {
        c->stopping.stop_token_ids = {1, 2, 3};
      },
      [](SampleCase* c) { c->stopping.ignore_eos = true; },
  };
  const std::vector<float> logits = RandomLogits(11, 3.0F, 2);
  for (Option first : options) {
    for (Option second : options) {
      SampleCase test;
      test.tokens = {1, 2, 2, 5};
      test.eos_token_ids = {4};
      first(&test);
      second(&test);
      Sampler sampler(11);
      TokenOutput out;
      ASSERT_TRUE(sampler.Sample(test.Input(logits), &out));
      EXPECT_GE(out.token_id, 0);
      EXPECT_LT(out.token_id, 11);
    }
  }
}

}  // namespace
}  // namespace dunlin::engine
