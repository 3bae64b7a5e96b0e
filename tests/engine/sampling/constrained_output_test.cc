// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/constrained_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

using simulation::Place;
using simulation::ScriptedConstraint;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TokenId kEos = 0;
constexpr int32_t kVocabSize = 70;

std::shared_ptr<ScriptedConstraint> Chain(std::vector<Place> places) {
  return ScriptedConstraint::Chain(std::move(places), {kEos});
}

std::vector<TokenId> MaskOf(const ConstrainedOutput& output) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < kVocabSize; ++id) {
    if ((output.mask()[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0) ids.push_back(id);
  }
  return ids;
}

TEST(ConstrainedOutput, ComputesTheMaskThatFollowsEachToken) {
  const auto constraint = Chain({{{3, 40}}, {{5, 69}, true}, {{}, true}});
  ConstrainedOutput output(constraint, kVocabSize, 0);
  EXPECT_FALSE(output.is_computed());
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(3, 40));
  EXPECT_FALSE(output.is_accepting());
  output.Take(40);
  EXPECT_FALSE(output.is_computed());
  output.Compute();
  EXPECT_THAT(MaskOf(output), ElementsAre(kEos, 5, 69));
  EXPECT_TRUE(output.is_accepting());
  output.Take(69);
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(kEos));
}

TEST(ConstrainedOutput, ForcesTokensUpToTheNextChoice) {
  const auto constraint = Chain({{{3, 40}}, {{33}}, {{34}}, {{35}}, {{36, 37}}});
  ConstrainedOutput output(constraint, kVocabSize, 10);
  output.Finish();
  output.Take(3);
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(33));  // the first is drawn
  EXPECT_EQ(output.forced(), std::nullopt);
  for (const TokenId token : {33, 34}) {
    output.Take(token);
    ASSERT_TRUE(output.is_computed());
    EXPECT_EQ(output.forced(), token + 1);
    EXPECT_FALSE(output.is_accepting());
  }
  output.Take(35);
  EXPECT_EQ(output.forced(), std::nullopt);
  EXPECT_THAT(MaskOf(output), ElementsAre(36, 37));
  EXPECT_EQ(constraint->num_accepted(), 4);
}

TEST(ConstrainedOutput, ForcesNoMoreThanItMay) {
  ConstrainedOutput output(Chain({{{7}}}), kVocabSize, 3);
  output.Finish();
  for (int drawn = 0; drawn < 3; ++drawn) {
    EXPECT_THAT(MaskOf(output), ElementsAre(7));
    output.Take(7);
    for (int forced = 0; forced < 3; ++forced) {
      ASSERT_EQ(output.forced(), 7);
      output.Take(7);
    }
    EXPECT_EQ(output.forced(), std::nullopt);
    EXPECT_TRUE(output.is_computed()) << "the mask behind the run is known";
    EXPECT_THAT(MaskOf(output), ElementsAre(7));
    output.Take(7);
    output.Finish();
  }
}

TEST(ConstrainedOutput, ForcesNothingWhereTheOutputMayEnd) {
  ConstrainedOutput complete(Chain({{{7}, true}}), kVocabSize, 3);
  complete.Finish();
  EXPECT_THAT(MaskOf(complete), ElementsAre(kEos, 7));
  ConstrainedOutput ended(Chain({{{}, true}}), kVocabSize, 3);
  ended.Finish();
  EXPECT_THAT(MaskOf(ended), ElementsAre(kEos));
  ended.Finish();
  EXPECT_EQ(ended.forced(), std::nullopt);
}

TEST(ConstrainedOutput, AnErrorLeavesNoToken) {
  for (const int32_t max_forced : {0, 4}) {
    Place fails{{5}, true, true};
    ConstrainedOutput at_fill(Chain({{{7}}, fails}), kVocabSize, max_forced);
    at_fill.Finish();
    at_fill.Take(7);
    at_fill.Finish();
    EXPECT_THAT(MaskOf(at_fill), IsEmpty());
    EXPECT_FALSE(at_fill.is_accepting());
    EXPECT_EQ(at_fill.status().code(), absl::StatusCode::kResourceExhausted);

    Place refuses{{5}, false, false, true};
    ConstrainedOutput at_accept(Chain({refuses, {{1, 2}}}), kVocabSize, max_forced);
    at_accept.Finish();
    EXPECT_THAT(MaskOf(at_accept), ElementsAre(5)) << "the token itself may be drawn";
    at_accept.Take(5);
    at_accept.Finish();
    EXPECT_THAT(MaskOf(at_accept), IsEmpty());
  }
}

TEST(ConstrainedOutput, OneOfTwoThreadsComputes) {
  const auto constraint = Chain({{{1, 2}}});
  ConstrainedOutput output(constraint, kVocabSize, 0);
  output.Finish();
  for (int i = 0; i < 2000; ++i) {
    output.Take(1 + i % 2);
    std::thread other;
    if (i % 4 == 0) other = std::thread([&output] { output.Compute(); });
    output.Finish();
    EXPECT_EQ(constraint->num_accepted(), i + 1);
    ASSERT_THAT(MaskOf(output), ElementsAre(1, 2));
    if (other.joinable()) other.join();
  }
}

}  // namespace
}  // namespace dunlin::engine
