// SPDX-License-Identifier: Apache-2.0
// Paged attention by every runner: against FP64, and the bit contract: a row has the same bits in
// decode, in any prefill chunk, beside any neighbours, and however its keys are divided among blocks. What a row must
// not see leaves no trace in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/kernels/attention/attention_runner.h"
#include "tests/kernels/attention/paged_error.h"

namespace dunlin::kernels::testing {
namespace {

struct PagedCase {
  size_t runner;  // of Runners()
  AttentionBackend backend;
  DType dtype;
};

class PagedConformanceTest : public ::testing::TestWithParam<PagedCase> {
 protected:
  void SetUp() override {
    std::string reason;
    runner_ = Runners()[GetParam().runner].open(&reason);
    if (runner_ == nullptr) GTEST_SKIP() << Runners()[GetParam().runner].name << ": " << reason;
    const AttentionTraits traits{.dtype = dtype(), .head_dim = 64, .num_heads = 4, .num_kv_heads = 2};
    if (runner_->Takes(backend(), traits)) return;
    ASSERT_TRUE(backend() == AttentionBackend::kFlash && dtype() == DType::kF32) << "no device may refuse these";
    GTEST_SKIP() << "FLASH in FP32 is for a device to refuse: tensor cores do not multiply it";
  }
  AttentionBackend backend() const { return GetParam().backend; }
  DType dtype() const { return GetParam().dtype; }

  PagedBatch Batch(const HeadShape& shape, std::vector<BatchSequence> sequences, uint64_t layout_seed = 1) const {
    return PagedBatch(dtype(), shape, std::move(sequences), layout_seed, runner_->pages());
  }
  std::vector<float> Run(const PagedBatch& batch, Division division = Division::kAsPlanned) const {
    return runner_->Paged(batch, backend(), division);
  }
  void ExpectExact(const PagedBatch& batch, const HeadShape& shape, const std::vector<BatchSequence>& sequences) const;

