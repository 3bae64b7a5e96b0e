// SPDX-License-Identifier: Apache-2.0
// Other people's files through the FP32 path: the logits of checkpoints that were written as GGUF (tests/golden/gguf)
// against those of the checkpoints, or of transformers with what the file says of them; of quantised GGUF files against
// what transformers computes from the same file, and of checkpoints with integer weights (tests/golden/quant) against
// those of the dequantised model. Both also in the precision of their own codes, against what transformers computes
// with rounded inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
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

// The beginnings of the only warnings: of weights whose codes no product has, and of inputs that stay wide.
constexpr const char* kAllDequantised = "7 quantised matrix(es) are dequantised";
const std::map<std::string, std::string> kWarnings = {
    {"bitsandbytes_nf4", kAllDequantised},
    {"compressed_actorder4", kAllDequantised},
    {"gptq_desc_act4", kAllDequantised},
    {"mixed_groups", "1 quantised matrix(es) are dequantised: beside"},
    {"deepseek_v4_fp4", "25 quantised matrix(es) are dequantised: beside 4- and 8-bit codes FP8 is rounded"},
    {"mxfp8_compressed", kAllDequantised},
    {"nvfp4_modelopt", "config.json: quantization_config: quant_algo is 'NVFP4'"},
};

class FormatLogits : public ::testing::TestWithParam<FormatGolden> {};

