// SPDX-License-Identifier: Apache-2.0
// The bit contract on devices of their own: the mixes of bit_contract_test, 500 of them where there is a GPU, a few on
// the fake module.
#include <gtest/gtest.h>

#include "tests/integration/model/bit_mixes.h"

namespace dunlin::engine {
namespace {

MixTotals totals;

class DeviceMixes : public ::testing::TestWithParam<std::tuple<Place, MixCase>> {};

TEST_P(DeviceMixes, AResponseEqualsThatOfItsRequestAlone) {
  const auto& [place, test] = GetParam();
  std::string reason;
  auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  const TestModel model = LoadTestModel(test.path, std::move(device), kAllPrecisions);
  RunMixes(*model.model, *model.model, test, &totals);
}

// In the precisions whose rows have the same bits in prefill and in decode: pages that decode wrote serve prompts, what
// was decoded before a preemption is computed as a prompt, and guesses are verified several in one step.
class DevicePhases : public ::testing::TestWithParam<std::tuple<Place, MixCase>> {};

TEST_P(DevicePhases, DecodedPagesAndGuessesHaveTheBitsOfDecode) {
  const auto& [place, test] = GetParam();
  std::string reason;
  auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  std::vector<Precision> precisions;
  for (const Precision precision : kAllPrecisions) {
    if (device->ops->prefill_matches_decode(device->context, precision, true)) precisions.push_back(precision);
  }
  if (precisions.empty()) GTEST_SKIP() << "the phases of this device differ in every precision";
  const TestModel model = LoadTestModel(test.path, std::move(device), precisions);
  RunMixes(*model.model, *model.model, test, &totals);
}

// Steps that are planned and enqueued over tokens which the step before still draws, and steps one by one.
class PlannedSteps : public ::testing::TestWithParam<std::tuple<Place, MixCase>> {};

TEST_P(PlannedSteps, GiveTheResponsesOfStepsOneByOne) {
  const auto& [place, test] = GetParam();
  std::string reason;
  auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  const TestModel model = LoadTestModel(test.path, std::move(device), {Precision::kBf16});
  std::vector<Response> responses[2];
  for (const bool ahead : {false, true}) {
    EngineOptions options;
    options.plan_ahead = ahead;
    EXPECT_EQ((*ModelRuntime::Create(model.model.get(), options))->depth(), ahead ? 2 : 1);
    EngineClient client(model.model.get(), options);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int32_t i = 0; i < 6; ++i) {
      Request request;
      request.prompt = {i + 1, 2, 3 + i};
      request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
      request.sampling.seed = static_cast<uint64_t>(i);
      request.profile = SupportedProfiles(*model.model, {Precision::kBf16}).front();
      request.stopping.max_tokens = 20 + i;
      request.stopping.ignore_eos = i < 4;
      sinks.push_back(client.Submit(request));
    }
    for (const auto& sink : sinks) responses[ahead ? 1 : 0].push_back(sink->Wait());
  }
  for (size_t i = 0; i < responses[0].size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(responses[1][i], responses[0][i], &why)) << i << ": " << why;
  }
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<Place, MixCase>>& info) {
  const MixCase& test = std::get<1>(info.param);
  return std::string(test.name) + (test.kv_fp8 ? "_fp8_kv" : "");
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceMixes,
                         ::testing::Combine(::testing::ValuesIn(FakePlaces()),
                                            ::testing::ValuesIn(GoldenMixCases(8, 8))),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceMixes,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::ValuesIn(GoldenMixCases(80, 50))),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Fake, DevicePhases,
                         ::testing::Combine(::testing::ValuesIn(FakePlaces()),
                                            ::testing::Values(MixCase{"llama_gqa", GoldenModelPath("llama_gqa"), 8,
                                                                      3})),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Cuda, DevicePhases,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::ValuesIn(GoldenMixCases(30, 20))),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Fake, PlannedSteps,
                         ::testing::Combine(::testing::ValuesIn(FakePlaces()),
                                            ::testing::Values(MixCase{"gpt2_tiny", GoldenModelPath("gpt2_tiny"), 8,
                                                                      1})),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Cuda, PlannedSteps,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::Values(MixCase{"gpt2_tiny", GoldenModelPath("gpt2_tiny"), 8, 1},
                                                              MixCase{"llama_gqa", GoldenModelPath("llama_gqa"), 8,
                                                                      1})),
                         NameOf);

// The mixes mean something only if they did preempt and did hit the cache.
class Exercised : public ::testing::Environment {
 public:
  void TearDown() override {
    std::printf("requests %llu, preemptions %llu, tokens from the prefix cache %llu, %llu of them E4M3\n",
                static_cast<unsigned long long>(totals.requests), static_cast<unsigned long long>(totals.preemptions),
                static_cast<unsigned long long>(totals.prefix_hits),
                static_cast<unsigned long long>(totals.fp8_page_hits));
    if (totals.requests < 200) return;  // a filtered run
    EXPECT_GT(totals.preemptions, 0U);
    EXPECT_GT(totals.prefix_hits, 30U);
  }
};
const ::testing::Environment* const kExercised = ::testing::AddGlobalTestEnvironment(new Exercised);

}  // namespace
}  // namespace dunlin::engine
