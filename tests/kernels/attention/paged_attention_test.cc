// SPDX-License-Identifier: Apache-2.0
// Paged attention against FP64, over ragged batches: causal, windowed, soft-capped, bidirectional, with ALiBi.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/kernels/attention/paged_batch.h"
#include "tests/kernels/attention/reference.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

struct PagedCase {
  HeadShape shape;
  std::vector<BatchSequence> sequences;
};

const PagedCase kCases[] = {
    {{3, 3, 64}, {{1, 0, 1}, {2, 238, 1}, {3, 798, 3}, {4, 90, 113}, {5, 0, 0}, {6, 0, 67}}},
    {{8, 1, 80}, {{1, 0, 65}, {2, 255, 1}, {3, 256, 1}, {4, 512, 2}, {5, 63, 2}}},
    {{6, 2, 20}, {{1, 0, 130}, {2, 15, 1}, {3, 16, 1}, {4, 7, 3}}},
    {{3, 1, 9}, {{1, 0, 40}, {2, 300, 5}}},
    {{2, 2, 1}, {{1, 0, 30}, {2, 70, 1}}},
    {{4, 4, 128}, {{1, 1022, 2}, {2, 0, 49}, {3, 511, 1}}},
    {{2, 1, 256}, {{1, 0, 70}, {2, 300, 1}}},
    {{4, 1, 512}, {{1, 0, 70}, {2, 300, 1}, {3, 120, 20}}},
    {{16, 2, 64}, {{1, 1000, 24}, {2, 3000, 1}}},
    {{2, 2, 32}, {{1, 4100, 1}, {2, 2175, 1}, {3, 1850, 1}}},  // one row a block, many tiles, even and odd numbers
};

const PagedCase kMaskCases[] = {
    {{4, 2, 33}, {{1, 0, 1}, {2, 0, 0}, {3, 280, 90}, {4, 63, 3}}},
    {{3, 3, 64}, {{1, 0, 130}, {2, 600, 1}}},
};

struct ScoreCase {
  const char* name;
  int32_t window;
  float softcap;
  bool causal;
  float slope = 0.0F;  // ALiBi's of the first head; each further one has half of it
  bool sinks = false;
  bool key_bias = false;
};
constexpr ScoreCase kPlain = {"plain", 0, 0.0F, true};
// Windows within a tile, at its edge, across an EFFICIENT chunk, longer than any sequence.
constexpr ScoreCase kScoreCases[] = {
    {"window1", 1, 0.0F, true},
    {"window5", 5, 0.0F, true},
    {"window64", 64, 0.0F, true},
    {"window300", 300, 0.0F, true},
    {"window9999", 9999, 0.0F, true},
    {"softcap", 0, 1.5F, true},
    {"window65_softcap", 65, 1.5F, true},
    {"bidirectional", 0, 0.0F, false},
    {"bidirectional_softcap", 0, 3.0F, false},
    {"both_sides1", 1, 0.0F, false},
    {"both_sides129", 129, 0.0F, false},
    {"both_sides301", 301, 0.0F, false},
    {"both_sides9999", 9999, 0.0F, false},
    {"alibi", 0, 0.0F, true, 0.25F},
    {"alibi_window", 65, 0.0F, true, 0.25F},
    {"alibi_both_sides", 65, 0.0F, false, 0.0625F},
    {"sinks", 0, 0.0F, true, 0.0F, true},
    {"window65_sinks", 65, 0.0F, true, 0.0F, true},
    {"key_bias", 0, 0.0F, true, 0.0F, false, true},
    {"window65_key_bias", 65, 0.0F, true, 0.0F, false, true},
};

class PagedAttentionTest : public ::testing::TestWithParam<std::tuple<DType, PagedCase, ScoreCase>> {};

