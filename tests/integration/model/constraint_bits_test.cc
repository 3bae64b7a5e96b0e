// SPDX-License-Identifier: Apache-2.0
// The bit contract under constraints: a constrained request gives the same tokens and log-probability bits alone, drawn
// token by token, and beside any neighbours, in chunks, after preemptions, with forced tokens.
#include <gtest/gtest.h>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"
#include "tests/simulation/scripted_constraint.h"
#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

struct Entry {
  Request request;
  Response alone;
};

std::vector<Entry> Library(const Model* model, RequestMix* mix) {
  EngineOptions options;
  options.prefix_cache = false;
  options.max_forced_tokens = 0;
  EngineClient client(model, options);
  simulation::Dice dice(7);
  std::vector<Entry> library;
  for (const ExecutionProfile& profile : SupportedProfiles(*model, kAllPrecisions)) {
    for (int i = 0; i < 6; ++i) {
      Entry& entry = library.emplace_back();
      entry.request = mix->DrawRequest(model->config(), profile);
      if (i > 0) {
        entry.request.constraint =
            simulation::AnyConstraint(&dice, model->config().vocab_size, model->config().eos_token_ids);
      }
      if (i > 2) entry.request.sampling.logprobs = -1;  // so that tokens are forced
      entry.alone = client.Run(entry.request);
    }
  }
  return library;
}

void ExpectSame(const Entry& entry, const Response& response) {
  EXPECT_EQ(TokenIds(response), TokenIds(entry.alone));
  EXPECT_EQ(response.finish.reason, entry.alone.finish.reason);
  EXPECT_EQ(response.finish.stop_token_id, entry.alone.finish.stop_token_id);
  std::string why;
  if (entry.request.sampling.logprobs >= 0) {
    EXPECT_TRUE(SameBits(response, entry.alone, &why)) << why;
  }
}

class ConstraintBits : public ::testing::TestWithParam<const char*> {};

TEST_P(ConstraintBits, AConstrainedResponseEqualsThatOfItsRequestAlone) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, kAllPrecisions);
  RequestMix mix(11);
  const std::vector<Entry> library = Library(test.model.get(), &mix);
  uint64_t preemptions = 0;
  // Which sequences run together, and so whether one is preempted, follows the threads' timing.
  for (int i = 0; (i < 25 || (preemptions == 0 && i < 500)) && !HasFailure(); ++i) {
    SCOPED_TRACE("mix " + std::to_string(i));
    EngineOptions options = mix.DrawOptions(test.model->config(), false);
    options.max_forced_tokens = mix.Draw(1, 24);
    options.steps_in_flight = mix.Draw(1, 2);
    EngineClient client(test.model.get(), options);
    std::vector<std::pair<const Entry*, std::shared_ptr<RecordingSink>>> running;
    for (int count = mix.Draw(6, 24); count > 0; --count) {
      const Entry& entry = library[static_cast<size_t>(mix.Draw(0, static_cast<int32_t>(library.size()) - 1))];
      running.emplace_back(&entry, client.Submit(entry.request));
    }
    for (const auto& [entry, sink] : running) ExpectSame(*entry, sink->Wait());
    preemptions += client.engine().stats().preemptions;
  }
  EXPECT_GT(preemptions, 0U);
}

TEST_P(ConstraintBits, ForcedTokensSaveSteps) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kBf16});
  std::vector<simulation::Place> places(9);
  places[0].allowed = {103, 104, 105, 106};
  for (size_t i = 1; i < places.size(); ++i) places[i].allowed = {static_cast<TokenId>(120 + i)};
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling.seed = 3;
  request.stopping.max_tokens = 90;
  request.constraint = std::make_shared<simulation::ScriptedConstraint>(
      places, std::vector<TokenId>{}, [](size_t place, TokenId) { return (place + 1) % 9; });
  std::vector<TokenId> tokens[2];
  for (const int forced : {0, 1}) {
    EngineOptions options;
    options.max_forced_tokens = forced * 32;
    EngineClient client(test.model.get(), options);
    tokens[forced] = TokenIds(client.Run(request));
    client.engine().Stop();
    EXPECT_EQ(client.engine().stats().steps, forced == 1 ? 20U : 90U);  // two steps for each choice
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

INSTANTIATE_TEST_SUITE_P(Models, ConstraintBits, ::testing::Values("gpt2_tiny", "llama_gqa", "mistral_window"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