  const AttentionRunner* runner_ = nullptr;
};

void PagedConformanceTest::ExpectExact(const PagedBatch& batch, const HeadShape& shape,
                                       const std::vector<BatchSequence>& sequences) const {
  const std::vector<float> out = Run(batch);
  const std::vector<DType> roundings = runner_->RoundingsOf(backend(), dtype(), shape.head_dim);
  std::string found;
  const bool holds = std::ranges::any_of(roundings, [&](DType rounding) {
    const ErrorBound bound = PagedError(batch, shape, sequences, rounding, out);
    found += std::to_string(bound.actual()) + ", limit " + std::to_string(bound.limit()) + "; ";
    return bound.holds();
  });
  EXPECT_TRUE(holds) << found << "window " << batch.window << ", head " << shape.head_dim;
}

TEST_P(PagedConformanceTest, StaysWithinTwiceTheUnfusedError) {
  const std::pair<HeadShape, std::vector<BatchSequence>> cases[] = {
      {{3, 3, 64}, {{1, 0, 1}, {2, 238, 1}, {3, 500, 3}, {4, 30, 70}, {5, 0, 0}}},
      {{8, 1, 80}, {{1, 0, 20}, {2, 255, 1}, {3, 256, 1}}},
      {{4, 4, 128}, {{1, 1022, 1}, {2, 0, 9}}},
      {{2, 1, 256}, {{1, 0, 40}, {2, 300, 1}}},
      {{4, 1, 512}, {{1, 0, 40}, {2, 530, 3}}},
      {{20, 1, 576, 512}, {{1, 520, 1}, {2, 0, 7}}},
      {{3, 1, 9}, {{1, 0, 40}, {2, 60, 5}}},
  };
  for (const auto& [shape, sequences] : cases) {
    PagedBatch batch = Batch(shape, sequences);
    if (shape.v_head_dim != 0) batch.scale = 0.1F;
    // Wide rows need shared memory of the device, and latent ones are not E4M3.
    if (shape.head_dim > 256 && !runner_->Takes(backend(), batch.Plan().traits)) continue;
    ExpectExact(batch, shape, sequences);
  }
}

TEST_P(PagedConformanceTest, TakesWindowsSoftcapsAlibiBiasesSinksAndNoCausalMask) {
  const HeadShape shape{4, 2, 32};
  const std::vector<BatchSequence> sequences = {{1, 0, 1}, {3, 180, 40}, {4, 63, 3}};
  struct Scores {
    int32_t window;
    float softcap;
    bool causal;
    std::vector<float> alibi_slopes = {};
    std::vector<float> sinks = {};
    bool key_bias = false;
  };
  const std::vector<float> slopes = {0.5F, 0.125F, 0.03125F, 0.0078125F};
  // Heads whose sinks take nearly all, about half and nothing of a row.
  const std::vector<float> sinks = {6.0F, 0.5F, -20.0F, 2.0F};
  for (const Scores& scores : {Scores{1, 0.0F, true},
                               {64, 0.0F, true},
                               {65, 1.5F, true},
                               {0, 3.0F, false},
                               {1, 0.0F, false},
                               {65, 0.0F, false},
                               {0, 0.0F, true, slopes},
                               {33, 0.0F, false, slopes},
                               {0, 0.0F, true, {}, sinks},
                               {33, 0.0F, true, slopes, sinks},
                               {0, 0.0F, true, {}, {}, true},
                               {33, 0.0F, true, {}, sinks, true}}) {
    PagedBatch batch = Batch(shape, sequences);
    batch.window = scores.window;
    batch.softcap = scores.softcap;
    batch.causal = scores.causal;
    batch.alibi_slopes = scores.alibi_slopes;
    batch.sinks = scores.sinks;
    if (scores.key_bias) batch.SetKeyBias();
    ExpectExact(batch, shape, sequences);
  }
}

// A prompt of more than two splits, and no multiple of anything. Rows of 20 dims are no whole 16-byte pieces, which
// some kernels need.
constexpr int32_t kLength = 1075;
constexpr uint64_t kSeed = 42;

TEST_P(PagedConformanceTest, ARowHasTheSameBitsInAnyChunkAndAnySplitOfItsKeys) {
  for (const HeadShape& shape : {HeadShape{2, 1, 20}, {2, 1, 64}}) {
    const auto row_floats = static_cast<size_t>(shape.num_heads * shape.head_dim);
    const auto batch_of = [&](std::vector<BatchSequence> sequences, uint64_t layout_seed = 1) {
      PagedBatch batch = Batch(shape, std::move(sequences), layout_seed);
      batch.sinks = {0.75F, -2.0F};
      return batch;
    };
    const std::vector<float> whole = Run(batch_of({{kSeed, 0, kLength}}));
    const auto same = [&](int32_t first, const float* rows, size_t count) {
      return std::memcmp(whole.data() + static_cast<size_t>(first) * row_floats, rows, count * row_floats * 4) == 0;
    };
    for (const int32_t first : {0, 1, 63, 64, 127, 300, 511, 512, 513, 1023, 1024, 1074}) {
      const PagedBatch alone = batch_of({{kSeed, first, 1}}, 7);
      EXPECT_TRUE(same(first, Run(alone).data(), 1)) << first;
      EXPECT_TRUE(same(first, Run(alone, Division::kWhole).data(), 1)) << first << " by one block";
    }
    for (const auto& [first, count] : {std::pair{0, 7}, {500, 31}, {1000, 75}, {511, 2}}) {
      const PagedBatch chunk = batch_of({{kSeed, first, count}}, 9);
      EXPECT_TRUE(same(first, Run(chunk).data(), static_cast<size_t>(count))) << first << " + " << count;
      const PagedBatch crowd = batch_of({{8, 0, 30, 0}, {kSeed, first, count}, {9, 600, 1, 0}}, 5);
      EXPECT_TRUE(same(first, Run(crowd).data() + 30 * row_floats, static_cast<size_t>(count))) << "in a crowd";
    }
  }
}

TEST_P(PagedConformanceTest, UnusedSlotsLeaveNoTrace) {
  PagedBatch batch = Batch({6, 2, 64}, {{1, 0, 1}, {2, 68, 1}, {3, 0, 35}, {4, 155, 8}});
  batch.FillUnusedSlots(0.0F);
  const std::vector<float> clean = Run(batch);
  for (const float poison : {NAN, INFINITY, 3e4F}) {
    batch.FillUnusedSlots(poison);
    const std::vector<float> poisoned = Run(batch);
    EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), clean.size() * 4), 0) << poison;
  }
}

TEST_P(PagedConformanceTest, WhatARowDoesNotSeeLeavesNoTrace) {
  const HeadShape shape{3, 1, 64};
  const std::vector<float> clean = Run(Batch(shape, {{7, 0, 150}}));
  for (const int32_t poison_from : {1, 64, 97, 149}) {
    const std::vector<float> poisoned = Run(Batch(shape, {{7, 0, 150, poison_from}}));
    const size_t seen = static_cast<size_t>(poison_from) * 3 * 64;
    EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), seen * 4), 0) << poison_from;
    EXPECT_TRUE(std::isnan(poisoned[seen])) << "a row's own NaN must show";
  }
  PagedBatch windowed = Batch(shape, {{7, 130, 9}});
  PagedBatch before = Batch(shape, {{.seed = 7, .first_position = 130, .query_len = 9, .poison_before = 130 - 30 + 1}});
  windowed.window = before.window = 30;
  const std::vector<float> expected = Run(windowed);
  const std::vector<float> actual = Run(before);
  EXPECT_EQ(std::memcmp(expected.data(), actual.data(), expected.size() * 4), 0) << "before the window";
}

std::vector<PagedCase> Cases() {
  std::vector<PagedCase> cases;
  for (size_t runner = 0; runner < Runners().size(); ++runner) {
    for (const AttentionBackend backend : kBackends) {
      for (const DType dtype : kKvDTypes) {
        const auto paged_only = Runners()[runner].paged_only;
        if (paged_only == nullptr || paged_only(backend, dtype)) cases.push_back({runner, backend, dtype});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Grid, PagedConformanceTest, ::testing::ValuesIn(Cases()), [](const auto& test) {
  return std::string(Runners()[test.param.runner].name) + "_" + Name(test.param.backend) + "_" + Name(test.param.dtype);
});

}  // namespace
}  // namespace dunlin::kernels::testing
