// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/spec/rank_config.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_graphs.h"
#include "tests/engine/runtime/fake_device.h"
#include "tests/engine/runtime/small_models.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

constexpr auto kEveryPrecision = kernels::EnumeratorsOf(kernels::kPrecisionTable, &kernels::PrecisionTraits::precision);

class MemoryPlanTest : public ::testing::Test {
 protected:
  MemoryPlanTest() {
    options_.max_sequences = 3;
    options_.max_tokens_per_step = 10;
    options_.kv_memory_bytes = 10000;
  }
  absl::StatusOr<MemoryPlan> Plan(const ModelConfig& config) {
    return PlanMemory(config, resident_, *device_, options_);
  }

  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  std::vector<Precision> resident_ = {Precision::kBf16, Precision::kFp32};
  EngineOptions options_;
};

TEST_F(MemoryPlanTest, CountsEveryPart) {
  const MemoryPlan plan = *Plan(SmallLlamaConfig());
  // A page: 1 layer, 2 KV heads, K and V, 16 tokens of 6 BF16 values (or 8 of FP32): 2 * 2 * 16 * 6 * 2.
  EXPECT_EQ(plan.num_pages, 10000 / 768);
  EXPECT_EQ(plan[BufferId::kKvPool], 13U * 768U);
  EXPECT_EQ(plan[BufferId::kHidden], 10U * 8 * 4);
  EXPECT_EQ(plan[BufferId::kQkv], 10U * 48 * 4);
  EXPECT_EQ(plan[BufferId::kAttention], 10U * 24 * 4);
  EXPECT_EQ(plan[BufferId::kMlp], 10U * 40 * 4);
  EXPECT_EQ(plan[BufferId::kActivation], 10U * 24 * 4);  // FP32 rows of the attention output, the widest
  EXPECT_EQ(plan[BufferId::kRotary], 10U * 6 * 4);
  EXPECT_EQ(plan[BufferId::kFrequencies], 3U * 4);
  EXPECT_EQ(plan[BufferId::kIndices], 10U * 6 * 4);
  EXPECT_EQ(plan[BufferId::kKeptRows], 10U * (8 + 24) * 4);
  EXPECT_EQ(plan[BufferId::kSpans], 3U * 3 * 16);
  EXPECT_EQ(plan[BufferId::kPageTable], 3U * 8 * 4);  // 64 tokens of FP32: 8 pages
  EXPECT_EQ(plan[BufferId::kLogits], 64U * 100 * 4);
  EXPECT_EQ(plan[BufferId::kWorkspace], 10000U);  // MATH's, by the fake
}

TEST_F(MemoryPlanTest, PagesOfLatentAttentionHoldOneRowOfAToken) {
  const ModelConfig config = SmallLatentConfig(7);
  const MemoryPlan plan = *Plan(config);
  // A page: 1 layer, 16 tokens of 16 BF16 numbers (or 8 of FP32). The keys and values of 4 heads have 56 numbers.
  EXPECT_EQ(plan.num_pages, 10000 / 512);
  EXPECT_EQ(plan[BufferId::kKvPool], 19U * 512);
  EXPECT_EQ(plan[BufferId::kQkv], 10U * (4 + 1) * 16 * 4) << "a query of each head and the row";
  EXPECT_EQ(plan[BufferId::kAttention], 10U * 4 * 10 * 4) << "sums of latent rows";
  EXPECT_EQ(plan[BufferId::kKeptRows], 10U * (8 + 4 * 16) * 4);
  // Rows before and after a norm, queries, and values, each at a cache line.
  EXPECT_EQ(plan[BufferId::kLatent], 448U + 1472U + 832U);
  resident_ = {Precision::kFp8};
  options_.kv_fp8 = true;
  const absl::Status fp8 = Plan(config).status();
  EXPECT_EQ(fp8.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(fp8.message()), HasSubstr("models[].kv_cache.fp8 is true, but deepseek_v2 keeps one latent"));
}

