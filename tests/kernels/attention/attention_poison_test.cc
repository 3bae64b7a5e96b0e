// SPDX-License-Identifier: Apache-2.0
// Kernels do not even multiply what a row must not see: NaN and infinity in unused slots, in later tokens and in other
// sequences leave every bit of the row unchanged.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {
namespace {

constexpr HeadShape kPoisonShapes[] = {{3, 3, 64}, {8, 1, 20}, {6, 2, 9}, {4, 2, 80}};

// Calls check(backend, variant, name) for every combination.
template <typename Check>
void ForEachKernel(DType dtype, const Check& check) {
  for (const std::string& variant : AvailableCpuVariants()) {
    for (const AttentionBackend backend : kBackends) check(backend, variant, Describe(backend, dtype, variant));
  }
}

class AttentionPoisonTest : public ::testing::TestWithParam<std::tuple<DType, HeadShape>> {};

TEST_P(AttentionPoisonTest, UnusedSlotsLeaveNoTrace) {
  const auto& [dtype, shape] = GetParam();
  PagedBatch batch(dtype, shape, {{1, 0, 1}, {2, 68, 1}, {3, 0, 35}, {4, 255, 8}, {5, 126, 1}, {6, 0, 67}});
  ForEachKernel(dtype, [&](AttentionBackend backend, const std::string& variant, const std::string& name) {
    batch.FillUnusedSlots(0.0F);
    const std::vector<float> clean = batch.Run(backend, variant, 2);
    for (const float poison : {NAN, INFINITY, -INFINITY, 3e4F}) {
      batch.FillUnusedSlots(poison);
      const std::vector<float> poisoned = batch.Run(backend, variant, 2);
      EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), clean.size() * sizeof(float)), 0) << name << " " << poison;
    }
  });
}

TEST_P(AttentionPoisonTest, LaterTokensLeaveNoTraceInEarlierRows) {
  const DType dtype = std::get<DType>(GetParam());
  const HeadShape& shape = std::get<HeadShape>(GetParam());
  constexpr int32_t kLength = 330;
  PagedBatch clean_batch(dtype, shape, {{7, 0, kLength}});
  constexpr int32_t kPoisonFrom[] = {1, 64, 97, 257, 329};
  std::deque<PagedBatch> batches;
  for (const int32_t from : kPoisonFrom) {
    batches.emplace_back(dtype, shape, std::vector<BatchSequence>{{7, 0, kLength, from}});
  }
  ForEachKernel(dtype, [&](AttentionBackend backend, const std::string& variant, const std::string& name) {
    const std::vector<float> clean = clean_batch.Run(backend, variant, 2);
    for (size_t i = 0; i < batches.size(); ++i) {
      const int32_t poison_from = kPoisonFrom[i];
      const std::vector<float> poisoned = batches[i].Run(backend, variant, 2);
      const size_t seen = static_cast<size_t>(poison_from * shape.num_heads * shape.head_dim);
      EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), seen * sizeof(float)), 0) << name << " " << poison_from;
      EXPECT_TRUE(std::isnan(poisoned[seen])) << name << ": a row's own NaN must show";
    }
  });
}

// Slots before every row's window may hold anything: the cache may have reused them.
TEST_P(AttentionPoisonTest, TokensBeforeTheWindowLeaveNoTrace) {
  const auto& [dtype, shape] = GetParam();
  for (const int32_t window : {1, 30, 64, 101}) {
    for (const int32_t first : {130, 191, 257}) {
      PagedBatch clean_batch(dtype, shape, {{7, first, 9}});
      PagedBatch poisoned_batch(
          dtype, shape, {{.seed = 7, .first_position = first, .query_len = 9, .poison_before = first - window + 1}});
      clean_batch.window = poisoned_batch.window = window;
      ForEachKernel(dtype, [&](AttentionBackend backend, const std::string& variant, const std::string& name) {
        const std::vector<float> clean = clean_batch.Run(backend, variant, 2);
        const std::vector<float> poisoned = poisoned_batch.Run(backend, variant, 2);
        EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), clean.size() * sizeof(float)), 0)
            << name << " " << window << " " << first;
      });
    }
  }
}

TEST_P(AttentionPoisonTest, NeighboursFullOfNanLeaveNoTrace) {
  const auto& [dtype, shape] = GetParam();
  PagedBatch alone(dtype, shape, {{1, 100, 30}});
  PagedBatch crowd(dtype, shape, {{8, 0, 77, 0}, {1, 100, 30}, {9, 600, 1, 0}, {10, 50, 5, 0}}, 99);
  ForEachKernel(dtype, [&](AttentionBackend backend, const std::string& variant, const std::string& name) {
    const std::vector<float> clean = alone.Run(backend, variant, 2);
    const std::vector<float> crowded = crowd.Run(backend, variant, 2);
    EXPECT_EQ(std::memcmp(clean.data(), crowd.Row(crowded, 1, 0, 0), clean.size() * sizeof(float)), 0) << name;
  });
}

std::string PoisonCaseName(const ::testing::TestParamInfo<std::tuple<DType, HeadShape>>& test) {
  const auto& [dtype, shape] = test.param;
  return std::string(Name(dtype)) + "_h" + std::to_string(shape.num_heads) + "_kv" +
         std::to_string(shape.num_kv_heads) + "_d" + std::to_string(shape.head_dim);
}

INSTANTIATE_TEST_SUITE_P(Grid, AttentionPoisonTest,
                         ::testing::Combine(::testing::ValuesIn(kKvDTypes), ::testing::ValuesIn(kPoisonShapes)),
                         PoisonCaseName);

}  // namespace
}  // namespace dunlin::kernels::testing
