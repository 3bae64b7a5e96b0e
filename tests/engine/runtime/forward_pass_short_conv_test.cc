// SPDX-License-Identifier: Apache-2.0
// The operations of gated short convolutions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAreArray;

class ShortConvForwardPassTest : public ForwardPassTest {
 protected:
  std::vector<std::string> Operations() {
    EXPECT_TRUE(Run(SmallShortConvConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
    return log_.lines;
  }
  // From the last line that begins so on, `count` lines.
  static std::vector<std::string> FromLast(const std::vector<std::string>& lines, const std::string& start,
                                           int64_t count) {
    const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                   [&start](const std::string& line) { return line.rfind(start, 0) == 0; });
    if (last == lines.rend()) return {};
    const auto begin = last.base() - 1;
    return {begin, begin + std::min(count, static_cast<int64_t>(lines.end() - begin))};
  }
};

TEST_F(ShortConvForwardPassTest, ALayerConvolvesInPlaceOfAttention) {
  const std::vector<std::string> lines = Operations();
  const std::vector<std::string> expected = {"gemm rows 5 decode 1 weight [24,8]",
                                             "causal conv sequences 2 channels 8 gated", "quantize columns 8",
                                             "gemm rows 5 decode 1 weight [8,8] residual"};
  const auto first = std::find(lines.begin(), lines.end(), expected.front());
  ASSERT_GE(lines.end() - first, 4);
  EXPECT_THAT(std::vector<std::string>(first, first + 4), ElementsAreArray(expected));
}

TEST_F(ShortConvForwardPassTest, AfterTheLastConvolutionOnlyKeptRowsGoOn) {
  const std::vector<std::string> expected = {"causal conv sequences 2 channels 8 gated", "copy rows 1 columns 8",
                                             "copy rows 1 columns 8", "quantize columns 8",
                                             "gemm rows 1 decode 1 weight [8,8] residual"};
  EXPECT_THAT(FromLast(Operations(), "causal conv", 5), ElementsAreArray(expected)) << "the residual, then the rows";
}

}  // namespace
}  // namespace dunlin::engine
