// SPDX-License-Identifier: Apache-2.0
// The bit contract for encoders: a vector does not depend on its batch neighbours. Random mixes of calls, on engines
// with small and large batches, give input by input the bits that the same input gives alone, on one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/encoder/encoder_goldens.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr int kMixesPerCase = 40;
constexpr int kInputsPerProfile = 10;

class Draws {
 public:
  explicit Draws(uint32_t seed) : random_(seed) {}
  int32_t Draw(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }

 private:
  std::mt19937 random_;
};

struct LibraryEntry {
  EncodeRequest request;  // one input
  std::vector<float> alone;
};

EncodeRequest DrawRequest(const ModelConfig& config, const ExecutionProfile& profile, Draws* draws) {
  EncodeRequest request;
  request.profile = profile;
  const int32_t kind = draws->Draw(0, 3);
  const int32_t length = kind == 0 ? 1 : draws->Draw(1, kind == 1 ? config.max_context : 20);
  for (int32_t i = 0; i < length; ++i) request.tokens.push_back(draws->Draw(0, config.vocab_size - 1));
  request.lengths = {length};
  request.pooling = kPoolings[static_cast<size_t>(draws->Draw(0, 2))];
  request.normalize = draws->Draw(0, 1) == 1;
  request.dimensions = draws->Draw(1, config.hidden_dim);
  return request;
}

// A call of several inputs that share profile, pooling and dimensions with `first`.
struct MixedCall {
  std::vector<const LibraryEntry*> entries;
  std::shared_ptr<WaitingSink> sink;
};

MixedCall SubmitMixed(const std::vector<LibraryEntry>& library, EncoderClient* client, Draws* draws) {
  MixedCall mixed;
  const auto pick = [&] {
    return &library[static_cast<size_t>(draws->Draw(0, static_cast<int32_t>(library.size()) - 1))];
  };
  mixed.entries.push_back(pick());
  EncodeRequest request = mixed.entries.front()->request;
  for (int32_t tries = draws->Draw(0, 200); tries > 0; --tries) {
    const LibraryEntry* more = pick();
    if (more->request.profile != request.profile || more->request.pooling != request.pooling ||
        more->request.normalize != request.normalize) {
      continue;
    }
    mixed.entries.push_back(more);
    request.tokens.insert(request.tokens.end(), more->request.tokens.begin(), more->request.tokens.end());
    request.lengths.push_back(more->request.lengths.front());
  }
  mixed.sink = client->Submit(request);
  return mixed;
}

class EncoderBits : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EncoderBits, AVectorEqualsThatOfItsInputAlone) {
  const auto& [name, variant] = GetParam();
  const TestModel one = LoadTestModel(GoldenEncoderPath(name), variant, 1, kAllPrecisions);
  const TestModel two = LoadTestModel(GoldenEncoderPath(name), variant, 2, kAllPrecisions);
  Draws draws(7);
  std::vector<LibraryEntry> library;
  {
    EncoderClient alone(one.model.get(), EngineOptions());
    for (const ExecutionProfile& profile : AllCpuProfiles()) {
      for (int i = 0; i < kInputsPerProfile; ++i) {
        LibraryEntry& entry = library.emplace_back();
        entry.request = DrawRequest(one.model->config(), profile, &draws);
        // One width for all, so that inputs fit one call.
        entry.request.dimensions = one.model->config().hidden_dim;
        entry.alone = alone.Run(entry.request);
      }
    }
  }
  int64_t compared = 0;
  int64_t mixed_inputs = 0;
  for (int mix = 0; mix < kMixesPerCase && !HasFailure(); ++mix) {
    EngineOptions options;
    options.max_tokens_per_step = draws.Draw(1, 1000);
    options.max_sequences = draws.Draw(1, 40);
    EncoderClient client(two.model.get(), options);
    std::vector<MixedCall> calls;
    for (int32_t i = draws.Draw(2, 10); i > 0; --i) calls.push_back(SubmitMixed(library, &client, &draws));
    for (const MixedCall& mixed : calls) {
      const std::unique_ptr<EncodeCall> call = mixed.sink->Wait();
      ASSERT_EQ(call->reason, FinishReason::kStop);
      const auto width = static_cast<size_t>(call->request.dimensions);
      mixed_inputs += mixed.entries.size() > 1 ? static_cast<int64_t>(mixed.entries.size()) : 0;
      for (size_t i = 0; i < mixed.entries.size(); ++i, ++compared) {
        const LibraryEntry& entry = *mixed.entries[i];
        EXPECT_EQ(std::memcmp(call->vectors.data() + i * width, entry.alone.data(), width * sizeof(float)), 0)
            << kernels::Name(entry.request.profile.attention_backend) << " "
            << kernels::Name(entry.request.profile.precision) << ", " << entry.request.tokens.size()
            << " tokens, budget " << options.max_tokens_per_step;
      }
    }
  }
  std::printf("%lld vectors compared, %lld in calls of several inputs\n", static_cast<long long>(compared),
              static_cast<long long>(mixed_inputs));
  EXPECT_GT(mixed_inputs, 100);
}

// Fewer dimensions are the first of all, and normalising comes after the cut.
TEST_P(EncoderBits, DimensionsAreTruncatedBeforeNormalising) {
  const auto& [name, variant] = GetParam();
  const TestModel test = LoadTestModel(GoldenEncoderPath(name), variant, 1, {Precision::kFp32});
  EncoderClient client(test.model.get(), EngineOptions());
  Draws draws(8);
  EncodeRequest request =
      DrawRequest(test.model->config(), {DeviceKind::kCpu, AttentionBackend::kMath, Precision::kFp32}, &draws);
  request.normalize = false;
  request.dimensions = test.model->config().hidden_dim;
  const std::vector<float> whole = client.Run(request);
  request.dimensions = 5;
  EXPECT_EQ(client.Run(request), std::vector<float>(whole.begin(), whole.begin() + 5));
  request.normalize = true;
  double squares = 0.0;
  for (const float value : client.Run(request)) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares, 1.0, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderBits,
                         ::testing::Combine(::testing::Values("bert_tiny", "roberta_tiny", "modernbert_tiny",
                                                              "qwen3_embedding"),
                                            ::testing::ValuesIn(kernels::AvailableCpuVariants())),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

}  // namespace
}  // namespace dunlin::engine
