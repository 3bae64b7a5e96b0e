// SPDX-License-Identifier: Apache-2.0
// The sizes of the layer bench: the published one where memory allows, else the largest that fits, with what was
// needed.
#include "tools/bench/layer_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace dunlin::tools::bench {
namespace {

using ::testing::HasSubstr;

constexpr LayerSize kPublished = {4, 2048, 4096, 32, 16384, true};

absl::StatusOr<FittedSize> WithMemory(double limit, double scale = 1.0) {
  return LargestThatFits(kPublished, scale, kernels::Precision::kFp8, [&](double bytes) {
    return bytes <= limit ? absl::OkStatus() : absl::ResourceExhaustedError(absl::StrCat("needs ", bytes));
  });
}

TEST(LayerSize, IsThePublishedOneWhereMemoryAllows) {
  const auto fitted = WithMemory(8e9);
  ASSERT_TRUE(fitted.ok());
  EXPECT_TRUE(fitted->refusal.ok());
  EXPECT_EQ(fitted->size.batch * fitted->size.tokens, 8192);
  EXPECT_EQ(fitted->size.hidden_dim, 4096);
  EXPECT_EQ(fitted->size.ffn_dim, 16384);
  EXPECT_EQ(fitted->size.heads, 32);
}

TEST(LayerSize, IsTheLargestThatFitsAndSaysWhatWasNeeded) {
  const double needed = BytesOf(kPublished, kernels::Precision::kFp8);
  EXPECT_GT(needed, 201e6 * 9 + 8192 * 4 * 4 * 4096.0);  // the weights three times and every row's own values
  for (const double limit : {needed - 1, needed / 2, needed / 50}) {
    const auto fitted = WithMemory(limit);
    ASSERT_TRUE(fitted.ok());
    EXPECT_THAT(std::string(fitted->refusal.message()), HasSubstr(absl::StrCat("needs ", needed)));
    EXPECT_LE(BytesOf(fitted->size, kernels::Precision::kFp8), limit);
    const LayerSize larger = Scaled(kPublished, (fitted->size.heads + 1) / 32.0);
    EXPECT_EQ(larger.heads, fitted->size.heads + 1);
    EXPECT_GT(BytesOf(larger, kernels::Precision::kFp8), limit);
    EXPECT_EQ(fitted->size.hidden_dim, 128 * fitted->size.heads);
  }
}

TEST(LayerSize, NeverExceedsTheScaleAskedForAndRefusesWhatCannotRun) {
  EXPECT_EQ(WithMemory(1e12, 0.25)->size.heads, 8);
  const auto refused = WithMemory(1.0);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("needs"));
}

}  // namespace
}  // namespace dunlin::tools::bench
