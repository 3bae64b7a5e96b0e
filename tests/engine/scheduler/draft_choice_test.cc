// SPDX-License-Identifier: Apache-2.0
// Machines of which the time of a step by its rows is known: what is chosen comes near the best choice, never loses
// more than the probes' share to plain decode, and finds out when a machine changes.
#include "engine/scheduler/draft_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

using RowTimes = std::function<double(int32_t rows)>;  // ns of a step

constexpr int32_t kMostGuesses = 8;

double FlatTime(int32_t rows) {
  return 1e8 + 1e5 * rows;
}
double LinearTime(int32_t rows) {
  return 1e6 + 1e8 * rows;
}
// Where arithmetic bounds a row from the second one on, but many share what the weights take to decode: int4 on AVX2.
double ConcaveTime(int32_t rows) {
  return rows == 1 ? 0.8e8 : 1.0e8 + 2.1e7 * rows;
}
// Weights are read for four rows at a time.
double TiledTime(int32_t rows) {
  return 1e8 + 8e7 * ((rows - 1) / 4);
}

class ChoiceRun {
 public:
  explicit ChoiceRun(RowTimes to_run, double right = 0.5, int32_t count = 1)
      : machine(std::move(to_run)), acceptance(right), streams(count) {}

  void Run(int32_t num_steps) {
    for (int32_t i = 0; i < num_steps; ++i) Step();
  }

  // Of plain decode's tokens a second: without the noise, which strikes both.
  double AgainstPlain() const { return tokens_ / streams * machine(streams) / time_; }
  // Of the best number of guesses, if the same were verified in every step.
  double AgainstBest() const {
    double best = 0.0;
    for (int32_t count = 0; count <= kMostGuesses; ++count) {
      double outputs = 1.0;
      double chance = 1.0;
      for (int32_t i = 0; i < count; ++i) outputs += chance *= acceptance;
      best = std::max(best, streams * outputs / machine(streams * (1 + count)));
    }
    return tokens_ / time_ / best;
  }
  void Forget() { tokens_ = time_ = 0.0; }

  RowTimes machine;
  double acceptance;
  int32_t streams;
  int32_t noise_percent = 0;
  bool interrupts = false;  // one step in 50 takes six times as long
  int32_t verified = 0;     // in the last step
  DraftChoice choice;

 private:
  void Step() {
    DraftStep step = {.plain_rows = streams, .rows = streams, .outputs = static_cast<double>(streams)};
    for (int32_t i = 0; i < streams; ++i) {
      const DraftChoice::Choice chosen = choice.Choose(step, acceptance, kMostGuesses);
      EXPECT_LE(chosen.count, kMostGuesses);
      choice.Pay(chosen);
      DraftChoice::Add(chosen, acceptance, &step);
    }
    verified = step.rows - streams;
    const double time = machine(step.rows);
    tokens_ += step.outputs;
    time_ += time;
    const double noise = 1.0 + 0.01 * dice_.Between(-noise_percent, noise_percent);
    choice.Learn(step.rows, static_cast<TimeNs>(time * noise * (interrupts && dice_.OneIn(50) ? 6.0 : 1.0)));
  }

  simulation::Dice dice_{1};
  double tokens_ = 0.0;
  double time_ = 0.0;
};

TEST(DraftChoice, IsNoneWhereEachRowTakesTheTimeOfAStep) {
  for (const int32_t streams : {1, 4, 16}) {
    for (const double acceptance : {0.05, 0.3, 0.5, 0.8, 0.95}) {
      ChoiceRun run(LinearTime, acceptance, streams);
      run.Run(200);
      EXPECT_GE(run.AgainstPlain(), 0.98) << streams << " " << acceptance;
      run.Run(2000);
      EXPECT_GE(run.AgainstPlain(), 0.985) << streams << " " << acceptance;
    }
  }
}

TEST(DraftChoice, IsAllWhereRowsAreFree) {
  for (const int32_t streams : {1, 4, 16}) {
    ChoiceRun run(FlatTime, 0.8, streams);
    run.Run(16);
    EXPECT_EQ(run.verified, streams * kMostGuesses) << streams;
    run.Run(200);
    EXPECT_GE(run.AgainstBest(), 0.93) << streams;
  }
}

// The first rows do not pay, all of them together do where most are right.
TEST(DraftChoice, FindsTheNumberThatPaysBehindOneThatDoesNot) {
  ChoiceRun right(ConcaveTime, 0.97);
  right.Run(40);
  EXPECT_GE(right.verified, 6);
  right.Run(300);
  EXPECT_GE(right.AgainstBest(), 0.9);
  for (const double acceptance : {0.1, 0.5, 0.7}) {
    ChoiceRun wrong(ConcaveTime, acceptance);
    wrong.Run(200);
    EXPECT_GE(wrong.AgainstPlain(), 0.98) << acceptance;
  }
}

