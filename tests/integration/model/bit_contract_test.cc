// SPDX-License-Identifier: Apache-2.0
// The bit contract (docs/architecture.md): a response does not depend on its neighbours. Random mixes of requests on
// engines with little memory and small budgets give, request by request, the token ids and the bits of every log
// probability that the same request gives alone, on one thread, with room for everything and no prefix cache.
#include <gtest/gtest.h>

#include "tests/integration/model/bit_mixes.h"

namespace dunlin::engine {
namespace {

MixTotals mix_totals;

class BitContract : public ::testing::TestWithParam<std::tuple<MixCase, std::string>> {};

TEST_P(BitContract, AResponseEqualsThatOfItsRequestAlone) {
  auto [test, variant] = GetParam();
  if (variant == "portable") test.num_mixes = (test.num_mixes + 1) / 2;  // ten times as slow
  const TestModel alone = LoadTestModel(test.path, variant, 1, kAllPrecisions);
  const TestModel together = LoadTestModel(test.path, variant, 2, kAllPrecisions);
  RunMixes(*alone.model, *together.model, test, &mix_totals);
}

// The CPU's table but for products: a decoding row has another in the last bits that count, as a device has whose
// phases have kernels of their own.
const kernels::DeviceOps& TwoPhaseOps(const kernels::DeviceOps& cpu) {
  static const kernels::DeviceOps* const plain = &cpu;
  static const kernels::DeviceOps table = [] {
    kernels::DeviceOps ops = *plain;
    ops.prefill_matches_decode = [](const kernels::DeviceContext*, kernels::Precision, bool) { return false; };
    ops.gemm_fuses = [](kernels::DeviceContext*, const kernels::GemmParams&) { return false; };
    ops.gemm = [](kernels::DeviceContext* context, const kernels::GemmParams& params) {
      const kernels::KernelStatus status = plain->gemm(context, params);
      for (int64_t row = 0; row < params.decode_rows; ++row) {
        for (int64_t n = 0; n < params.weight->out_features; ++n) params.out[row * params.out_stride + n] *= 1.0001F;
      }
      return status;
    };
    return ops;
  }();
  return table;
}

TEST(BitContractOfTwoPhases, HoldsWhereDecodeHasOtherBitsThanPrefill) {
  for (const char* name : {"llama_gqa", "qwen2_moe_tiny"}) {
    const MixCase test{name, GoldenModelPath(name), 20, 3};
    const TestModel alone = LoadTestModel(test.path, "", 1, kAllPrecisions);
    const TestModel together = LoadTestModel(test.path, "", 2, kAllPrecisions);
    const kernels::DeviceOps* const two_phases = &TwoPhaseOps(*alone.device->ops);
    alone.device->ops = together.device->ops = two_phases;
    RunMixes(*alone.model, *together.model, test, &mix_totals);
  }
}

// The demo model is for dimensions that the small ones lack; portable code would take as long for it as all else does.
std::vector<std::tuple<MixCase, std::string>> Cases() {
  std::vector<std::tuple<MixCase, std::string>> cases;
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    for (const MixCase& test : GoldenMixCases(20, 30, 3)) cases.emplace_back(test, variant);
    // Neighbours share experts here: what an expert computes at once is another set of rows in every step.
    cases.emplace_back(MixCase{"qwen2_moe", GoldenModelPath("qwen2_moe_tiny"), 20, 3}, variant);
    cases.emplace_back(MixCase{"deepseek_v3", GoldenModelPath("deepseek_v3_tiny"), 10, 2}, variant);
    // A sequence has a state besides its pages.
    cases.emplace_back(MixCase{"qwen35", GoldenModelPath("qwen35_tiny"), 20, 3}, variant);
    cases.emplace_back(MixCase{"lfm2_moe", GoldenModelPath("lfm2moe_tiny"), 20, 3}, variant);
    cases.emplace_back(MixCase{"lfm3", GoldenModelPath("lfm3_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"granite_h", GoldenModelPath("granite_h_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"nemotron_h", GoldenModelPath("nemotron_h_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"gemma4_e", GoldenModelPath("gemma4_e_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"gemma4_moe", GoldenModelPath("gemma4_moe_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"kimi_linear", GoldenModelPath("kimi_linear_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"bailing_hybrid", GoldenModelPath("bailing_hybrid_tiny"), 10, 2}, variant);
    // Norms stand where a layer's kind has them, and states change sign.
    cases.emplace_back(MixCase{"olmo_hybrid", GoldenModelPath("olmo_hybrid_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"apertus", GoldenModelPath("apertus_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"phimoe", GoldenModelPath("phimoe_tiny"), 10, 2}, variant);
    // Rows choose the keys that they attend to.
    cases.emplace_back(MixCase{"deepseek_v32", GoldenModelPath("deepseek_v32_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"glm_moe_dsa", GoldenModelPath("glm_moe_dsa_tiny"), 10, 2}, variant);
    // Rows see a window and entries of groups of tokens, whose pages stay.
    cases.emplace_back(MixCase{"deepseek_v4", GoldenModelPath("deepseek_v4_tiny"), 20, 3}, variant);
    cases.emplace_back(MixCase{"muse_glimmer", GoldenModelPath("muse_glimmer_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"llama4", GoldenModelPath("llama4_tiny"), 10, 2}, variant);
    // Sliding layers have more query heads and rotate more of them.
    cases.emplace_back(MixCase{"step", GoldenModelPath("step_tiny"), 10, 2}, variant);
    // Layers have pages of two shapes.
    cases.emplace_back(MixCase{"mimo_v2", GoldenModelPath("mimo_v2_tiny"), 10, 2}, variant);
    cases.emplace_back(MixCase{"gemma4", GoldenModelPath("gemma4_tiny"), 20, 3}, variant);
    cases.emplace_back(MixCase{"gemma4", GoldenModelPath("gemma4_tiny"), 20, 3, true}, variant);
    const MixCase demo{"demo", SourcePath("models/demo"), 4, 1, true};
    if (variant != "portable") cases.emplace_back(demo, variant);
  }
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<MixCase, std::string>>& info) {
  const auto& [test, variant] = info.param;
  return std::string(test.name) + (test.kv_fp8 ? "_fp8_kv_" : "_") + variant;
}

INSTANTIATE_TEST_SUITE_P(Models, BitContract, ::testing::ValuesIn(Cases()), NameOf);

// The mixes mean something only if they did preempt and did hit the cache.
class Exercised : public ::testing::Environment {
 public:
  void TearDown() override {
    std::printf("requests %llu, preemptions %llu, tokens from the prefix cache %llu, %llu of them E4M3\n",
                static_cast<unsigned long long>(mix_totals.requests),
                static_cast<unsigned long long>(mix_totals.preemptions),
                static_cast<unsigned long long>(mix_totals.prefix_hits),
                static_cast<unsigned long long>(mix_totals.fp8_page_hits));
    if (mix_totals.requests < 1000) return;  // a filtered run
    EXPECT_GT(mix_totals.preemptions, 100U);
    EXPECT_GT(mix_totals.prefix_hits, 1000U);
    EXPECT_GT(mix_totals.fp8_page_hits, 100U);
  }
};
const ::testing::Environment* const kExercised = ::testing::AddGlobalTestEnvironment(new Exercised);

}  // namespace
}  // namespace dunlin::engine
