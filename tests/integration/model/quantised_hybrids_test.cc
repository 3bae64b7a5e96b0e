// SPDX-License-Identifier: Apache-2.0
// What `dunlin quantize` writes of models with recurrent layers: which matrices have codes, the error of the logits
// beside that of rounding while loading, and the bits of prefill, decode and anything between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/dtype.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/test_model.h"
#include "tools/quantize/quantize_checkpoint.h"

namespace dunlin::engine {
namespace {

using Rows = std::vector<std::vector<float>>;

constexpr int32_t kNumTokens = 70;

std::vector<TokenId> Tokens(TokenId first) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < kNumTokens; ++i) tokens.push_back((first + 37 * i) % 61);
  return tokens;
}

Rows LogitsOf(const Model& model, Precision precision, int32_t chunk_size = kNumTokens) {
  const ExecutionProfile profile{DeviceKind::kCpu, AttentionBackend::kMath, precision};
  return DirectRun(&model, profile, kNumTokens).Logits(Tokens(5), chunk_size);
}

// Of all logits, relative to the second ones.
double ErrorOf(const Rows& logits, const Rows& exact) {
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

class QuantisedHybrids : public ::testing::TestWithParam<std::string> {
 protected:
  std::string path() const { return GoldenModelPath(GetParam()); }

  // Whole rows share a scale: the widths of small models are no multiples of 32. `model`: rounds by GPTQ.
  QuantizeReport Quantize(int32_t bits, const Model* model = nullptr) const {
    QuantizeOptions options;
    options.directory = path();
    options.out = out_.path();
    options.bits = bits;
    options.group = 0;
    const std::vector<TokenId> tokens = Tokens(11);
    const absl::StatusOr<QuantizeReport> report = QuantizeCheckpoint(options, model, tokens);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(QuantizeReport{});
  }

  TestModel LoadWritten(const std::string& variant, Precision precision) const {
    TestModel test = LoadTestModel(out_.path(), variant, 2, {precision});
    EXPECT_EQ(test.model->own_precision(), precision);
    return test;
  }

  const TempDirectory out_;
};

bool HasCodes(const LinearWeights& linear) {
  return kernels::Traits(linear.weight.format).scales != kernels::GroupScales::kNone;
}

// The projections of a layer's mixer.
std::vector<LinearWeights> ProjectionsOf(const LayerWeights& layer, MixerKind mixer) {
  switch (mixer) {
    case MixerKind::kDelta:
      return {layer.delta.in, layer.delta.out};
    case MixerKind::kMamba:
      return {layer.mamba.in, layer.mamba.out};
    case MixerKind::kShortConv:
      return {layer.short_conv.in, layer.short_conv.out};
    default:
      return {};
  }
}

TEST_P(QuantisedHybrids, ProjectionsHaveCodesAndGatesNone) {
  for (const auto& [bits, precision] : {std::pair{8, Precision::kInt8}, std::pair{4, Precision::kInt4}}) {
    ASSERT_GT(Quantize(bits).matrices, 0);
    const TestModel written = LoadWritten("", precision);
    const ModelConfig& config = written.model->config();
    for (int32_t layer = 0; layer < config.num_layers; ++layer) {
      const LayerWeights& weights = written.model->weights(precision).layers[static_cast<size_t>(layer)];
      const std::vector<LinearWeights> projections = ProjectionsOf(weights, config.mixer(layer));
      for (size_t i = 0; i < projections.size(); ++i) {
        // The residual multiplier changes what codes stand for.
        const bool scaled = i == 1 && config.residual_scale != 1.0F;
        EXPECT_EQ(HasCodes(projections[i]), !scaled) << "layer " << layer << ", projection " << i;
      }
      if (config.mixer(layer) == MixerKind::kDelta) {
        EXPECT_EQ(weights.delta.gates.weight.format, kernels::WeightFormat::kBf16) << "layer " << layer;
      }
    }
  }
}

TEST_P(QuantisedHybrids, LogitsAreAsNearAsThoseRoundedWhileLoading) {
  const TestModel plain = LoadTestModel(path(), "", 2, {Precision::kFp32, Precision::kInt8, Precision::kInt4});
  const Rows exact = LogitsOf(*plain.model, Precision::kFp32);
  for (const auto& [bits, precision] : {std::pair{8, Precision::kInt8}, std::pair{4, Precision::kInt4}}) {
    const double rounded = ErrorOf(LogitsOf(*plain.model, precision), exact);
    Quantize(bits);
    const double nearest = ErrorOf(LogitsOf(*LoadWritten("", precision).model, precision), exact);
    EXPECT_GT(nearest, 0.0);
    EXPECT_LT(nearest, 1.5 * rounded) << bits << " bits";
    EXPECT_EQ(Quantize(bits, plain.model.get()).matrices, Quantize(bits).matrices);
    Quantize(bits, plain.model.get());
    const double gptq = ErrorOf(LogitsOf(*LoadWritten("", precision).model, precision), exact);
    EXPECT_NE(gptq, nearest);
    EXPECT_LT(gptq, 1.5 * rounded) << bits << " bits";
    std::printf("%d bits: while loading %.2f%%, to nearest %.2f%%, GPTQ %.2f%%\n", bits, 100.0 * rounded,
                100.0 * nearest, 100.0 * gptq);
  }
}

TEST_P(QuantisedHybrids, PrefillDecodeAndCutsHaveTheSameBits) {
  for (const auto& [bits, precision] : {std::pair{8, Precision::kInt8}, std::pair{4, Precision::kInt4}}) {
    Quantize(bits);
    for (const std::string& variant : kernels::AvailableCpuVariants()) {
      const TestModel written = LoadWritten(variant, precision);
      const Rows whole = LogitsOf(*written.model, precision);
      for (const int32_t chunk_size : {1, 7, 37, 64}) {
        EXPECT_EQ(LogitsOf(*written.model, precision, chunk_size), whole) << variant << ", chunks of " << chunk_size;
      }
    }
  }
}

TEST_P(QuantisedHybrids, ARequestBesideOthersHasTheBitsOfThatRequestAlone) {
  Quantize(4);
  const TestModel written = LoadWritten("", Precision::kInt4);
  std::vector<Request> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = Tokens(static_cast<TokenId>(i));
    requests[i].stopping.max_tokens = 24;
    requests[i].stopping.ignore_eos = true;
    requests[i].sampling.logprobs = 2;
    requests[i].profile.precision = Precision::kInt4;
  }
  EngineOptions options;
  options.max_tokens_per_step = 13;
  EngineClient together(written.model.get(), options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Request& request : requests) sinks.push_back(together.Submit(request));
  EngineClient alone(written.model.get(), EngineOptions());
  for (size_t i = 0; i < requests.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), alone.Run(requests[i]), &why)) << "request " << i << ": " << why;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, QuantisedHybrids,
                         ::testing::Values("qwen35_tiny", "qwen3next_tiny", "kimi_linear_tiny", "granite_h_dense",
                                           "bamba_tiny", "nemotron_h_tiny", "lfm2_tiny", "olmo_hybrid_tiny",
                                           "bailing_hybrid_tiny"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
