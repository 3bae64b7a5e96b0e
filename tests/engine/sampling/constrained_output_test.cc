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

std::vector<TokenId> MaskOf(const ConstrainedOutput& output, size_t places = 0) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < kVocabSize; ++id) {
    if ((output.mask(places)[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0) ids.push_back(id);
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

TEST(ConstrainedOutput, HasTheMasksBehindGuessesUpToTheFirstThatIsForbidden) {
  const auto constraint = Chain({{{1, 2}}, {{3, 4}}, {{5, 6}, true}, {{7, 8}}, {{9}}});
  ConstrainedOutput output(constraint, kVocabSize, 0, 4);
  output.Finish();
  output.Follow(std::vector<TokenId>{2, 3, 60, 7});
  EXPECT_FALSE(output.is_computed());
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(1, 2));
  EXPECT_THAT(MaskOf(output, 1), ElementsAre(3, 4));
  EXPECT_THAT(MaskOf(output, 2), ElementsAre(kEos, 5, 6));
  EXPECT_TRUE(output.mask(3).empty());
  EXPECT_TRUE(output.mask(4).empty());
  output.Take(2);
  ASSERT_TRUE(output.is_computed());
  EXPECT_FALSE(output.is_accepting());
  output.Take(3);
  ASSERT_TRUE(output.is_computed());
  EXPECT_THAT(MaskOf(output), ElementsAre(kEos, 5, 6));
  EXPECT_TRUE(output.is_accepting());
  output.Take(5);  // not as guessed
  EXPECT_FALSE(output.is_computed());
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(7, 8));
  output.Take(7);
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(9));
}

TEST(ConstrainedOutput, FollowsGuessesThatGoOnBehindForcedTokens) {
  for (const bool ends_in_run : {false, true}) {
    const auto constraint = Chain({{{1}}, {{2}}, {{3}}, {{4, 5}}, {{6, 7}}});
    ConstrainedOutput output(constraint, kVocabSize, 8, 8);
    output.Finish();
    output.Follow(ends_in_run ? std::vector<TokenId>{1, 2, 9, 4} : std::vector<TokenId>{1, 2, 3, 4});
    output.Finish();
    EXPECT_THAT(MaskOf(output), ElementsAre(1));
    EXPECT_TRUE(output.mask(1).empty());
    EXPECT_THAT(MaskOf(output, 3), ElementsAre(4, 5));
    EXPECT_EQ(output.mask(4).empty(), ends_in_run);
    output.Take(1);
    for (const TokenId token : {2, 3}) {
      ASSERT_EQ(output.forced(), token);
      output.Take(token);
    }
    EXPECT_EQ(output.forced(), std::nullopt);
    output.Take(4);
    EXPECT_EQ(output.is_computed(), !ends_in_run);
    output.Finish();
    EXPECT_THAT(MaskOf(output), ElementsAre(6, 7));
  }
}

// As after a preemption between the draws of a step.
TEST(ConstrainedOutput, FollowsOtherGuessesWhereSomeHaveBeenTaken) {
  const auto constraint = Chain({{{1}}, {{2, 3}}, {{4, 5}}, {{6, 7}}, {{8, 9}}});
  ConstrainedOutput output(constraint, kVocabSize, 8, 8);
  output.Finish();
  output.Follow(std::vector<TokenId>{1, 2, 4, 6});
  output.Finish();
  output.Take(1);
  output.Take(2);
  EXPECT_THAT(MaskOf(output), ElementsAre(4, 5));
  output.Follow(std::vector<TokenId>{5, 7});
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(4, 5));
  EXPECT_THAT(MaskOf(output, 1), ElementsAre(6, 7));
  EXPECT_THAT(MaskOf(output, 2), ElementsAre(8, 9));
  output.Take(4);
  output.Finish();
  EXPECT_THAT(MaskOf(output), ElementsAre(6, 7));
}

TEST(ConstrainedOutput, AnErrorBehindAGuessIsNoneUntilItIsDrawn) {
  const Place fails{{5}, false, true};
  const Place refuses{{5}, false, false, true};
  for (const Place& place : {fails, refuses}) {
    const auto at = [](size_t from, TokenId token) { return from == 0 && token == 2 ? size_t{2} : size_t{1}; };
    const auto constraint = std::make_shared<ScriptedConstraint>(std::vector<Place>{{{1, 2}}, place, {{8, 9}}},
                                                                 std::vector<TokenId>{kEos}, at);
    for (const TokenId drawn : {1, 2}) {
      ConstrainedOutput output(constraint, kVocabSize, 0, 2);
      output.Finish();
      output.Follow(std::vector<TokenId>{1, 5});
      output.Finish();
      EXPECT_TRUE(output.status().ok());
      EXPECT_TRUE(output.mask(2).empty());
      output.Take(drawn);
      output.Finish();
      if (drawn == 2) {
        EXPECT_THAT(MaskOf(output), ElementsAre(8, 9));
        continue;
      }
      if (place.refuses) {
        output.Take(5);
        output.Finish();
      }
      EXPECT_THAT(MaskOf(output), IsEmpty());
      EXPECT_FALSE(output.status().ok());
    }
  }
}

TEST(ConstrainedOutput, GuessesMayComeWhileAnotherThreadComputes) {
  ConstrainedOutput output(Chain({{{1, 2}}}), kVocabSize, 0, 3);
  output.Finish();
  const std::vector<TokenId> guesses = {1, 2, 1};
  for (int i = 0; i < 500; ++i) {
    output.Take(i % 2 == 0 ? 1 : 2);
    std::thread other([&output] {
      for (int k = 0; k < 3; ++k) output.Compute();
    });
    output.Follow(guesses);
    output.Finish();
    for (size_t places = 0; places <= guesses.size(); ++places) ASSERT_THAT(MaskOf(output, places), ElementsAre(1, 2));
    output.Take(1);
    output.Take(2);
    ASSERT_TRUE(output.is_computed());
    output.Take(2);
    output.Finish();
    other.join();
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
