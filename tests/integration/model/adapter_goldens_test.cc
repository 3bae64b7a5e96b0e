// SPDX-License-Identifier: Apache-2.0
// Logits of base and adapter in FP32 against PEFT, for each backend and CPU variant, whole prompts and chunks: fused
// and single projections, GPT-2's transposed ones, rows interleaved by head or in rotation pairs, factors of the model,
// layers that share keys and values, recurrent ones, queries with an output gate, experts one by one and stacked,
// routers, latent attention, fused and eager, and GGUF adapters of GGUF files.
#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/test_adapters.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kAdapterTolerance = 1e-4F;

struct AdapterGolden {
  const char* adapter;
  std::string model;
  const char* golden;  // the folder with the logits
};
void PrintTo(const AdapterGolden& golden, std::ostream* out) {
  *out << golden.adapter;
}

AdapterGolden Of(const char* adapter, const char* model) {
  return {adapter, GoldenModelPath(model), adapter};
}

class AdapterGoldens : public ::testing::TestWithParam<AdapterGolden> {};

TEST_P(AdapterGoldens, LogitsAreThoseOfPeft) {
  const std::vector<GoldenPrompt> prompts = ReadGoldens(GoldenAdapterPath(GetParam().golden));
  float worst = 0.0F;
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    const TestModel test = LoadTestModel(GetParam().model, variant, 2, {Precision::kFp32});
    const std::unique_ptr<AdapterSet> set = LoadTestAdapters(test.model.get(), {GetParam().adapter});
    for (const AttentionBackend backend : kernels::kAutoOrder) {
      for (const ExecutionMode execution : {ExecutionMode::kFused, ExecutionMode::kEager}) {
        const ExecutionProfile profile{DeviceKind::kCpu, backend, Precision::kFp32};
        const auto num_tokens = static_cast<int32_t>(prompts[0].tokens.size());
        DirectRunOptions options;
        options.execution = execution;
        options.adapter = set->Lookup(GetParam().adapter);
        DirectRun run(test.model.get(), profile, num_tokens, options);
        const auto whole = run.Logits(prompts[0].tokens, num_tokens);
        for (const GoldenLogits& golden : prompts[0].logits) {
          const float error = LargestError(whole[static_cast<size_t>(golden.position)], golden.values);
          EXPECT_LE(error, kAdapterTolerance)
              << variant << " " << kernels::Name(backend) << " position " << golden.position;
          worst = std::max(worst, error);
        }
        for (const int32_t chunk_size : {1, 7}) {
          EXPECT_EQ(run.Logits(prompts[0].tokens, chunk_size), whole) << variant << " chunks of " << chunk_size;
        }
      }
    }
  }
  std::printf("largest error %g\n", static_cast<double>(worst));
}

INSTANTIATE_TEST_SUITE_P(
    Models, AdapterGoldens,
    ::testing::Values(
        Of("llama_gqa", "llama_gqa"), Of("llama_gqa_second", "llama_gqa"), Of("llama_gqa_third", "llama_gqa"),
        Of("gpt2_tiny", "gpt2_tiny"), Of("qwen3_qk_norm", "qwen3_qk_norm"), Of("gemma3_tiny", "gemma3_tiny"),
        Of("phi3_tiny", "phi3_tiny"), Of("neox_parallel", "neox_parallel"), Of("cohere_tiny", "cohere_tiny"),
        Of("granite_tiny", "granite_tiny"), Of("gemma4_e_tiny", "gemma4_e_tiny"), Of("qwen35_tiny", "qwen35_tiny"),
        Of("qwen35_gates", "qwen35_tiny"), Of("qwen3next_tiny", "qwen3next_tiny"), Of("lfm2_tiny", "lfm2_tiny"),
        Of("mamba2_tiny", "mamba2_tiny"), Of("falcon_h1_tiny", "falcon_h1_tiny"), Of("mixtral_tiny", "mixtral_tiny"),
        Of("mixtral_modules", "mixtral_tiny"), Of("qwen2_moe_tiny", "qwen2_moe_tiny"),
        Of("qwen3_moe_tiny", "qwen3_moe_tiny"), Of("qwen3_moe_modules", "qwen3_moe_tiny"),
        Of("olmoe_modules", "olmoe_tiny"), Of("gpt_oss_tiny", "gpt_oss_tiny"), Of("llama4_tiny", "llama4_tiny"),
        Of("granitemoe_tiny", "granitemoe_tiny"), Of("deepseek_v2_tiny", "deepseek_v2_tiny"),
        Of("deepseek_v3_tiny", "deepseek_v3_tiny"), Of("nemotron_h_tiny", "nemotron_h_tiny"),
        Of("gemma4_moe_tiny", "gemma4_moe_tiny"), Of("lfm2moe_tiny", "lfm2moe_tiny"), Of("llama_gqa_head", "llama_gqa"),
        Of("neox_head", "neox_parallel"),
        AdapterGolden{"olmoe_modules.gguf", SourcePath("tests/golden/gguf/olmoe_tiny.gguf"), "olmoe_modules"},
        AdapterGolden{"llama_gqa.gguf", SourcePath("tests/golden/gguf/llama_gqa.gguf"), "llama_gqa"}),
    [](const auto& test) {
      std::string name = test.param.adapter;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

}  // namespace
}  // namespace dunlin::engine
