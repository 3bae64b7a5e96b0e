// SPDX-License-Identifier: Apache-2.0
// Hidden states and vectors of encoders in FP32 against `transformers`, for every model, attention backend and CPU
// variant: each input alone, all in one ragged batch, and mixes in which an input stands at odd rows.
#include "tests/integration/encoder/encoder_goldens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/encoder/encoder_runtime.h"
#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kTolerance = 1e-5F;

float LargestError(const float* values, const std::vector<float>& golden) {
  float worst = 0.0F;
  for (size_t i = 0; i < golden.size(); ++i) {
    const float error = std::abs(values[i] - golden[i]);
    if (!(error <= worst)) worst = error;  // NaN too
  }
  return worst;
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0.0;
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    squares_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    squares_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return dot / std::sqrt(squares_a * squares_b);
}

EngineOptions RoomFor(size_t inputs) {
  EngineOptions options;
  options.max_sequences = static_cast<int32_t>(inputs);
  options.max_tokens_per_step = 4096;
  return options;
}

class EncoderGoldensTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Runs the goldens of those indices as one batch and looks at every stored row.
  void CheckBatch(const Model* model, AttentionBackend backend, const std::vector<size_t>& indices) {
    auto runtime = *ModelEncoderRuntime::Create(model, RoomFor(indices.size()));
    const auto hidden_dim = static_cast<size_t>(model->config().hidden_dim);
    std::vector<std::vector<float>> vectors(indices.size(), std::vector<float>(hidden_dim));
    EncodeBatch batch;
    batch.profile = {DeviceKind::kCpu, backend, Precision::kFp32};
    for (size_t i = 0; i < indices.size(); ++i) {
      const std::vector<TokenId>& tokens = goldens_.inputs[indices[i]].tokens;
      batch.inputs.push_back({.tokens = tokens.data(),
                              .num_tokens = static_cast<int32_t>(tokens.size()),
                              .vector = vectors[i].data(),
                              .dimensions = static_cast<int32_t>(hidden_dim)});
      batch.num_tokens += static_cast<int32_t>(tokens.size());
    }
    ASSERT_TRUE(runtime->Run(&batch).ok());
    const float* hidden = *runtime->HostHidden();
    for (size_t i = 0; i < indices.size(); ++i) {
      const GoldenInput& golden = goldens_.inputs[indices[i]];
      EXPECT_TRUE(batch.inputs[i].finite);
      for (size_t k = 0; k < golden.rows.size(); ++k) {
        const auto row = static_cast<size_t>(runtime->first_row(i) + golden.positions[k]);
        Expect(LargestError(hidden + row * hidden_dim, golden.rows[k]), golden, golden.positions[k]);
      }
      Expect(LargestError(vectors[i].data(), golden.mean), golden, -1);
    }
  }

  void Expect(float error, const GoldenInput& golden, int32_t position) {
    EXPECT_LE(error, kTolerance) << golden.tokens.size() << " tokens, position " << position;
    worst_ = std::max(worst_, error);
  }

  const EncoderGoldens goldens_ = ReadEncoderGoldens(GetParam());
  float worst_ = 0.0F;
};

TEST_P(EncoderGoldensTest, HiddenStatesMatchTransformersInEveryMixBackendAndVariant) {
  const size_t count = goldens_.inputs.size();
  std::vector<std::vector<size_t>> mixes;
  for (size_t i = 0; i < count; ++i) mixes.push_back({i});
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = i;
  mixes.push_back(all);
  std::reverse(all.begin(), all.end());
  mixes.push_back(all);
  mixes.push_back({0, 0, 0, 0, 0});                  // single tokens
  mixes.push_back({2, count - 1, 0, count - 1, 1});  // the longest between short ones
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    const TestModel test = LoadTestModel(GoldenEncoderPath(GetParam()), variant, 2, {Precision::kFp32});
    EXPECT_TRUE(test.model->warnings().empty()) << test.model->warnings().front();
    for (const AttentionBackend backend : kernels::kAutoOrder) {
      SCOPED_TRACE(variant + " " + kernels::Name(backend));
      for (const std::vector<size_t>& mix : mixes) CheckBatch(test.model.get(), backend, mix);
    }
  }
  std::printf("largest error %g\n", static_cast<double>(worst_));
}

TEST_P(EncoderGoldensTest, VectorsMatchTransformersInEveryPooling) {
  const TestModel test = LoadTestModel(GoldenEncoderPath(GetParam()), "", 2, {Precision::kFp32});
  EncoderClient client(test.model.get(), RoomFor(16));
  EncodeRequest request;
  request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32};
  request.dimensions = test.model->config().hidden_dim;
  for (const GoldenInput& input : goldens_.inputs) {
    request.tokens.insert(request.tokens.end(), input.tokens.begin(), input.tokens.end());
    request.lengths.push_back(static_cast<int32_t>(input.tokens.size()));
  }
  const auto check = [&](Pooling pooling, bool normalize, std::vector<float> GoldenInput::*golden) {
    request.pooling = pooling;
    request.normalize = normalize;
    const std::vector<float> vectors = client.Run(request);
    for (size_t i = 0; i < goldens_.inputs.size(); ++i) {
      const float* vector = vectors.data() + i * static_cast<size_t>(request.dimensions);
      Expect(LargestError(vector, goldens_.inputs[i].*golden), goldens_.inputs[i], -1);
    }
  };
  check(Pooling::kMean, false, &GoldenInput::mean);
  check(Pooling::kCls, false, &GoldenInput::cls);
  check(Pooling::kLast, false, &GoldenInput::last);
  check(Pooling::kMean, true, &GoldenInput::mean_normalized);
}

