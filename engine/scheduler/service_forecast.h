// SPDX-License-Identifier: Apache-2.0
// How long a sequence takes from its start to its end, learned from the steps so far: what a step takes while so many
// sequences run, what prompts add to it and how many of their tokens come with an output's, how long outputs are, how
// often one ends. Steps are forgotten after kMemory, so that what a slow one kept from being tried is tried again. A
// value: a copy is what was known then. Thread rule: one thread at a time; nothing is allocated.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::engine {

class ServiceForecast {
 public:
  static constexpr TimeNs kMemory = 5'000'000'000;  // of a step, since steps of about this size were last seen

  // Of batches larger than those seen: at least what the largest one took, or at most as much more as they are larger.
  enum class Beyond : uint8_t { kAtLeast, kAtMost };

  // What a sequence asks for.
  struct Demand {
    int32_t outputs = 1;         // tokens to draw
    double prompt_tokens = 0.0;  // to compute
    double caution = 1.0;        // >= 1: times as long as expected
  };
  struct Step {
    int32_t sequences = 1;  // > 0
    int32_t prompt_tokens = 0;
    int32_t outputs = 0;  // sequences that draw a further token
  };

  // A step took `elapsed` > 0 and ended at `now`.
  void LearnStep(const Step& step, TimeNs elapsed, TimeNs now);
  // A sequence that was not ended from outside has ended, one of `running`.
  void LearnEnd(const FinishInfo& info, const StoppingParams& stopping, int32_t running);
  // Forgets steps older than kMemory.
  void Forget(TimeNs now);

  // Tokens that an output will probably have: max_tokens if nothing else can end it, else what those have had that end
  // by the same means; the fewest that it may have if none is known.
  int32_t OutputsOf(const StoppingParams& stopping) const;
  // Nanoseconds of a step while `batch` >= 1 sequences run, prompts of those that come later included; rises with the
  // batch. Of batches smaller than those seen their part of it; 0 if nothing is known.
  double StepTime(int32_t batch, Beyond beyond) const;
  // Nanoseconds from start to end, in steps of `step_time`.
  double ServiceTime(const Demand& demand, double step_time) const;
  // The largest batch, of at most `limit`, in which it ends within `time` ns; 0 if it does not even alone.
  int32_t LargestBatch(const Demand& demand, double time, int32_t limit, Beyond beyond) const;
  // Of a prompt's tokens, those that the prefix cache will probably not have.
  double UncachedOf(int32_t prompt_tokens) const {
    return length_.prompt > 0.0 ? prompt_tokens * length_.uncached / length_.prompt : prompt_tokens;
  }
  // Nanoseconds between two ends while `batch` sequences run, each of which takes `service_time`.
  double EndInterval(double service_time, int32_t batch) const;

 private:
  // Steps of about one size: four points in each doubling.
  struct Point {
    double batch = 0.0;
    double time = 0.0;  // ns
    double prompt_tokens = 0.0;
    TimeNs learned = 0;  // when last
    bool known = false;
  };
  static constexpr size_t kNumPoints = 48;  // up to batches of 4095
  static size_t PointOf(int32_t batch);
  double PromptTokenTime() const { return prompt_square_ > 0.0 ? std::max(0.0, prompt_time_ / prompt_square_) : 0.0; }
  double PromptTokensPerOutput() const;

  std::array<Point, kNumPoints> points_ = {};
  // Of the steps of one size, what those with more prompt tokens take longer: sums of x t and of x x, older ones
  // fading.
  double prompt_time_ = 0.0;
  double prompt_square_ = 0.0;
  // Tokens of steps, until sequences have ended; then those of sequences.
  struct {
    double prompt = 0.0;
    double output = 0.0;
  } step_;
  struct {
    double prompt = 0.0;
    double uncached = 0.0;  // of these
    double output = 0.0;
  } length_;
  double end_interval_ = 0.0;  // ns; 0: unknown
  // Tokens of outputs that may end before max_tokens, without and with stop tokens of their own; 0: unknown.
  std::array<double, 2> free_output_ = {};
};

}  // namespace dunlin::engine
