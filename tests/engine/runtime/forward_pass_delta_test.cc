// SPDX-License-Identifier: Apache-2.0
// The operations of gated delta nets, and of attention with a gated output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAreArray;

class DeltaForwardPassTest : public ForwardPassTest {
 protected:
  // From the `count`-th line that begins so on.
  std::vector<std::string> From(const std::string& start, int count, size_t num_lines) const {
    auto line = log_.lines.begin();
    for (; line != log_.lines.end(); ++line) {
      if (line->rfind(start, 0) == 0 && --count == 0) break;
    }
    std::vector<std::string> lines(line, log_.lines.end());
    lines.resize(std::min(lines.size(), num_lines));
    return lines;
  }
};

TEST_F(DeltaForwardPassTest, ALayerGoesThroughItsStateInPlaceOfPages) {
  ASSERT_TRUE(Run(SmallDeltaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"norm rows 5",
                                             "gemm rows 5 decode 1 weight [52,8]",
                                             "gemm rows 5 decode 1 weight [8,8]",
                                             "causal conv sequences 2 channels 32",
                                             "delta scan sequences 2 heads 4",
                                             "gated norm rows 5 groups 4",
                                             "quantize columns 20",
                                             "gemm rows 5 decode 1 weight [8,20] residual"};
  EXPECT_THAT(From("norm", 1, expected.size()), ElementsAreArray(expected));
}

TEST_F(DeltaForwardPassTest, DecaysAndGatesOfTheirOwnAreTwoProductsEach) {
  ASSERT_TRUE(Run(SmallChannelDeltaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"norm rows 5",
                                             "gemm rows 5 decode 1 weight [32,8]",
                                             "gemm rows 5 decode 1 weight [8,8]",
                                             "quantize columns 2",
                                             "gemm rows 5 decode 1 weight [12,2]",
                                             "quantize columns 2",
                                             "gemm rows 5 decode 1 weight [20,2]",
                                             "causal conv sequences 2 channels 32",
                                             "delta scan sequences 2 heads 4",
                                             "gated norm rows 5 groups 4",
                                             "quantize columns 20",
                                             "gemm rows 5 decode 1 weight [8,20] residual"};
  EXPECT_THAT(From("norm", 1, expected.size()), ElementsAreArray(expected));
}

TEST_F(DeltaForwardPassTest, AGateOfTheSameInputMultipliesTheAttention) {
  support_.attention_fuses = true;  // which a gate comes before
  ASSERT_TRUE(Run(SmallDeltaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"store kv bf16 layer 0 rotated",
                                             "gemm rows 5 decode 1 weight [24,8]",
                                             "attention math layer 0 sequences 2",
                                             "gate rows 5 columns 24",
                                             "quantize columns 24",
                                             "gemm rows 5 decode 1 weight [8,24] residual"};
  EXPECT_THAT(From("store kv", 1, expected.size()), ElementsAreArray(expected));
}

TEST_F(DeltaForwardPassTest, AHeadMayHaveOneGate) {
  ModelConfig config = SmallDeltaConfig();
  config.attention.head_gate = true;
  ASSERT_TRUE(Run(config, {.attention_backend = AttentionBackend::kMath}).ok());
  const std::string heads = std::to_string(config.attention.num_heads);
  const std::string width = std::to_string(config.attention.head_dim);
  const std::vector<std::string> expected = {"store kv bf16 layer 0 rotated",
                                             "gemm rows 5 decode 1 weight [" + heads + ",8]",
                                             "attention math layer 0 sequences 2",
                                             "gate rows 5 columns 24 of " + width,
                                             "quantize columns 24",
                                             "gemm rows 5 decode 1 weight [8,24] residual"};
  EXPECT_THAT(From("store kv", 1, expected.size()), ElementsAreArray(expected));
}

TEST_F(DeltaForwardPassTest, AfterTheLastScanOnlyKeptRowsGoOn) {
  ASSERT_TRUE(Run(SmallDeltaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"delta scan sequences 2 heads 4", "copy rows 1 columns 8",
                                             "gated norm rows 1 groups 4 picked", "quantize columns 20",
                                             "gemm rows 1 decode 1 weight [8,20] residual"};
  EXPECT_THAT(From("delta scan", 2, expected.size()), ElementsAreArray(expected));
}

}  // namespace
}  // namespace dunlin::engine