TEST_F(MemoryPlanTest, StatesAndPagesShareTheKvMemory) {
  const ModelConfig config = SmallDeltaConfig();
  // A state takes 2048 bytes, a context of 64 tokens 8 pages of FP32, 6144 bytes.
  const MemoryPlan plan = *Plan(config);
  EXPECT_EQ(plan.num_state_slots, 1);
  EXPECT_EQ(plan[BufferId::kState], 2048U);
  EXPECT_EQ(plan.num_pages, (10000 - 2048) / 768) << "of the one layer that attends";
  EXPECT_EQ(plan[BufferId::kQkv], 10U * 52 * 4) << "queries, keys, values and z of a delta net";
  EXPECT_EQ(plan[BufferId::kGate], 10U * 24 * 4);
  EXPECT_EQ(plan[BufferId::kDelta], 320U + 1280U + 832U) << "gates, mixed rows, scan, each at a cache line";
  options_.kv_memory_bytes = 100000;
  // 3 sequences with 4 pages each, and a state for the prefix cache next to each 8 pages of what they leave.
  EXPECT_EQ(Plan(config)->num_state_slots, 3 + (100000 - 3 * (2048 + 4 * 768)) / (2048 + 8 * 768));
  options_.kv_memory_bytes = 2048 + 767;
  const absl::Status none = Plan(config).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("the KV cache of 2815 bytes holds no sequence: its state takes 2048 bytes and its first pages "
                        "768 (models[].kv_cache.memory_bytes)"));
}

TEST_F(MemoryPlanTest, MambaLayersAndTheRowsOfTheirExpertsHaveBuffers) {
  const ModelConfig config = SmallMambaConfig();
  const MemoryPlan plan = *Plan(config);
  EXPECT_EQ(StateBytesOf(config), (2U * 32 + 4 * 16 * 3) * 4) << "two rows before the convolution, four heads' states";
  EXPECT_EQ(plan[BufferId::kQkv], 10U * 56 * 4) << "z, x, B, C and a step of each head";
  EXPECT_EQ(plan[BufferId::kMamba], 1280U + 832U) << "mixed rows and scan, each at a cache line";
  EXPECT_EQ(plan[BufferId::kDelta], 0U);
  ModelConfig wide = config;
  wide.experts.latent_dim = 0;
  EXPECT_EQ(plan[BufferId::kExperts], (*Plan(wide))[BufferId::kExperts] - 640 + 512 + 256)
      << "what 20 choices give has 6 columns, not 8, and so has what the experts read, each at a cache line";
}

TEST_F(MemoryPlanTest, ARecurrentModelThatEmbedsIsRefused) {
  ModelConfig config = SmallDeltaConfig();
  config.kind = ModelKind::kEncoder;
  EXPECT_THAT(std::string(Plan(config).status().message()), HasSubstr("served in decoders alone: it cannot embed"));
}

TEST_F(MemoryPlanTest, ProductsOfExpertsHaveARowForEachTokenAndChoice) {
  ModelConfig config = SmallExpertsConfig();
  config.experts.ffn_dim = 30;
  options_.execution = ExecutionMode::kEager;
  const MemoryPlan plan = *Plan(config);
  EXPECT_EQ(plan[BufferId::kMlp], 20U * 60 * 4) << "both choices of 10 tokens, gate and up";
  EXPECT_EQ(plan[BufferId::kActivation], 20U * 30 * 4);
  EXPECT_EQ(plan[BufferId::kUnfused], 20U * 30 * 4);
  // Rows before and after the experts, logits, five arrays of choices, and the rows of each expert; at cache lines.
  EXPECT_EQ(plan[BufferId::kExperts], 320U + 640U + 192U + 5 * 128U + 64U);
}

