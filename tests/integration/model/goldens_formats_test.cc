// SPDX-License-Identifier: Apache-2.0
// Other people's files through the FP32 path: the logits of checkpoints that were written as GGUF (tests/golden/gguf)
// against those of the checkpoints, or of transformers with what the file says of them; of quantised GGUF files against
// what transformers computes from the same file, and of checkpoints with integer weights (tests/golden/quant) against
// those of the dequantised model. Quantised GGUF files also in the precision of their own codes, against what
// transformers computes with rounded inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

namespace fs = std::filesystem;

constexpr float kTolerance = 1e-4F;

struct FormatGolden {
  std::string name;
  std::string file;
  std::string goldens;  // folder of goldens.json
};

std::vector<FormatGolden> FormatGoldens() {
  std::vector<FormatGolden> goldens;
  for (const auto& entry : fs::directory_iterator(SourcePath("tests/golden/gguf"))) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".gguf") goldens.push_back({name, entry.path().string(), GoldenModelPath(name)});
    const fs::path file = entry.path() / "model.gguf";
    if (fs::exists(file)) goldens.push_back({name, file.string(), entry.path().string()});
  }
  for (const auto& entry : fs::directory_iterator(SourcePath("tests/golden/quant"))) {
    const std::string folder = entry.path().string();
    if (fs::exists(entry.path() / "config.json")) goldens.push_back({entry.path().filename(), folder, folder});
  }
  std::sort(goldens.begin(), goldens.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return goldens;
}

class FormatLogits : public ::testing::TestWithParam<FormatGolden> {};