TEST_P(FormatLogits, AreThoseOfTheCheckpoint) {
  const TestModel test = LoadTestModel(GetParam().file, BestCpuPlace().front().cpu_variant, 2, {Precision::kFp32});
  const std::vector<std::string>& warnings = test.model->warnings();
  const auto expected = kWarnings.find(GetParam().name);
  ASSERT_EQ(warnings.size(), expected == kWarnings.end() ? 0U : 1U) << warnings.front();
  for (const std::string& warning : warnings) EXPECT_EQ(warning.find(expected->second), 0U) << warning;
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

struct QuantizedCheckpoint {
  const char* path;  // below tests/golden
  Precision precision;
  std::optional<kernels::WeightFormat> format;  // of all matrices of the layers; none: of several
};
constexpr QuantizedCheckpoint kQuantizedCheckpoints[] = {
    {"gguf/llama_q4/model.gguf", Precision::kInt4, std::nullopt},
    {"gguf/qwen2_q8/model.gguf", Precision::kInt8, std::nullopt},
    {"gguf/llama_k/model.gguf", Precision::kInt4, std::nullopt},
    {"gguf/llama_iq/model.gguf", Precision::kInt4, std::nullopt},
    {"gguf/experts_q4/model.gguf", Precision::kInt4, std::nullopt},
    {"quant/awq4", Precision::kInt4, kernels::WeightFormat::kQ4Zero},
    {"quant/bitsandbytes_int8", Precision::kInt8, kernels::WeightFormat::kQ8Wide},
    {"quant/compressed_asymmetric4", Precision::kInt4, kernels::WeightFormat::kQ4Zero},
    {"quant/compressed_channel4_bf16", Precision::kInt4, kernels::WeightFormat::kQ4},
    {"quant/compressed_channel8", Precision::kInt8, kernels::WeightFormat::kQ8},
    {"quant/compressed_group4", Precision::kInt4, kernels::WeightFormat::kQ4},
    {"quant/compressed_int8", Precision::kInt8, kernels::WeightFormat::kQ8Wide},
    {"quant/gptq_asymmetric4", Precision::kInt4, kernels::WeightFormat::kQ4Zero},
    {"quant/gptq_symmetric4", Precision::kInt4, kernels::WeightFormat::kQ4},
    {"quant/gptq_v2_8", Precision::kInt8, kernels::WeightFormat::kQ8Wide},
    {"quant/mxfp4_compressed", Precision::kInt4, kernels::WeightFormat::kE2M1},
    {"quant/nvfp4_compressed", Precision::kInt4, kernels::WeightFormat::kE2M1},
    {"quant/nvfp4_modelopt", Precision::kInt4, kernels::WeightFormat::kE2M1},
    {"quant/torchao_int8", Precision::kInt8, kernels::WeightFormat::kQ8Wide},
    {"quant/torchao_int8_group", Precision::kInt8, kernels::WeightFormat::kQ8Wide},
};

std::string PathOf(const QuantizedCheckpoint& own) {
  return SourcePath(std::string("tests/golden/") + own.path);
}

class OwnCodeLogits : public ::testing::TestWithParam<Place> {};

TEST_P(OwnCodeLogits, AreThoseOfRoundedInputs) {
  for (const QuantizedCheckpoint& own : kQuantizedCheckpoints) {
    const fs::path path = PathOf(own);
    const std::string folder = fs::is_directory(path) ? path : path.parent_path();
    const TestModel test = LoadTestModel(path, GetParam().cpu_variant, 2, {own.precision});
    EXPECT_EQ(test.model->own_precision(), own.precision) << own.path;
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
            << own.path << " position " << golden.position;
      }
      for (const int32_t chunk : {1, 3}) {
        DirectRun in_chunks(test.model.get(), profile, num_tokens);
        EXPECT_EQ(in_chunks.Logits(prompt.tokens, chunk), logits) << own.path;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, OwnCodeLogits, ::testing::ValuesIn(CpuPlaces()),
                         [](const auto& test) { return test.param.name; });

TEST(OwnCodeFormats, HoldEveryPartExactly) {
  using kernels::WeightFormat;
  const std::string path = SourcePath("tests/golden/gguf/llama_k/model.gguf");
  const TestModel test =
      LoadTestModel(path, BestCpuPlace().front().cpu_variant, 1, {Precision::kInt4, Precision::kInt8});
  const PrecisionWeights& own = test.model->weights(Precision::kInt4);
  EXPECT_EQ(own.embedding.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.head.weight.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.layers[0].qkv.weight.format, WeightFormat::kQ6Min);  // of Q4_K and Q6_K
  EXPECT_EQ(own.layers[0].attention_out.weight.format, WeightFormat::kQ4Super);
  EXPECT_EQ(own.layers[0].mlp_up.weight.format, WeightFormat::kQ4Super);
  EXPECT_EQ(own.layers[0].mlp_down.weight.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.layers[1].qkv.weight.format, WeightFormat::kQ6Min);
  EXPECT_EQ(test.model->weights(Precision::kInt8).layers[0].qkv.weight.format, WeightFormat::kInt8);
}

TEST(OwnCodeFormats, HoldIqTypesInFourBits) {
  using kernels::WeightFormat;
  const std::string path = SourcePath("tests/golden/gguf/llama_iq/model.gguf");
  const TestModel test = LoadTestModel(path, BestCpuPlace().front().cpu_variant, 1, {Precision::kInt4});
  const PrecisionWeights& own = test.model->weights(Precision::kInt4);
  EXPECT_EQ(own.embedding.format, WeightFormat::kOdd);
  EXPECT_EQ(own.head.weight.format, WeightFormat::kQ6Super);
  EXPECT_EQ(own.layers[0].qkv.weight.format, WeightFormat::kQ8Wide);  // of IQ2_XXS and Q4_K
  EXPECT_EQ(own.layers[0].attention_out.weight.format, WeightFormat::kIq3);
  EXPECT_EQ(own.layers[0].mlp_up.weight.format, WeightFormat::kIq2);
  EXPECT_EQ(own.layers[0].mlp_down.weight.format, WeightFormat::kOdd);
  EXPECT_EQ(own.layers[1].qkv.weight.format, WeightFormat::kIq4);
  EXPECT_EQ(own.layers[1].attention_out.weight.format, WeightFormat::kOdd);
  EXPECT_EQ(own.layers[1].mlp_up.weight.format, WeightFormat::kOddFine);  // of IQ1_S and IQ1_M
  EXPECT_EQ(own.layers[1].mlp_down.weight.format, WeightFormat::kIq2);
}

// All rows of a weight, gathered: [out_features, in_features]. Empty where a layer has none.
std::vector<float> RowsOf(const kernels::Device& device, const kernels::PackedWeight& weight) {
  if (weight.data == nullptr) return {};
  std::vector<int32_t> ids(static_cast<size_t>(weight.out_features));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> rows(ids.size() * static_cast<size_t>(weight.in_features));
  const auto count = static_cast<int32_t>(ids.size());
  EXPECT_EQ(device.ops->gather_rows(device.context, {&weight, ids.data(), rows.data(), count, false}),
            kernels::KernelStatus::kOk);
  return rows;
}

TEST(OwnCodeFormats, HaveTheBitsOfTheDequantisedWeights) {
  for (const QuantizedCheckpoint& golden : kQuantizedCheckpoints) {
    SCOPED_TRACE(golden.path);
    const TestModel test =
        LoadTestModel(PathOf(golden), BestCpuPlace().front().cpu_variant, 1, {golden.precision, Precision::kFp32});
    const PrecisionWeights& own = test.model->weights(golden.precision);
    const PrecisionWeights& wide = test.model->weights(Precision::kFp32);
    EXPECT_EQ(RowsOf(*test.device, own.embedding), RowsOf(*test.device, wide.embedding));
    EXPECT_EQ(RowsOf(*test.device, own.head.weight), RowsOf(*test.device, wide.head.weight));
    for (size_t layer = 0; layer < own.layers.size(); ++layer) {
      for (const auto member :
           {&LayerWeights::qkv, &LayerWeights::attention_out, &LayerWeights::mlp_up, &LayerWeights::mlp_down}) {
        const kernels::PackedWeight& weight = (own.layers[layer].*member).weight;
        EXPECT_EQ(weight.format, golden.format.value_or(weight.format));
        EXPECT_EQ(RowsOf(*test.device, weight), RowsOf(*test.device, (wide.layers[layer].*member).weight));
      }
      for (size_t expert = 0; expert < own.layers[layer].experts.size(); ++expert) {
        for (const auto member : {&ExpertWeights::up, &ExpertWeights::down}) {
          EXPECT_EQ(RowsOf(*test.device, (own.layers[layer].experts[expert].*member).weight),
                    RowsOf(*test.device, (wide.layers[layer].experts[expert].*member).weight));
        }
      }
    }
  }
}

TEST(OwnCodeFormats, AreThoseOfStackedExperts) {
  const std::string path = SourcePath("tests/golden/gguf/experts_q4/model.gguf");
  const TestModel test = LoadTestModel(path, BestCpuPlace().front().cpu_variant, 1, {Precision::kInt4});
  EXPECT_EQ(test.model->own_precision(), Precision::kInt4);
  for (const LayerWeights& layer : test.model->weights(Precision::kInt4).layers) {
    ASSERT_EQ(layer.experts.size(), 3U);
    for (size_t expert = 0; expert < layer.experts.size(); ++expert) {
      EXPECT_EQ(layer.experts.up[expert].weight.format, kernels::WeightFormat::kQ4);
      EXPECT_EQ(layer.experts.down[expert].weight.format, kernels::WeightFormat::kQ8);
    }
    EXPECT_EQ(layer.router.weight.format, kernels::WeightFormat::kF32);
  }
}

// The key and value matrices of heads are stacks, and rows of queries and of the latent change places.
TEST(OwnCodeFormats, AreThoseOfLatentAttention) {
  const std::string path = SourcePath("tests/golden/gguf/deepseek_q8/model.gguf");
  const TestModel test =
      LoadTestModel(path, BestCpuPlace().front().cpu_variant, 1, {Precision::kInt8, Precision::kFp32});
  EXPECT_EQ(test.model->own_precision(), Precision::kInt8);
  const auto expect_codes = [&test](const LinearWeights& own, const LinearWeights& wide) {
    EXPECT_EQ(own.weight.format, kernels::WeightFormat::kQ8);
    EXPECT_EQ(RowsOf(*test.device, own.weight), RowsOf(*test.device, wide.weight));
  };
  const std::vector<LayerWeights>& own = test.model->weights(Precision::kInt8).layers;
  const std::vector<LayerWeights>& wide = test.model->weights(Precision::kFp32).layers;
  for (size_t layer = 0; layer < own.size(); ++layer) {
    const LatentWeights& latent = own[layer].latent;
    for (const auto member : {&LatentWeights::query_down, &LatentWeights::query, &LatentWeights::kv_down}) {
      expect_codes(latent.*member, wide[layer].latent.*member);
    }
    ASSERT_EQ(latent.key_up.size(), 2U);
    for (size_t head = 0; head < latent.key_up.size(); ++head) {
      expect_codes(latent.key_up[head], wide[layer].latent.key_up[head]);
      expect_codes(latent.value_up[head], wide[layer].latent.value_up[head]);
    }
    expect_codes(own[layer].attention_out, wide[layer].attention_out);
  }
  ASSERT_EQ(own[1].experts.size(), 4U);
  for (size_t expert = 0; expert < own[1].experts.size(); ++expert) {
    expect_codes(own[1].experts[expert].up, wide[1].experts[expert].up);
    expect_codes(own[1].experts[expert].down, wide[1].experts[expert].down);
  }
  expect_codes(own[1].shared_expert.up, wide[1].shared_expert.up);
}

// DeepSeek V4 as it is published: FP8 in blocks, of which fp8 keeps the codes but for what takes part in choices and in
// products of groups, and experts in MXFP4.
TEST(OwnCodeFormats, AreThoseOfExpertsNextToFp8) {
  using kernels::WeightFormat;
  const TestModel test =
      LoadTestModel(SourcePath("tests/golden/quant/deepseek_v4_fp4"), BestCpuPlace().front().cpu_variant, 1,
                    {Precision::kInt4, Precision::kFp8, Precision::kFp32});
  EXPECT_EQ(test.model->own_precision(), Precision::kInt4);
  const auto expect_formats = [&test](const auto& of, WeightFormat int4, WeightFormat fp8) {
    const std::vector<LayerWeights>& wide = test.model->weights(Precision::kFp32).layers;
    for (const auto& [precision, format] : {std::pair{Precision::kInt4, int4}, {Precision::kFp8, fp8}}) {
      const std::vector<LayerWeights>& layers = test.model->weights(precision).layers;
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        const kernels::PackedWeight& weight = of(layers[layer]).weight;
        if (weight.data == nullptr) continue;  // a layer without an indexer
        EXPECT_EQ(weight.format, format);
        EXPECT_EQ(RowsOf(*test.device, weight), RowsOf(*test.device, of(wide[layer]).weight));
      }
    }
  };
  using Layer = const LayerWeights&;
  const auto bf16_and_fp8 = [&](const auto& of) { expect_formats(of, WeightFormat::kBf16, WeightFormat::kE4M3); };
  bf16_and_fp8([](Layer layer) { return layer.latent.query_down; });
  bf16_and_fp8([](Layer layer) { return layer.latent.query; });
  bf16_and_fp8([](Layer layer) { return layer.latent.kv_down; });
  bf16_and_fp8([](Layer layer) { return layer.attention_out; });
  bf16_and_fp8([](Layer layer) { return layer.shared_expert.up; });
  const auto bf16 = [&](const auto& of) { expect_formats(of, WeightFormat::kBf16, WeightFormat::kBf16); };
  bf16([](Layer layer) { return layer.indexer.query; });
  bf16([](Layer layer) { return layer.compressed.out_down[1]; });
  for (const size_t expert : {0, 1, 5}) {
    const auto codes = [&](const auto& of) { expect_formats(of, WeightFormat::kE2M1, WeightFormat::kBf16); };
    codes([expert](Layer layer) { return layer.experts.up[expert]; });
    codes([expert](Layer layer) { return layer.experts.down[expert]; });
  }
}

// Inputs are BF16 in int4, and E4M3 in blocks of 128 in fp8, so that other keys and experts are chosen: logits of
// random weights move by 0.07 and 0.5 of themselves, those of unlike models differ by 1.4.
TEST(OwnCodeFormats, ServeExpertsNextToFp8) {
  const std::string path = SourcePath("tests/golden/quant/deepseek_v4_fp4");
  const TestModel test =
      LoadTestModel(path, BestCpuPlace().front().cpu_variant, 2, {Precision::kInt4, Precision::kFp8});
  for (const auto& [precision, bound] : {std::pair{Precision::kInt4, 0.15}, {Precision::kFp8, 0.7}}) {
    const ExecutionProfile profile{DeviceKind::kCpu, AttentionBackend::kMath, precision};
    double square = 0.0;
    double norm = 0.0;
    for (const GoldenPrompt& prompt : ReadGoldens(path)) {
      const auto num_tokens = static_cast<int32_t>(prompt.tokens.size());
      DirectRun run(test.model.get(), profile, num_tokens);
      const auto logits = run.Logits(prompt.tokens, num_tokens);
      DirectRun in_chunks(test.model.get(), profile, num_tokens);
      EXPECT_EQ(in_chunks.Logits(prompt.tokens, 3), logits);
      for (const GoldenLogits& golden : prompt.logits) {
        for (size_t i = 0; i < golden.values.size(); ++i) {
          square += std::pow(logits[static_cast<size_t>(golden.position)][i] - golden.values[i], 2);
          norm += std::pow(golden.values[i], 2);
        }
      }
    }
    EXPECT_LE(std::sqrt(square / norm), bound) << kernels::Name(precision);
    std::printf("%s: relative RMS difference %.5f\n", kernels::Name(precision), std::sqrt(square / norm));
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
