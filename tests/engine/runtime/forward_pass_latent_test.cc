// SPDX-License-Identifier: Apache-2.0
// The operations of a layer with latent attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAreArray;

class LatentForwardPassTest : public ForwardPassTest {
 protected:
  // The operations from the attention norm to the keys in their pages.
  std::vector<std::string> UpToTheKv() const {
    const auto begins = [](const char* start) {
      return [start](const std::string& line) { return line.rfind(start, 0) == 0; };
    };
    const auto first = std::find_if(log_.lines.begin(), log_.lines.end(), begins("norm"));
    return {first, std::find_if(first, log_.lines.end(), begins("store kv")) + 1};
  }
};

TEST_F(LatentForwardPassTest, PagesTakeTheLatentRowAndHeadsGoThroughTheirMatrices) {
  ASSERT_TRUE(Run(SmallLatentConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  std::vector<std::string> expected = {"norm rows 5",
                                       "gemm rows 5 decode 1 weight [16,8]",
                                       "gemm rows 5 decode 1 weight [36,8]",
                                       "copy columns 10 blocks 1",
                                       "norm rows 5 plain in place",
                                       "copy columns 10 blocks 1",
                                       "copy columns 6 blocks 4",
                                       "batched gemm rows 5 batches 4 weight [10,3]",
                                       "store kv bf16 layer 0 rotated"};
  EXPECT_THAT(UpToTheKv(), ElementsAreArray(expected));
  expected = {"copy rows 1 columns 8", "copy rows 1 columns 64", "attention math layer 0 sequences 1",
              "batched gemm rows 1 batches 4 weight [5,10]"};
  expected.emplace_back("quantize columns 20");
  expected.emplace_back("gemm rows 1 decode 1 weight [8,20] residual");
  std::vector<std::string> lines = AfterTheLastKv();
  lines.resize(std::min(lines.size(), expected.size()));
  EXPECT_THAT(lines, ElementsAreArray(expected));
}

TEST_F(LatentForwardPassTest, QueriesWithARankAreNormedBetweenTheirProducts) {
  ASSERT_TRUE(Run(SmallLatentConfig(7), {}).ok());
  std::vector<std::string> lines = UpToTheKv();
  lines.resize(6);
  EXPECT_THAT(lines, ElementsAreArray({"norm rows 5", "gemm rows 5 decode 1 weight [16,8]",
                                       "gemm rows 5 decode 1 weight [7,8]", "norm rows 5 plain in place",
                                       "quantize columns 7", "gemm rows 5 decode 1 weight [36,7]"}));
}

TEST_F(LatentForwardPassTest, AnIndexerChoosesKeysForItsLayerAndTheNext) {
  ASSERT_TRUE(Run(SmallSparseConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"norm rows 5",
                                             "gemm rows 5 decode 1 weight [16,8]",
                                             "gemm rows 5 decode 1 weight [8,8]",
                                             "norm rows 5 plain in place",
                                             "gemm rows 5 decode 1 weight [2,8]",
                                             "gemm rows 5 decode 1 weight [7,8]",
                                             "norm rows 5 plain in place",
                                             "quantize columns 7",
                                             "gemm rows 5 decode 1 weight [16,7]",
                                             "quantize columns 7",
                                             "gemm rows 5 decode 1 weight [36,7]"};
  std::vector<std::string> lines = UpToTheKv();
  lines.resize(expected.size());
  EXPECT_THAT(lines, ElementsAreArray(expected));
  EXPECT_EQ(std::count(log_.lines.begin(), log_.lines.end(), "store index keys rows 5 layer 0"), 1);
  const auto starts = [](const std::string& line) { return line.rfind("select keys", 0) == 0; };
  EXPECT_EQ(std::count_if(log_.lines.begin(), log_.lines.end(), starts), 1);
}

// One operation per step has no other steps to divide.
TEST_F(LatentForwardPassTest, EagerRunsTheSameProducts) {
  execution_ = ExecutionMode::kEager;
  ASSERT_TRUE(Run(SmallLatentConfig(), {}).ok());
  EXPECT_THAT(log_.lines, Contains("batched gemm rows 5 batches 4 weight [10,3]"));
  EXPECT_THAT(log_.lines, Contains("batched gemm rows 1 batches 4 weight [5,10]"));
}

}  // namespace
}  // namespace dunlin::engine
