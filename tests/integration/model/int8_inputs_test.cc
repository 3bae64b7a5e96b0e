// SPDX-License-Identifier: Apache-2.0
// Models whose int8 and int4 products round their inputs to 8 bits: the logits beside those of BF16 inputs, the bit
// contract, what the profiles say, and who refuses such a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/load/load_model.h"
#include "engine/runtime/profiles.h"
#include "tests/integration/model/bit_mixes.h"
#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

class Int8Inputs : public ::testing::TestWithParam<std::string> {};

// Of all logits, relative to the second ones.
double RmsError(const std::vector<std::vector<float>>& logits, const std::vector<std::vector<float>>& exact) {
  double errors = 0.0;
  double squares = 0.0;
  for (size_t row = 0; row < exact.size(); ++row) {
    for (size_t i = 0; i < exact[row].size(); ++i) {
      const double value = exact[row][i];
      errors += (logits[row][i] - value) * (logits[row][i] - value);
      squares += value * value;
    }
  }
  return std::sqrt(errors / squares);
}

TEST_P(Int8Inputs, RoundLogitsByLessThanEightBitWeightsDo) {
  const std::string path = GoldenModelPath("llama_gqa");
  const TestModel plain = LoadTestModel(path, GetParam(), 2, kAllPrecisions);
  const TestModel rounded = LoadTestModel(path, GetParam(), 2, kAllPrecisions, /*int8_inputs=*/true);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < 40; ++token) tokens.push_back((token * 37 + 5) % plain.model->config().vocab_size);
  const auto logits = [&](const TestModel& test, Precision precision) {
    const ExecutionProfile profile{DeviceKind::kCpu, AttentionBackend::kFlash, precision};
    return DirectRun(test.model.get(), profile, 64).Logits(tokens, 64);
  };
  const double of_weights = RmsError(logits(plain, Precision::kInt8), logits(plain, Precision::kBf16));
  for (const Precision precision : {Precision::kInt8, Precision::kInt4}) {
    const double error = RmsError(logits(rounded, precision), logits(plain, precision));
    EXPECT_GT(error, 0.0) << kernels::Name(precision);
    EXPECT_LT(error, 1.5 * of_weights) << kernels::Name(precision);
  }
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp8}) {
    EXPECT_EQ(logits(rounded, precision), logits(plain, precision)) << kernels::Name(precision);
  }
}

TEST_P(Int8Inputs, AResponseEqualsThatOfItsRequestAlone) {
  for (const char* name : {"llama_gqa", "qwen2_moe_tiny"}) {
    const MixCase test{name, GoldenModelPath(name), GetParam() == "portable" ? 2 : 6, 2};
    const TestModel alone = LoadTestModel(test.path, GetParam(), 1, kAllPrecisions, /*int8_inputs=*/true);
    const TestModel together = LoadTestModel(test.path, GetParam(), 2, kAllPrecisions, /*int8_inputs=*/true);
    MixTotals totals;
    RunMixes(*alone.model, *together.model, test, &totals);
    EXPECT_GT(totals.requests, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Int8Inputs, ::testing::ValuesIn(kernels::AvailableCpuVariants()),
                         [](const auto& variant) { return variant.param; });

TEST(Int8InputsOfAModel, AreSaidByTheProfilesOfIntegerWeights) {
  const TestModel test = LoadTestModel(GoldenModelPath("llama_gqa"), "", 1, kAllPrecisions, /*int8_inputs=*/true);
  ASSERT_TRUE(test.model->int8_inputs());
  const ProfileTable table(test.model->config(), kAllPrecisions, *test.device, EngineOptions(), std::nullopt,
                           test.model->int8_inputs());
  for (const ProfileSupport& row : table.rows()) {
    const bool integers = row.profile.precision == Precision::kInt8 || row.profile.precision == Precision::kInt4;
    EXPECT_EQ(row.profile.int8_inputs, integers) << kernels::Name(row.profile.precision);
  }
}

TEST(Int8InputsOfAModel, AreRefusedByOtherDevicesThanTheCpu) {
  std::string reason;
  const auto device = OpenPlace(FakePlaces().front(), 1, &reason);
  ASSERT_NE(device, nullptr) << reason;
  ModelSource source;
  source.path = GoldenModelPath("llama_gqa");
  source.precisions = {Precision::kBf16};
  source.int8_inputs = true;
  const absl::Status status = LoadModel(source, device.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("models[].int8_inputs is true; cuda has no such products (models[].device)"));
}

}  // namespace
}  // namespace dunlin::engine
