// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/kv_demand.h"

#include <gtest/gtest.h>

#include "tests/engine/runtime/small_models.h"

namespace dunlin::engine {
namespace {

const std::vector<Precision> kBf16 = {Precision::kBf16};
const std::vector<Precision> kWithFp32 = {Precision::kBf16, Precision::kFp32};

EngineOptions Options() {
  EngineOptions options;
  options.max_sequences = 3;
  return options;
}

TEST(KvDemand, CountsWholePagesOfContexts) {
  // A page: 1 layer, 2 KV heads, K and V, 16 tokens of 6 BF16 values: 768 bytes; 64 tokens take 4 of them.
  const KvDemand demand = KvDemandOf(SmallLlamaConfig(), kBf16, Options());
  EXPECT_EQ(demand.page_bytes, 768U);
  EXPECT_EQ(demand.context_tokens, 64);
  EXPECT_EQ(demand.one_context, 4U * 768);
  EXPECT_EQ(demand.most, 3U * 4 * 768);
}

TEST(KvDemand, FollowsTheWidestPrecisionAndTheContextLimit) {
  EngineOptions options = Options();
  EXPECT_EQ(KvDemandOf(SmallLlamaConfig(), kWithFp32, options).one_context, 8U * 768) << "8 FP32 tokens a page";
  options.max_context_tokens = 17;
  EXPECT_EQ(KvDemandOf(SmallLlamaConfig(), kBf16, options).one_context, 2U * 768);
  options.max_context_tokens = 1000;
  EXPECT_EQ(KvDemandOf(SmallLlamaConfig(), kBf16, options).one_context, 4U * 768) << "the model's own limit";
}

TEST(KvDemand, LongContextsCountWithTheirUsualLength) {
  ModelConfig config = SmallLlamaConfig();
  config.max_context = 100000;
  EngineOptions options = Options();
  EXPECT_EQ(KvDemandOf(config, kBf16, options).one_context, 6250U * 768);
  EXPECT_EQ(KvDemandOf(config, kBf16, options).most, 6250U * 768) << "one full context at least";
  options.max_sequences = 64;
  EXPECT_EQ(KvDemandOf(config, kBf16, options).most, size_t{64} * (kUsualContextTokens / 16) * 768);
}

// Pages of one attention layer: 768 bytes, 4 of them for a context of 64 tokens. A state: 2 layers of 2 rows of 32
// channels and 4 heads of 3 x 16 floats: 2048 bytes, in 3 pages.
TEST(KvDemand, OfARecurrentModelContextsHaveAState) {
  const ModelConfig config = SmallDeltaConfig();
  EXPECT_EQ(StateBytesOf(config), 2U * (2 * 32 + 4 * 3 * 16) * 4);
  const KvDemand demand = KvDemandOf(config, kBf16, Options());
  EXPECT_EQ(demand.page_bytes, 768U);
  EXPECT_EQ(demand.one_context, (4U + 3) * 768);
  EXPECT_EQ(demand.most, (3U * 4 + 16) * 768) << "two states of each sequence";
  EXPECT_EQ(StateSlotsIn(config, kBf16, Options(), demand.most), 5) << "one of each sequence, two for the cache";
  EXPECT_EQ(StateSlotsIn(config, kBf16, Options(), demand.one_context), 1);
  EXPECT_EQ(StateSlotsIn(config, kBf16, Options(), 2U * (4 * 768 + 2048)), 2);
  EXPECT_EQ(StateSlotsIn(SmallLlamaConfig(), kBf16, Options(), 100000), 0);
  EXPECT_EQ(ContextThatFits(config, kBf16, Options(), demand.one_context), 64);
  EXPECT_EQ(ContextThatFits(config, kBf16, Options(), 2048 + 768), 16);
}

TEST(KvDemand, OfSlidingLayersAContextTakesItsWindowAndAStep) {
  ModelConfig config = SmallLlamaConfig();
  config.num_layers = 2;
  config.max_context = 100000;
  config.attention.layer_windows = {33, 0};
  EngineOptions options = Options();
  options.max_tokens_per_step = 17;
  // 49 tokens from the first that a step reads to the last, which begin anywhere in a page of 16.
  const KvDemand demand = KvDemandOf(config, kBf16, options);
  EXPECT_EQ(demand.page_bytes, 768U) << "one layer";
  EXPECT_EQ(demand.one_context, (6250U + 4) * 768);
  EXPECT_EQ(ContextThatFits(config, kBf16, options, (6250U + 4) * 768), 100000);
  EXPECT_EQ(ContextThatFits(config, kBf16, options, (6250U + 3) * 768), 6249 * 16);
  config.attention.layer_windows = {33, 20};
  EXPECT_EQ(KvDemandOf(config, kBf16, options).page_bytes, 2 * 768U);
  EXPECT_EQ(KvDemandOf(config, kBf16, options).one_context, 4U * 2 * 768);
  EXPECT_EQ(ContextThatFits(config, kBf16, options, 4U * 2 * 768), 100000);
}

TEST(KvDemand, UsesTheE4M3PageWhereThePoolDoes) {
  EngineOptions options = Options();
  options.kv_fp8 = true;
  const KvDemand demand = KvDemandOf(SmallLlamaConfig(), {Precision::kFp8}, options);
  EXPECT_EQ(demand.page_bytes, 1280U);
  EXPECT_EQ(demand.one_context, 2U * 1280);
  EXPECT_EQ(KvDemandOf(SmallLlamaConfig(), kBf16, options).page_bytes, 768U) << "FP8 is not resident";
}

TEST(KvDemand, SaysWhichContextFits) {
  const ModelConfig config = SmallLlamaConfig();
  EXPECT_EQ(ContextThatFits(config, kBf16, Options(), 767), 0);
  EXPECT_EQ(ContextThatFits(config, kBf16, Options(), 2 * 768 + 1), 32);
  EXPECT_EQ(ContextThatFits(config, kWithFp32, Options(), 2 * 768), 16);
  EXPECT_EQ(ContextThatFits(config, kBf16, Options(), size_t{1} << 40), 64);
}

}  // namespace
}  // namespace dunlin::engine
