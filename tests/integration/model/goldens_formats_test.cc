// SPDX-License-Identifier: Apache-2.0
// Other people's files through the FP32 path: the logits of checkpoints that were written as GGUF (tests/golden/gguf)
// against those of the checkpoints, of quantised GGUF files against what transformers computes from the same file, and
// of checkpoints with integer weights (tests/golden/quant) against those of the dequantised model.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
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
