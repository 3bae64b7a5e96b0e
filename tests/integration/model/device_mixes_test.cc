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
