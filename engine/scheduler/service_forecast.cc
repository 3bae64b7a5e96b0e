// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/service_forecast.h"

#include <bit>

namespace dunlin::engine {
namespace {

constexpr double kGain = 0.125;         // of a new measurement: the last 8 make two thirds of a mean
constexpr double kSlowGain = 1.0 / 64;  // of a step's tokens, because prompts come with few steps
constexpr double kForecastFade = 0.98;  // a measurement counts half after 34 more
constexpr int32_t kLargestBatch = 4095;

void Follow(double gain, double value, double* mean) {
  *mean += gain * (value - *mean);
}

bool HasStops(const StoppingParams& stopping) {
  return !stopping.stop_token_ids.empty();
}

bool HasFixedLength(const StoppingParams& stopping) {
  return stopping.ignore_eos && !HasStops(stopping);
}

}  // namespace

size_t ServiceForecast::PointOf(int32_t batch) {
  const auto size = static_cast<uint32_t>(std::clamp(batch, 1, kLargestBatch));
  if (size < 4) return size;
  const auto octave = static_cast<uint32_t>(std::bit_width(size)) - 1;  // >= 2
  return 4 * (octave - 1) + ((size >> (octave - 2)) & 3U);
}

void ServiceForecast::LearnStep(const Step& step, TimeNs elapsed, TimeNs now) {
  const auto time = static_cast<double>(elapsed);
  Point& point = points_[PointOf(step.sequences)];
  if (!point.known) {
    point = {static_cast<double>(step.sequences), time, static_cast<double>(step.prompt_tokens), now, true};
  }
  const double more_tokens = step.prompt_tokens - point.prompt_tokens;
  prompt_time_ = kForecastFade * prompt_time_ + more_tokens * (time - point.time);
  prompt_square_ = kForecastFade * prompt_square_ + more_tokens * more_tokens;
  Follow(kGain, step.sequences, &point.batch);
  Follow(kGain, time, &point.time);
  Follow(kGain, step.prompt_tokens, &point.prompt_tokens);
  point.learned = now;
  Follow(kSlowGain, step.prompt_tokens, &step_.prompt);
  Follow(kSlowGain, step.outputs, &step_.output);
}

void ServiceForecast::LearnEnd(const FinishInfo& info, const StoppingParams& stopping, int32_t running) {
  const double interval = static_cast<double>(info.finished - info.first_scheduled) / std::max(1, running);
  if (end_interval_ == 0.0) end_interval_ = interval;
  Follow(kGain, interval, &end_interval_);
  const double uncached = info.prompt_tokens - info.cached_tokens;
  const double output = info.completion_tokens;
  if (length_.output == 0.0) length_ = {static_cast<double>(info.prompt_tokens), uncached, output};
  Follow(kGain, info.prompt_tokens, &length_.prompt);
  Follow(kGain, uncached, &length_.uncached);
  Follow(kGain, output, &length_.output);
  if (HasFixedLength(stopping)) return;
  double* mean = &free_output_[HasStops(stopping)];
  if (*mean == 0.0) *mean = output;
  Follow(kGain, output, mean);
}

void ServiceForecast::Forget(TimeNs now) {
  for (Point& point : points_) point.known = point.known && now - point.learned < kMemory;
}

int32_t ServiceForecast::OutputsOf(const StoppingParams& stopping) const {
  if (HasFixedLength(stopping)) return stopping.max_tokens;
  const int32_t least = std::min(stopping.min_tokens + 1, stopping.max_tokens);
  return std::clamp(static_cast<int32_t>(free_output_[HasStops(stopping)]), least, stopping.max_tokens);
}

double ServiceForecast::PromptTokensPerOutput() const {
  if (length_.output > 0.0) return length_.uncached / length_.output;
  return step_.output > 0.0 ? step_.prompt / step_.output : 0.0;
}

double ServiceForecast::StepTime(int32_t batch, Beyond beyond) const {
  const double prompt_token_time = PromptTokenTime();
  const double prompts = prompt_token_time * PromptTokensPerOutput() * batch;
  double below_batch = 0.0;
  double below_time = 0.0;
  for (const Point& point : points_) {
    if (!point.known) continue;
    const double time = std::max(point.time - prompt_token_time * point.prompt_tokens, below_time);
    if (point.batch >= batch && point.batch > below_batch) {
      return prompts + below_time + (time - below_time) * (batch - below_batch) / (point.batch - below_batch);
    }
    below_batch = point.batch;
    below_time = time;
  }
  if (below_batch == 0.0) return 0.0;
  return prompts + below_time * (beyond == Beyond::kAtMost ? std::max(1.0, batch / below_batch) : 1.0);
}

// Of its prompt, a sequence has the mean share in its own steps.
double ServiceForecast::ServiceTime(const Demand& demand, double step_time) const {
  const double more_tokens = std::max(0.0, demand.prompt_tokens - PromptTokensPerOutput() * demand.outputs);
  return demand.caution * (step_time * demand.outputs + PromptTokenTime() * more_tokens);
}

int32_t ServiceForecast::LargestBatch(const Demand& demand, double time, int32_t limit, Beyond beyond) const {
  int32_t fits = 0;
  int32_t too_large = limit + 1;
  while (too_large - fits > 1) {
    const int32_t middle = fits + (too_large - fits) / 2;
    (ServiceTime(demand, StepTime(middle, beyond)) <= time ? fits : too_large) = middle;
  }
  return fits;
}

double ServiceForecast::EndInterval(double service_time, int32_t batch) const {
  return std::min(end_interval_, service_time / std::max(1, batch));
}

}  // namespace dunlin::engine
