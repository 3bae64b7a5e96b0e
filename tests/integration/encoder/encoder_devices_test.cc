// SPDX-License-Identifier: Apache-2.0
// Encoders on a device of its own: vectors and labels as close to `transformers` as the CPU's, and those of two linked
// devices, bit for bit. On the fake module, and where there is a GPU on the CUDA module's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/encoder/encoder_goldens.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kSumOrder = 1e-4F;  // of FP32 sums in another order than the CPU's

EngineOptions EncoderRoom() {
  EngineOptions options;
  options.max_sequences = 16;
  options.max_tokens_per_step = 4096;
  return options;
}

// All inputs of the goldens, the mean of each.
EncodeRequest VectorRequest(const EncoderGoldens& goldens, const ModelConfig& config) {
  EncodeRequest request;
  request.dimensions = config.hidden_dim;
  request.normalize = true;
  for (const GoldenInput& input : goldens.inputs) {
    request.tokens.insert(request.tokens.end(), input.tokens.begin(), input.tokens.end());
    request.lengths.push_back(static_cast<int32_t>(input.tokens.size()));
  }
  return request;
}

EncodeRequest LabelRequest(const EncoderGoldens& goldens, const ModelConfig& config) {
  EncodeRequest request;
  request.classify = true;
  request.dimensions = config.classifier.num_labels;
  for (const GoldenPair& pair : goldens.pairs) {
    request.tokens.insert(request.tokens.end(), pair.token_ids.begin(), pair.token_ids.end());
    request.lengths.push_back(static_cast<int32_t>(pair.token_ids.size()));
    request.first_lengths.push_back(static_cast<int32_t>(std::count(pair.type_ids.begin(), pair.type_ids.end(), 0)));
  }
  return request;
}

// The largest distance of a number from the reference's; NaN where there is one.
float EncoderError(const std::vector<float>& values, const std::vector<float>& expected) {
  float worst = values.size() == expected.size() ? 0.0F : NAN;
  for (size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    const float error = std::abs(values[i] - expected[i]);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

// What an encoder answers, and what the reference does.
struct EncoderAnswer {
  EncodeRequest request;
  std::vector<float> expected;
};

std::vector<EncoderAnswer> AnswersOf(const EncoderGoldens& goldens, const ModelConfig& config) {
  std::vector<EncoderAnswer> answers = {{VectorRequest(goldens, config), {}}};
  for (const GoldenInput& input : goldens.inputs) {
    answers[0].expected.insert(answers[0].expected.end(), input.mean_normalized.begin(), input.mean_normalized.end());
  }
  if (goldens.pairs.empty()) return answers;
  answers.push_back({LabelRequest(goldens, config), {}});
  for (const GoldenPair& pair : goldens.pairs) {
    answers[1].expected.insert(answers[1].expected.end(), pair.logits.begin(), pair.logits.end());
  }
  return answers;
}

class EncoderDevices : public ::testing::TestWithParam<std::tuple<Place, std::string>> {};

TEST_P(EncoderDevices, AnswersAreAsCloseToTransformersAsOnTheCpu) {
  const auto& [place, name] = GetParam();
  std::string reason;
  auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  const TestModel cpu = LoadTestModel(GoldenEncoderPath(name), "", 2, kAllPrecisions);
  const TestModel test = LoadTestModel(GoldenEncoderPath(name), std::move(device), kAllPrecisions);
  EncoderClient on_cpu(cpu.model.get(), EncoderRoom());
  EncoderClient client(test.model.get(), EncoderRoom());
  const std::vector<ExecutionProfile> profiles = SupportedProfiles(*test.model, kAllPrecisions);
  ASSERT_GE(profiles.size(), 8U) << "the device takes hardly anything";
  for (EncoderAnswer& answer : AnswersOf(ReadEncoderGoldens(name), cpu.model->config())) {
    const auto cpu_error = [&](Precision precision) {
      answer.request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, precision};
      return EncoderError(on_cpu.Run(answer.request), answer.expected);
    };
    for (const ExecutionProfile& profile : profiles) {
      // A device rounds inputs of FP16 products, and weights of integer codes once more, to BF16 (DeviceGoldens).
      const bool wide = profile.precision == Precision::kFp32 || profile.precision == Precision::kFp8;
      const float allowed = 2.0F * cpu_error(profile.precision) + (wide ? 0.0F : 2.0F * cpu_error(Precision::kBf16));
      answer.request.profile = profile;
      EXPECT_LE(EncoderError(client.Run(answer.request), answer.expected), allowed + kSumOrder)
          << kernels::Name(profile.attention_backend) << " " << kernels::Name(profile.precision)
          << (answer.request.classify ? ", labels" : "");
    }
  }
}

TEST_P(EncoderDevices, TwoLinkedOnesHaveTheBitsOfOne) {
  const auto& [place, name] = GetParam();
  std::string reason;
  const auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  if (!device->ops->prefill_matches_decode(device->context, Precision::kBf16, true)) {
    GTEST_SKIP() << "BF16 of this device has another order of additions for other shapes";
  }
  if (!Divides(GoldenEncoderPath(name), 2, &reason)) GTEST_SKIP() << reason;
  const RankedModel whole = LoadLinkedModel(place, GoldenEncoderPath(name), 1, {Precision::kBf16});
  const RankedModel ranked = LoadLinkedModel(place, GoldenEncoderPath(name), 2, {Precision::kBf16});
  EncoderClient alone(whole.model.get(), EncoderRoom());
  EncoderClient together(ranked.model.get(), EncoderRoom());
  for (EncoderAnswer& answer : AnswersOf(ReadEncoderGoldens(name), whole.model->config())) {
    answer.request.profile = {DeviceKind::kCuda, AttentionBackend::kFlash, Precision::kBf16};
    EXPECT_EQ(together.Run(answer.request), alone.Run(answer.request));
  }
}

std::string EncoderDeviceName(const ::testing::TestParamInfo<std::tuple<Place, std::string>>& info) {
  return std::get<1>(info.param);
}
INSTANTIATE_TEST_SUITE_P(Fake, EncoderDevices,
                         ::testing::Combine(::testing::ValuesIn(FakePlaces()),
                                            ::testing::ValuesIn(GoldenEncoderNames())),
                         EncoderDeviceName);
INSTANTIATE_TEST_SUITE_P(Cuda, EncoderDevices,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::Values("bert_rerank", "modernbert_cls_rerank", "nomic_tiny")),
                         EncoderDeviceName);

}  // namespace
}  // namespace dunlin::engine
