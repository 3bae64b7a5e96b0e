// SPDX-License-Identifier: Apache-2.0
// Floods, seeded: however many prompts of one kind keep coming, a request of another kind starts and ends within a
// number of steps that does not depend on how long the flood goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {
namespace {

using engine::Ask;
using engine::Client;
using engine::Prompt;
using engine::SchedulerHarness;

constexpr int kSeeds = 60;
constexpr int kSteps = 60;

// A server with room for all that a test keeps going, and its dice.
struct Server {
  explicit Server(uint64_t seed) : dice(seed), options(Options(&dice)), harness(options, dice.Between(1, 2)) {}

  static engine::SchedulerOptions Options(Dice* dice) {
    engine::SchedulerOptions options = SchedulerHarness::Defaults();
    options.max_sequences = 24;
    options.max_tokens_per_step = dice->Between(24, 128);
    options.max_live = 2000;
    options.cache.num_pages = 3000;
    options.prefix_cache = dice->OneIn(2);
    return options;
  }
  int32_t quarter() const { return options.max_tokens_per_step / 4; }
  int32_t AnyShort() { return dice.Between(1, std::max(1, quarter() - 1)); }
  int32_t AnyLong() { return dice.Between(quarter() + 1, 4 * options.max_tokens_per_step); }
  Client* Add(int32_t prompt_tokens, int32_t max_tokens, const engine::ExecutionProfile& profile) {
    engine::Request request = Ask(Prompt(prompt_tokens, dice.Between(1, 49)), max_tokens);
    request.profile = profile;
    request.arrival = harness.now;
    return harness.Add(std::move(request));
  }

  Dice dice;
  engine::SchedulerOptions options;
  SchedulerHarness harness;
};

// Requests at once that are replaced as they end.
class Flood {
 public:
  explicit Flood(size_t size) : clients_(size) {}
  template <typename AddOne>
  void Refill(const AddOne& add_one) {
    for (Client*& client : clients_) {
      if (client == nullptr || client->ended()) client = add_one();
    }
  }

 private:
  std::vector<Client*> clients_;
};

// Turns of the loop until it has drawn a token; at depth 2 a turn that only fills the pipeline counts, too.
int StepsToFirstToken(SchedulerHarness* harness, const Client* client) {
  int steps = 0;
  while (client->sink->tokens.empty() && steps < 10000) {
    harness->Step();
    ++steps;
  }
  return steps;
}

TEST(Flood, AShortPromptHasItsTokenInTheNextStepUnderLongOnes) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Server server(seed);
    Flood flood(static_cast<size_t>(server.dice.Between(1, 12)));
    for (int step = 0; step < kSteps; ++step) {
      flood.Refill([&] { return server.Add(server.AnyLong(), server.dice.Between(1, 4), engine::kFlashBf16); });
      server.harness.Step();
      if (!server.dice.OneIn(8)) continue;
      const Client* victim = server.Add(server.AnyShort(), 1, engine::kFlashBf16);
      ASSERT_LE(StepsToFirstToken(&server.harness, victim), 2) << "seed " << seed;
    }
  }
}

TEST(Flood, TheFirstPromptOfAProfileHasItsTokenInTheNextStepUnderAnother) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Server server(seed);
    Flood flood(static_cast<size_t>(server.dice.Between(1, 12)));
    for (int step = 0; step < kSteps; ++step) {
      flood.Refill([&] { return server.Add(server.AnyShort(), server.dice.Between(1, 4), engine::kMathBf16); });
      server.harness.Step();
      if (!server.dice.OneIn(8)) continue;
      const Client* victim = server.Add(server.AnyShort(), 1, engine::kFlashBf16);
      ASSERT_LE(StepsToFirstToken(&server.harness, victim), 2) << "seed " << seed;
    }
  }
}

// The flood's prompts come in every step, always shorter. Until it is due the long one is passed by three times its
// tokens, at a quarter of a step each at least; then it has a quarter of every step.
TEST(Flood, ALongPromptEndsUnderShortOnesThatNeverStop) {
  for (uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    Server server(seed);
    const int32_t length = server.AnyLong();
    const int32_t quarters = length / server.quarter() + 1;
    Flood flood(16);
    const auto add_short = [&] { return server.Add(server.AnyShort(), 1, engine::kFlashBf16); };
    flood.Refill(add_short);
    server.harness.Step();
    const Client* victim = server.Add(length, 1, engine::kFlashBf16);
    int steps = 0;
    for (; !victim->ended() && steps < 10000; ++steps) {
      flood.Refill(add_short);
      server.harness.Step();
    }
    ASSERT_LE(steps, (3 + 1) * quarters + 4) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dunlin::simulation