// The other precisions compute the same model: their vectors point the same way.
TEST_P(EncoderGoldensTest, VectorsOfEveryPrecisionHaveTheSameDirection) {
  const TestModel test = LoadTestModel(GoldenEncoderPath(GetParam()), "", 2, kAllPrecisions);
  EncoderClient client(test.model.get(), RoomFor(16));
  const GoldenInput& golden = goldens_.inputs.back();
  EncodeRequest request;
  request.tokens = golden.tokens;
  request.lengths = {static_cast<int32_t>(golden.tokens.size())};
  request.dimensions = test.model->config().hidden_dim;
  request.normalize = true;
  const double most_different[] = {1e-10, 1e-4, 1e-6, 5e-3, 2e-4, 4e-2};  // 1 - cosine, by precision
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    for (const AttentionBackend backend : kernels::kAutoOrder) {
      request.profile = {DeviceKind::kCpu, backend, row.precision};
      const std::vector<float> vector = client.Run(request);
      const double difference = 1.0 - Cosine(vector, golden.mean_normalized);
      std::printf("%s %s: 1 - cosine = %g\n", row.name, kernels::Name(backend), difference);
      EXPECT_LE(difference, most_different[static_cast<size_t>(row.precision)]) << row.name;
    }
  }
}

class ClassifierGoldensTest : public EncoderGoldensTest {
 protected:
  // One call with every pair.
  EncodeRequest AllPairs(const Model& model) const {
    EncodeRequest all;
    all.classify = true;
    all.dimensions = model.config().classifier.num_labels;
    for (const GoldenPair& pair : goldens_.pairs) {
      const auto types = std::count(pair.type_ids.begin(), pair.type_ids.end(), 0);
      all.tokens.insert(all.tokens.end(), pair.token_ids.begin(), pair.token_ids.end());
      all.lengths.push_back(static_cast<int32_t>(pair.token_ids.size()));
      all.first_lengths.push_back(static_cast<int32_t>(types));
    }
    return all;
  }
};

// Each pair alone and all in one batch, with a call for vectors before and after it.
TEST_P(ClassifierGoldensTest, LogitsOfPairsMatchTransformersInEveryBackendAndVariant) {
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    const TestModel test = LoadTestModel(GoldenEncoderPath(GetParam()), variant, 2, {Precision::kFp32});
    EncoderClient client(test.model.get(), RoomFor(16));
    EncodeRequest all = AllPairs(*test.model);
    for (const AttentionBackend backend : kernels::kAutoOrder) {
      all.profile = {DeviceKind::kCpu, backend, Precision::kFp32};
      EncodeRequest vectors;
      vectors.tokens = goldens_.pairs[0].token_ids;
      vectors.lengths = {static_cast<int32_t>(vectors.tokens.size())};
      vectors.dimensions = test.model->config().hidden_dim;
      vectors.profile = all.profile;
      const std::vector<float> before = client.Run(vectors);
      const std::vector<float> together = client.Run(all);
      EXPECT_EQ(client.Run(vectors), before);
      ASSERT_EQ(together.size(), goldens_.pairs.size());
      auto token = all.tokens.begin();
      for (size_t i = 0; i < goldens_.pairs.size(); ++i) {
        const float error = std::abs(together[i] - goldens_.pairs[i].logits[0]);
        EXPECT_LE(error, kTolerance) << variant << " " << kernels::Name(backend) << " " << goldens_.pairs[i].query;
        EncodeRequest one = all;
        one.tokens.assign(token, token + all.lengths[i]);
        token += all.lengths[i];
        one.lengths = {all.lengths[i]};
        one.first_lengths = {all.first_lengths[i]};
        EXPECT_EQ(client.Run(one), std::vector<float>{together[i]}) << "the bits of a pair alone";
      }
    }
  }
}

TEST_P(ClassifierGoldensTest, EagerGivesTheBitsOfFusedInEveryPrecision) {
  const TestModel test = LoadTestModel(GoldenEncoderPath(GetParam()), "", 2, kAllPrecisions);
  EngineOptions eager = RoomFor(16);
  eager.execution = ExecutionMode::kEager;
  EncoderClient fused_client(test.model.get(), RoomFor(16));
  EncoderClient eager_client(test.model.get(), eager);
  EncodeRequest all = AllPairs(*test.model);
  for (const Precision precision : kAllPrecisions) {
    all.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, precision};
    EXPECT_EQ(eager_client.Run(all), fused_client.Run(all)) << kernels::Name(precision);
  }
}

INSTANTIATE_TEST_SUITE_P(Classifiers, ClassifierGoldensTest, ::testing::ValuesIn(GoldenClassifierNames()),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Encoders, EncoderGoldensTest, ::testing::ValuesIn(GoldenEncoderNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
