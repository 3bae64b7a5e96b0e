// SPDX-License-Identifier: Apache-2.0
// The operations of Mamba2 layers, of layers that have one term, and of experts on rows of fewer elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAreArray;

class MambaForwardPassTest : public ForwardPassTest {
 protected:
  // Up to the head, with layers apart: each begins with a norm.
  std::vector<std::string> Lines(size_t first, size_t count) const {
    return {log_.lines.begin() + static_cast<int64_t>(first), log_.lines.begin() + static_cast<int64_t>(first + count)};
  }
  size_t Find(const std::string& start, size_t from = 0) const {
    while (from < log_.lines.size() && log_.lines[from].rfind(start, 0) != 0) ++from;
    return from;
  }
};

TEST_F(MambaForwardPassTest, AMambaLayerIsOneTermWithAState) {
  ASSERT_TRUE(Run(SmallMambaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"norm rows 5",
                                             "gemm rows 5 decode 1 weight [56,8]",
                                             "causal conv sequences 2 channels 32",
                                             "ssm scan sequences 2 heads 4",
                                             "gated norm rows 5 groups 2",
                                             "quantize columns 20",
                                             "gemm rows 5 decode 1 weight [8,20] residual",
                                             "norm rows 5"};
  EXPECT_THAT(Lines(Find("norm"), expected.size()), ElementsAreArray(expected));
}

TEST_F(MambaForwardPassTest, ExpertsReadAndWriteRowsOfFewerElements) {
  ASSERT_TRUE(Run(SmallMambaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const size_t routed = Find("route");
  ASSERT_LT(routed, log_.lines.size());
  const std::vector<std::string> latent = {"quantize columns 8", "gemm rows 5 decode 1 weight [6,8]"};
  EXPECT_THAT(Lines(routed + 1, 2), ElementsAreArray(latent));
  const size_t summed = Find("add weighted", routed);
  ASSERT_LT(summed, log_.lines.size());
  const std::vector<std::string> after = {"quantize columns 6", "gemm rows 5 decode 1 weight [8,6] residual"};
  EXPECT_THAT(Lines(summed + 1, 2), ElementsAreArray(after));
}

TEST_F(MambaForwardPassTest, OfALastLayerThatMixesNoTokensOnlyKeptRowsAreComputed) {
  ASSERT_TRUE(Run(SmallMambaConfig(), {.attention_backend = AttentionBackend::kMath}).ok());
  const std::vector<std::string> expected = {"copy rows 1 columns 8", "norm rows 1",
                                             "gemm rows 1 decode 1 weight [20,8]"};
  EXPECT_THAT(Lines(Find("copy rows"), expected.size()), ElementsAreArray(expected));
}

}  // namespace
}  // namespace dunlin::engine