TEST_P(PagedAttentionTest, StaysWithinTwiceTheUnfusedError) {
  const auto& [dtype, paged, scores] = GetParam();
  PagedBatch batch(dtype, paged.shape, paged.sequences);
  batch.window = scores.window;
  batch.softcap = scores.softcap;
  batch.causal = scores.causal;
  for (int32_t head = 0; scores.slope > 0.0F && head < paged.shape.num_heads; ++head) {
    batch.alibi_slopes.push_back(std::ldexp(scores.slope, -head));
  }
  if (scores.key_bias) batch.SetKeyBias();
  // Heads whose sinks take nearly all, about half and nothing of a row.
  constexpr float kSinks[] = {6.0F, 0.5F, -20.0F, 2.0F};
  for (int32_t head = 0; scores.sinks && head < paged.shape.num_heads; ++head) batch.sinks.push_back(kSinks[head % 4]);
  const int32_t group = paged.shape.num_heads / paged.shape.num_kv_heads;
  struct Result {
    std::string name;
    DType rounding;
    std::vector<float> out;
    ErrorBound bound;
  };
  std::vector<Result> results;
  std::set<DType> roundings;
  for (const std::string& variant : AvailableCpuVariants()) {
    for (const AttentionBackend backend : kBackends) {
      for (const int threads : {1, 3}) {
        results.push_back({Describe(backend, dtype, variant),
                           RoundingOf(backend, dtype, paged.shape.head_dim, variant),
                           batch.Run(backend, variant, threads),
                           {}});
      }
    }
  }
  for (const Result& result : results) roundings.insert(result.rounding);
  for (size_t i = 0; i < paged.sequences.size(); ++i) {
    const BatchSequence& sequence = paged.sequences[i];
    for (int32_t head = 0; head < paged.shape.num_heads; ++head) {
      const std::vector<float> keys = batch.Tokens(i, Kind::kKey, head / group);
      const std::vector<float> values = batch.Tokens(i, Kind::kValue, head / group);
      for (int32_t t = 0; t < sequence.query_len; ++t) {
        const int32_t position = sequence.first_position + t;
        for (const DType rounding : roundings) {
          const std::vector<float> query = Rounded(rounding, batch.Query(i, t, head), paged.shape.head_dim);
          const ReferenceRow row{.q = query.data(),
                                 .keys = keys.data(),
                                 .values = values.data(),
                                 .limit = batch.KeyLimit(i, t),
                                 .head_dim = paged.shape.head_dim,
                                 .scale = batch.scale,
                                 .begin = batch.KeyStart(i, t),
                                 .softcap = scores.softcap,
                                 .slope = std::ldexp(scores.slope, -head),
                                 .position = position,
                                 .bias = batch.KeyBias(head),
                                 .sink = scores.sinks ? &batch.sinks[static_cast<size_t>(head)] : nullptr};
          const std::vector<double> exact = ExactRow(row);
          const std::vector<float> unfused = UnfusedRow(row, rounding);
          for (Result& result : results) {
            if (result.rounding == rounding) result.bound.Add(exact, unfused, batch.Row(result.out, i, t, head));
          }
        }
      }
    }
  }
  for (const Result& result : results) {
    EXPECT_TRUE(result.bound.holds()) << result.name << ": error " << result.bound.actual() << ", limit "
                                      << result.bound.limit();
  }
}

std::string PagedCaseName(const ::testing::TestParamInfo<std::tuple<DType, PagedCase, ScoreCase>>& test) {
  const auto& [dtype, paged, scores] = test.param;
  return std::string(Name(dtype)) + "_h" + std::to_string(paged.shape.num_heads) + "_kv" +
         std::to_string(paged.shape.num_kv_heads) + "_d" + std::to_string(paged.shape.head_dim) + "_" + scores.name;
}

INSTANTIATE_TEST_SUITE_P(Grid, PagedAttentionTest,
                         ::testing::Combine(::testing::ValuesIn(kKvDTypes), ::testing::ValuesIn(kCases),
                                            ::testing::Values(kPlain)),
                         PagedCaseName);
INSTANTIATE_TEST_SUITE_P(Scores, PagedAttentionTest,
                         ::testing::Combine(::testing::ValuesIn(kKvDTypes), ::testing::ValuesIn(kMaskCases),
                                            ::testing::ValuesIn(kScoreCases)),
                         PagedCaseName);

}  // namespace
}  // namespace dunlin::kernels::testing