TEST_F(MemoryPlanTest, Fp8KvGivesEveryPageOfThePoolTheSizeOfAnE4M3Page) {
  const ModelConfig config = SmallLlamaConfig();
  options_.kv_fp8 = true;
  EXPECT_EQ((*Plan(config))[BufferId::kKvPool], 13U * 768U) << "FP8 is not resident";
  resident_ = {Precision::kBf16, Precision::kFp8};
  const MemoryPlan plan = *Plan(config);
  // 1 layer, 2 KV heads, K and V, 32 tokens of 6 codes and a scale: 2 * 2 * 32 * (6 + 4).
  EXPECT_EQ(plan.num_pages, 10000 / 1280);
  EXPECT_EQ(plan[BufferId::kKvPool], 7U * 1280U);
  EXPECT_EQ(plan.max_pages_per_sequence, 4) << "64 tokens of BF16, 16 a page";
  for (const Precision precision : kEveryPrecision) {
    const kernels::KvLayout layout = KvLayoutOf(config, precision, plan.kv_fp8);
    EXPECT_EQ(layout.page_bytes, 1280U) << kernels::Name(precision);
    EXPECT_EQ(layout.tokens_per_page,
              KvLayoutOf(config, precision).tokens_per_page * (precision == Precision::kFp8 ? 2 : 1));
  }
  resident_ = {Precision::kFp8};
  EXPECT_EQ(Plan(config)->max_pages_per_sequence, 2) << "64 tokens of E4M3, 32 a page";
}

TEST_F(MemoryPlanTest, PostNormsNeedATermOfTheirOwn) {
  ModelConfig config = SmallLlamaConfig();
  EXPECT_EQ((*Plan(config))[BufferId::kTerm], 0U);
  config.norm.placement = NormPlacement::kPreAndPost;
  EXPECT_EQ((*Plan(config))[BufferId::kTerm], 10U * 8 * 4);
}

TEST_F(MemoryPlanTest, WorkspaceLeavesOutBackendsThatAreOffOrUnsupported) {
  options_.Enable(kernels::AttentionBackend::kMath, false);
  EXPECT_EQ((*Plan(SmallLlamaConfig()))[BufferId::kWorkspace], 100U);
  options_.Enable(kernels::AttentionBackend::kMath, true);
  support_.refusals[kernels::AttentionBackend::kMath] = "no";
  EXPECT_EQ((*Plan(SmallLlamaConfig()))[BufferId::kWorkspace], 100U);
}

TEST_F(MemoryPlanTest, ContextIsTheSmallerOfModelAndConfig) {
  EXPECT_EQ(Plan(SmallLlamaConfig())->max_context_tokens, 64);
  options_.max_context_tokens = 20;
  EXPECT_EQ(Plan(SmallLlamaConfig())->max_context_tokens, 20);
  EXPECT_EQ(Plan(SmallLlamaConfig())->max_pages_per_sequence, 3);
  options_.max_context_tokens = 1000;
  EXPECT_EQ(Plan(SmallLlamaConfig())->max_context_tokens, 64);
}

TEST_F(MemoryPlanTest, RefusesKvMemoryBelowOnePage) {
  options_.kv_memory_bytes = 767;
  const absl::Status status = Plan(SmallLlamaConfig()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("models[].kv_cache.memory_bytes"));
}

TEST_F(MemoryPlanTest, AlternatingLayersHavePagesOfTheirOwn) {
  ModelConfig config = SmallLlamaConfig();
  config.num_layers = 3;
  config.attention.layer_windows = {20, 0, 20};
  const MemoryPlan plan = *Plan(config);
  EXPECT_EQ(plan.kv_groups.num_full, 1);
  EXPECT_EQ(plan.kv_groups.num_sliding, 2);
  EXPECT_EQ(plan.num_pages, 13) << "of one layer each";
  EXPECT_EQ(plan.max_pages_per_sequence, 8) << "of one group";
  EXPECT_EQ(plan[BufferId::kIndices], 10U * 8 * 4);
  EXPECT_EQ(plan[BufferId::kPageTable], 3U * 3 * 8 * 4);
  options_.kv_memory_bytes = 3 * 768 - 1;
  EXPECT_THAT(std::string(Plan(config).status().message()), HasSubstr("holds 2 pages of 768 bytes; it needs 3 to"));
}