TEST(DraftChoice, StopsWhereATileIsFull) {
  ChoiceRun run(TiledTime, 0.6);
  run.Run(300);
  EXPECT_EQ(run.verified, 3);
  EXPECT_GE(run.AgainstBest(), 0.95);
}

TEST(DraftChoice, IsRarelyMistakenWhenTimesAreNoisy) {
  for (const bool interrupts : {false, true}) {
    for (const int32_t streams : {1, 8}) {
      for (const auto& machine : {LinearTime, ConcaveTime}) {
        for (const double acceptance : {0.2, 0.5}) {
          ChoiceRun run(machine, acceptance, streams);
          run.noise_percent = 10;
          run.interrupts = interrupts;
          run.Run(2000);
          EXPECT_GE(run.AgainstPlain(), 0.98) << streams << " " << acceptance << " " << interrupts;
        }
      }
      ChoiceRun flat(FlatTime, 0.7, streams);
      flat.noise_percent = 10;
      flat.interrupts = interrupts;
      flat.Run(500);
      EXPECT_GE(flat.AgainstBest(), 0.85) << streams << " " << interrupts;
    }
  }
}

// A first step is slow for reasons of its own: pages are touched, threads wake up.
TEST(DraftChoice, OutlivesASlowFirstStepOfEachNumberOfRows) {
  std::array<bool, 64> seen = {};
  ChoiceRun run([](int32_t rows) { return FlatTime(rows); }, 0.7);
  run.machine = [&seen](int32_t rows) {
    const bool first = !seen[static_cast<size_t>(rows)];
    seen[static_cast<size_t>(rows)] = true;
    return first ? 5.0 * FlatTime(rows) : FlatTime(rows);
  };
  run.Run(60);
  EXPECT_EQ(run.verified, kMostGuesses);
}

TEST(DraftChoice, FollowsAMachineThatChanges) {
  ChoiceRun run(FlatTime, 0.7);
  run.Run(100);
  EXPECT_EQ(run.verified, kMostGuesses);
  run.machine = LinearTime;  // rows begin to cost
  run.Run(400);
  run.Forget();
  run.Run(1000);
  EXPECT_GE(run.AgainstPlain(), 0.98);
  run.machine = FlatTime;
  run.Run(1500);
  EXPECT_EQ(run.verified, kMostGuesses);
}

TEST(DraftChoice, IsTheSameOnAMachineThatBecomesSlowerAsAWhole) {
  ChoiceRun run(TiledTime, 0.6);
  run.Run(300);
  run.machine = [](int32_t rows) { return 3.0 * TiledTime(rows); };
  int32_t others = 0;  // what is forgotten is measured again
  for (int i = 0; i < 300; ++i) {
    run.Run(1);
    if (run.verified != 3) ++others;
  }
  EXPECT_LE(others, 8);
}

// Whatever is guessed, and however wrong the estimate of how often it is right.
TEST(DraftChoice, ProbesLoseNoMoreThanTheirShare) {
  for (const double believed : {0.2, 0.5, 0.9}) {
    DraftChoice choice;
    double lost = 0.0;
    double spent = 0.0;
    for (int i = 0; i < 3000; ++i) {
      const DraftStep step = {.plain_rows = 1, .rows = 1, .outputs = 1.0};
      const DraftChoice::Choice chosen = choice.Choose(step, i < 10 ? believed : 0.1, kMostGuesses);
      choice.Pay(chosen);
      const double time = LinearTime(1 + chosen.count);
      lost += time - LinearTime(1);
      spent += time;
      choice.Learn(1 + chosen.count, static_cast<TimeNs>(time));
    }
    EXPECT_LE(lost, 0.02 * spent) << believed;
  }
}

// A draft model's passes are part of what a guess costs.
TEST(DraftChoice, CountsWhatADraftModelTakes) {
  ChoiceRun run(FlatTime, 0.7);
  run.Run(100);
  DraftStep step = {.plain_rows = 1, .rows = 1, .outputs = 1.0, .per_guess = 0.2e8};
  const int32_t cheap = run.choice.Choose(step, 0.7, kMostGuesses).count;
  step.per_guess = 1e8;
  EXPECT_GT(cheap, 0);
  EXPECT_LT(cheap, kMostGuesses);
  EXPECT_EQ(run.choice.Choose(step, 0.7, kMostGuesses).count, 0);
}

TEST(DraftChoice, IsNoneUntilPlainDecodeHasBeenTimed) {
  DraftChoice choice;
  const DraftStep step = {.plain_rows = 2, .rows = 2, .outputs = 2.0};
  EXPECT_EQ(choice.Choose(step, 0.9, kMostGuesses).count, 0);
  choice.Learn(1, 1000);
  EXPECT_EQ(choice.Choose(step, 0.9, kMostGuesses).count, 0);
  choice.Learn(2, 1000);
  EXPECT_EQ(choice.Choose(step, 0.9, kMostGuesses).count, 2);  // four rows, twice as many as were measured
}

}  // namespace
}  // namespace dunlin::engine
