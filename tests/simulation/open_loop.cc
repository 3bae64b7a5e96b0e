// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/open_loop.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace dunlin::simulation {
namespace {

using engine::Client;
using engine::FinishReason;
using engine::SchedulerHarness;
using engine::TimeNs;

constexpr int32_t kPageTokens = 4;

// 2 ms, 0.05 ms a prompt token and 0.2 ms a drawn one.
TimeNs DeviceTime(const engine::StepPlan& plan, double context_ns) {
  double ms = 2.0;
  for (const engine::SequenceStep& step : plan.sequences) {
    ms += step.num_tokens * (step.first_position < step.prompt_len ? 0.05 : 0.2);
    if (step.first_position >= step.prompt_len) ms += 1e-6 * context_ns * step.first_position;
  }
  return static_cast<TimeNs>(ms * kMs);
}

// How many times as slow the device is at `now`.
double SlownessAt(TimeNs now) {
  Dice dice(static_cast<uint64_t>(now / (250 * kMs)) + 1000);
  const auto side = dice.Between(1, 6);
  if (side == 1) return 2.5;
  return side <= 3 ? 1.5 : 1.0;
}

struct Arrival {
  TimeNs time = 0;
  size_t stream = 0;
};

std::deque<Arrival> ArrivalsOf(const std::vector<Stream>& streams) {
  std::vector<Arrival> arrivals;
  for (size_t i = 0; i < streams.size(); ++i) {
    Dice dice(i + 1);
    double seconds = static_cast<double>(streams[i].from) / kSecond;
    while (streams[i].rate > 0.0) {
      seconds -= std::log((dice.Between(1, 1 << 20) - 0.5) / (1 << 20)) / streams[i].rate;
      if (seconds * kSecond >= static_cast<double>(streams[i].to)) break;
      arrivals.push_back({static_cast<TimeNs>(seconds * kSecond), i});
    }
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.time < b.time; });
  return {arrivals.begin(), arrivals.end()};
}

class OpenLoop {
 public:
  OpenLoop(const std::vector<Stream>& streams, const OpenLoopOptions& options)
      : streams_(streams),
        options_(options),
        harness_(SchedulerOptions(options)),
        gate_(options.max_sequences),
        arrivals_(ArrivalsOf(streams)),
        results_(streams.size()) {}

  std::vector<StreamResult> Run() {
    while (!arrivals_.empty() || !clients_.empty()) {
      if (clients_.empty()) harness_.now = std::max(harness_.now, arrivals_.front().time);
      TakeArrivals();
      Turn();
      CountEnded();
    }
    for (size_t i = 0; i < streams_.size(); ++i) {
      const double seconds = static_cast<double>(streams_[i].to - streams_[i].from) / kSecond;
      results_[i].goodput = static_cast<double>(results_[i].in_time) / seconds;
    }
    return results_;
  }

 private:
  struct Live {
    Client* client;
    size_t stream;
  };

  static engine::SchedulerOptions SchedulerOptions(const OpenLoopOptions& options) {
    engine::SchedulerOptions scheduler = SchedulerHarness::Defaults();
    scheduler.max_sequences = options.max_sequences;
    scheduler.max_tokens_per_step = 512;
    scheduler.max_live = 2 * (options.max_sequences + options.max_queued);
    scheduler.cache.num_pages = 40000;
    scheduler.prefix_cache = false;
    scheduler.step_time_target = 200 * kMs;
    return scheduler;
  }

  // What came while a step ran was refused, or has waited for its end.
  void TakeArrivals() {
    while (!arrivals_.empty() && arrivals_.front().time <= harness_.now) {
      const Arrival arrival = arrivals_.front();
      arrivals_.pop_front();
      const Stream& stream = streams_[arrival.stream];
      ++results_[arrival.stream].offered;
      engine::Request request = engine::Ask(engine::Prompt(stream.prompt_tokens), stream.max_tokens);
      request.stopping.ignore_eos = stream.ignore_eos;
      request.tenant = stream.tenant;
      request.priority = stream.priority;
      request.arrival = arrival.time;
      request.sampling.seed = static_cast<uint64_t>(arrival.time);
      if (stream.time_limit > 0) request.deadline = arrival.time + stream.time_limit;
      if (Refuses(request)) {
        ++results_[arrival.stream].refused;
        continue;
      }
      gate_.OnSubmit(request.tenant, request.priority);
      clients_.push_back({harness_.Add(std::move(request)), arrival.stream});
    }
  }

  bool Refuses(const engine::Request& request) const {
    if (static_cast<int32_t>(harness_.scheduler.waiting().size()) >= options_.max_queued) return true;
    const engine::DeadlineDemand demand = {.tenant = request.tenant,
                                           .priority = request.priority,
                                           .stopping = request.stopping,
                                           .deadline = request.deadline};
    return options_.gate && gate_.Check(demand, request.arrival).has_value();
  }

  void Turn() {
    harness_.LaunchUnchecked();
    gate_.Publish(harness_.scheduler, harness_.now);
    if (harness_.plan.empty()) return;
    const double slowness = options_.slow_spells ? SlownessAt(harness_.now) : 1.0;
    harness_.now += static_cast<TimeNs>(slowness * static_cast<double>(DeviceTime(harness_.plan, options_.context_ns)));
    harness_.CollectUnchecked();
    gate_.SetRunning(static_cast<int32_t>(harness_.scheduler.running().size()));
  }

  void CountEnded() {
    std::erase_if(clients_, [&](const Live& live) {
      if (!live.client->ended()) return false;
      const engine::FinishInfo& info = live.client->info();
      StreamResult& result = results_[live.stream];
      if (info.reason == FinishReason::kLength || info.reason == FinishReason::kStop) {
        ++result.in_time;
      } else if (info.first_scheduled == 0 && info.finished < live.client->request.deadline) {
        ++result.dropped;
      } else {
        ++result.late;
      }
      return true;
    });
  }

  const std::vector<Stream>& streams_;
  const OpenLoopOptions options_;
  SchedulerHarness harness_;
  engine::DeadlineGate gate_;
  std::deque<Arrival> arrivals_;
  std::vector<Live> clients_;
  std::vector<StreamResult> results_;
};

}  // namespace

std::vector<StreamResult> RunOpenLoop(const std::vector<Stream>& streams, const OpenLoopOptions& options) {
  return OpenLoop(streams, options).Run();
}

}  // namespace dunlin::simulation