TEST_F(MemoryPlanTest, RecordedStepsOfADeviceThatRecordsHaveRoom) {
  EXPECT_EQ(Plan(SmallGpt2Config())->num_graphs, 0) << "the device records none";
  const size_t without = Plan(SmallGpt2Config())->total();
  support_.graphs = true;
  const ModelConfig config = SmallGpt2Config();
  const MemoryPlan plan = *Plan(config);
  EXPECT_EQ(plan.num_graphs, kMaxGraphs);
  EXPECT_EQ(plan[BufferId::kGraphs], static_cast<size_t>(kMaxGraphs) * GraphBytes(config.num_layers));
  EXPECT_EQ(plan.total(), without + plan[BufferId::kGraphs]);
  EXPECT_THAT(Describe(plan), HasSubstr("step graphs"));
  EXPECT_EQ(Plan(SmallDeltaConfig())->num_graphs, 0) << "which slots are copied is in host memory";
  const auto ranks = PlanRanks(config, 2, resident_, *device_, options_);
  ASSERT_TRUE(ranks.ok());
  for (const MemoryPlan& rank : *ranks) EXPECT_EQ(rank.num_graphs, 0);
  const auto buffers = StepBuffers::Allocate(plan, {}, device_.get());
  ASSERT_TRUE(buffers.ok());
  EXPECT_EQ(log_.bytes_held, without) << "StepGraphs has the rest";
  options_.execution = ExecutionMode::kEager;
  EXPECT_EQ(Plan(config)->num_graphs, 0);
}

TEST_F(MemoryPlanTest, LinkedRanksHaveCopiesAndRecordSteps) {
  const ModelConfig config = SmallGpt2Config();
  kernels::DeviceOps linked = *device_->ops;
  linked.link_ranks = [](kernels::DeviceContext* const*, int32_t, std::string*) -> kernels::RankLinks* {
    return nullptr;
  };
  support_.graphs = true;
  const std::vector<MemoryPlan> sharing = *PlanRanks(config, 2, resident_, *device_, options_);
  device_->ops = &linked;
  const std::vector<MemoryPlan> ranks = *PlanRanks(config, 2, resident_, *device_, options_);
  for (const BufferId copied :
       {BufferId::kHidden, BufferId::kTerm, BufferId::kLogits, BufferId::kKeptRows, BufferId::kGathered}) {
    EXPECT_EQ(ranks[1][copied], ranks[0][copied]) << Traits(copied).name;
  }
  EXPECT_GE(ranks[0][BufferId::kGathered], sharing[0][BufferId::kGathered]);
  EXPECT_GE(ranks[0][BufferId::kGathered], 2 * ranks[0][BufferId::kHidden]) << "embeddings are gathered there";
  EXPECT_EQ(sharing[1][BufferId::kGathered], 0U);
  EXPECT_EQ(ranks[0].first_token, 0);
  EXPECT_EQ(ranks[1].first_token, RankConfig(config, 1, 2).part(config.vocab_size).first);
  EXPECT_EQ(sharing[1].first_token, 0);
  for (const MemoryPlan& rank : ranks) EXPECT_EQ(rank.num_graphs, kMaxGraphs);
}

TEST_F(MemoryPlanTest, CheckFitsNamesTheLargestPartAndItsKey) {
  const MemoryPlan plan = *Plan(SmallGpt2Config());
  EXPECT_TRUE(CheckFits(plan, plan.total()).ok());
  const absl::Status status = CheckFits(plan, plan.total() - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("logits with 25600 bytes"));
}

TEST_F(MemoryPlanTest, DescribeListsThePartsInUse) {
  const std::string text = Describe(*Plan(SmallGpt2Config()));
  EXPECT_THAT(text, HasSubstr("logits 25600"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("rotary")));
}

TEST_F(MemoryPlanTest, AllocationFailureNamesThePartAndReleasesTheRest) {
  const MemoryPlan plan = *Plan(SmallGpt2Config());
  log_.bytes_left = plan[BufferId::kKvPool] + 100;
  const auto buffers = StepBuffers::Allocate(plan, {}, device_.get());
  EXPECT_EQ(buffers.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(buffers.status().message()), HasSubstr("hidden buffer"));
  EXPECT_THAT(std::string(buffers.status().message()), HasSubstr("scheduler.max_tokens_per_step"));
  EXPECT_EQ(log_.bytes_held, 0U);
}

}  // namespace
}  // namespace dunlin::engine