TEST_P(FormatLogits, AreThoseOfTheCheckpoint) {
  const TestModel test = LoadTestModel(GetParam().file, BestCpuPlace().front().cpu_variant, 2, {Precision::kFp32});
  EXPECT_TRUE(test.model->warnings().empty()) << test.model->warnings().front();
  EXPECT_FALSE(test.model->config().eos_token_ids.empty());
  const ExecutionProfile profile{DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32};
  for (const GoldenPrompt& prompt : ReadGoldens(GetParam().goldens)) {
    const auto num_tokens = static_cast<int32_t>(prompt.tokens.size());
    DirectRun run(test.model.get(), profile, std::max(num_tokens, 8));
    const auto logits = run.Logits(prompt.tokens, num_tokens);
    ASSERT_FALSE(prompt.logits.empty());
    for (const GoldenLogits& golden : prompt.logits) {
      EXPECT_LE(LargestError(logits[static_cast<size_t>(golden.position)], golden.values), kTolerance)
          << "position " << golden.position;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, FormatLogits, ::testing::ValuesIn(FormatGoldens()),
                         [](const auto& test) { return test.param.name; });

struct OwnCodes {
  const char* name;
  Precision precision;
};
constexpr OwnCodes kOwnCodes[] = {{"llama_q4", Precision::kInt4},
                                  {"qwen2_q8", Precision::kInt8},
                                  {"llama_k", Precision::kInt4},
                                  {"experts_q4", Precision::kInt4}};

class OwnCodeLogits : public ::testing::TestWithParam<Place> {};

TEST_P(OwnCodeLogits, AreThoseOfRoundedInputs) {
  for (const OwnCodes& own : kOwnCodes) {
    const std::string folder = SourcePath(std::string("tests/golden/gguf/") + own.name);
    const TestModel test = LoadTestModel(folder + "/model.gguf", GetParam().cpu_variant, 2, {own.precision});
    // MATH keeps the attention weights in FP32, as the reference.
    const ExecutionProfile profile{DeviceKind::kCpu, AttentionBackend::kMath, own.precision};
    for (const GoldenPrompt& prompt : ReadGoldens(folder)) {
      const auto num_tokens = static_cast<int32_t>(prompt.tokens.size());
      DirectRun run(test.model.get(), profile, num_tokens);
      const auto logits = run.Logits(prompt.tokens, num_tokens);
      ASSERT_FALSE(prompt.own_logits.empty());
      for (const GoldenLogits& golden : prompt.own_logits) {
        float largest = 0.0F;
        for (const float value : golden.values) largest = std::max(largest, std::abs(value));
        // Sums differ in their last bits, which may round an input of the next product the other way: 2^-8 of it.
        EXPECT_LE(LargestError(logits[static_cast<size_t>(golden.position)], golden.values), 0x1p-8F * largest)
            << own.name << " position " << golden.position;
      }
      for (const int32_t chunk : {1, 3}) {
        DirectRun in_chunks(test.model.get(), profile, num_tokens);
        EXPECT_EQ(in_chunks.Logits(prompt.tokens, chunk), logits) << own.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, OwnCodeLogits, ::testing::ValuesIn(CpuPlaces()),
                         [](const auto& test) { return test.param.name; });

TEST(OwnCodeFormats, HoldEveryPartExactly) {
  using kernels::WeightFormat;
  const std::string path = SourcePath("tests/golden/gguf/llama_k/model.gguf");
  const TestModel test = LoadTestModel(path, BestCpuPlace().front().cpu_variant, 1,
                                       {Precision::kInt4, Precision::kInt8, Precision::kFp32});
  const PrecisionWeights& own = test.model->weights(Precision::kInt4);
  EXPECT_EQ(own.embedding.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.head.weight.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.layers[0].qkv.weight.format, WeightFormat::kQ6Min);  // of Q4_K and Q6_K
  EXPECT_EQ(own.layers[0].attention_out.weight.format, WeightFormat::kQ4Super);
  EXPECT_EQ(own.layers[0].mlp_up.weight.format, WeightFormat::kQ4Super);
  EXPECT_EQ(own.layers[0].mlp_down.weight.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.layers[1].qkv.weight.format, WeightFormat::kQ6Min);
  EXPECT_EQ(test.model->weights(Precision::kInt8).layers[0].qkv.weight.format, WeightFormat::kInt8);
  // Gathered rows have the bits of the dequantised ones.
  const kernels::DeviceOps& ops = *test.device->ops;
  const PrecisionWeights& wide = test.model->weights(Precision::kFp32);
  for (const auto& [left, right] : {std::pair{own.embedding, wide.embedding},
                                    {own.layers[0].qkv.weight, wide.layers[0].qkv.weight},
                                    {own.layers[1].qkv.weight, wide.layers[1].qkv.weight},
                                    {own.layers[0].mlp_up.weight, wide.layers[0].mlp_up.weight},
                                    {own.layers[1].mlp_up.weight, wide.layers[1].mlp_up.weight}}) {
    std::vector<int32_t> ids(static_cast<size_t>(left.out_features));
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<float> rows[2];
    for (const auto& [weight, out] : {std::pair{&left, &rows[0]}, {&right, &rows[1]}}) {
      out->resize(ids.size() * static_cast<size_t>(left.in_features));
      ASSERT_EQ(ops.gather_rows(test.device->context,
                                {weight, ids.data(), out->data(), static_cast<int32_t>(ids.size()), false}),
                kernels::KernelStatus::kOk);
    }
    EXPECT_EQ(rows[0], rows[1]);
  }
}

TEST(OwnCodeFormats, AreThoseOfStackedExperts) {
  const std::string path = SourcePath("tests/golden/gguf/experts_q4/model.gguf");
  const TestModel test = LoadTestModel(path, BestCpuPlace().front().cpu_variant, 1, {Precision::kInt4});
  EXPECT_EQ(test.model->own_precision(), Precision::kInt4);
  for (const LayerWeights& layer : test.model->weights(Precision::kInt4).layers) {
    ASSERT_EQ(layer.experts.size(), 3U);
    for (const ExpertWeights& expert : layer.experts) {
      EXPECT_EQ(expert.up.weight.format, kernels::WeightFormat::kQ4);
      EXPECT_EQ(expert.down.weight.format, kernels::WeightFormat::kQ8);
    }
    EXPECT_EQ(layer.router.weight.format, kernels::WeightFormat::kF32);
  }
}

TEST(FormatModels, LoadInEveryPrecision) {
  for (const FormatGolden& golden : FormatGoldens()) {
    const TestModel test =
        LoadTestModel(golden.file, BestCpuPlace().front().cpu_variant, 1,
                      {Precision::kBf16, Precision::kFp16, Precision::kFp8, Precision::kInt8, Precision::kInt4});
    EXPECT_GT(test.model->num_parameters(), 0) << golden.name;
  }
}

}  // namespace
}  // namespace dunlin::engine
