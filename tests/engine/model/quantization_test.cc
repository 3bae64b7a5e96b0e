// SPDX-License-Identifier: Apache-2.0
// The config fields of every format of floats, and every refusal with its file, field and value.
#include "engine/model/checkpoint/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Quantization> ParsedQuantization(const std::string& quantization_config,
                                                const std::string& hf_quant = "") {
  const std::string text =
      quantization_config.empty() ? "{}" : "{\"quantization_config\": " + quantization_config + "}";
  const nlohmann::json object = nlohmann::json::parse(text);
  JsonFields fields(object, "config.json");
  return ParseQuantization(fields, hf_quant);
}

// A compressed-tensors config with one group of these arguments.
std::string CompressedTensors(const std::string& weights, const std::string& inputs, const std::string& more = "") {
  return R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head", "re:.*gate$"],)"
         R"("config_groups": {"group_0": {"targets": ["Linear"], "weights": )" +
         weights + R"(, "input_activations": )" + inputs + "}}" + more + "}";
}
constexpr const char* kTensor = R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false})";
constexpr const char* kChannel = R"({"num_bits": 8, "type": "float", "strategy": "channel"})";
constexpr const char* kBlock =
    R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]})";
constexpr const char* kToken = R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})";
constexpr const char* kGroup =
    R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": true})";

struct Accepted {
  const char* name;
  std::string config;
  std::string hf_quant;
  const char* format;
  WeightScaling weights;
  bool static_inputs;
  size_t num_warnings;
};

TEST(Quantization, ReadsTheFieldsOfEveryFormat) {
  const Accepted cases[] = {
      {"tensor", CompressedTensors(kTensor, kTensor), "", "compressed-tensors", WeightScaling::kTensor, true, 0},
      {"channel", CompressedTensors(kChannel, kToken), "", "compressed-tensors", WeightScaling::kChannel, false, 0},
      {"block", CompressedTensors(kBlock, kGroup), "", "compressed-tensors", WeightScaling::kBlock, false, 0},
      {"weights alone", CompressedTensors(kChannel, "null"), "", "compressed-tensors", WeightScaling::kChannel, false,
       1},
      {"token on blocks", CompressedTensors(kBlock, kToken), "", "compressed-tensors", WeightScaling::kBlock, false, 1},
      {"modelopt", R"({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]})", "", "ModelOpt",
       WeightScaling::kTensor, true, 0},
      {"modelopt file", "", R"({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}})", "ModelOpt",
       WeightScaling::kTensor, true, 0},
      {"modelopt per token", "", R"({"quantization": {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}})", "ModelOpt",
       WeightScaling::kChannel, false, 0},
      {"fbgemm", R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 900.0})", "", "fbgemm_fp8",
       WeightScaling::kChannel, false, 0},
      {"deepseek", R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]})", "", "fp8 in blocks",
       WeightScaling::kBlock, false, 0},
      {"autofp8", R"({"quant_method": "fp8", "activation_scheme": "static"})", "", "fp8 per tensor",
       WeightScaling::kTensor, true, 0},
      {"autofp8 dynamic", R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": null})", "",
       "fp8 per tensor", WeightScaling::kTensor, false, 0},
      {"modelopt without its name", R"({"quant_algo": "FP8", "kv_cache_scheme": "FP8", "ignore": ["lm_head"]})", "",
       "ModelOpt", WeightScaling::kTensor, true, 0},
  };
  for (const Accepted& row : cases) {
    const absl::StatusOr<Quantization> parsed = ParsedQuantization(row.config, row.hf_quant);
    ASSERT_TRUE(parsed.ok()) << row.name << ": " << parsed.status();
    EXPECT_STREQ(parsed->format->name, row.format) << row.name;
    EXPECT_EQ(parsed->weights, row.weights) << row.name;
    EXPECT_EQ(parsed->static_inputs, row.static_inputs) << row.name;
    EXPECT_EQ(parsed->warnings.size(), row.num_warnings) << row.name;
  }
  EXPECT_EQ(ParsedQuantization("")->format, nullptr);
  EXPECT_EQ(ParsedQuantization(cases[8].config)->input_amax_limit, 900.0F);
  EXPECT_EQ(ParsedQuantization(cases[9].config)->block_rows, 128);
}

// DeepSeek V4 names the type of its experts next to quantization_config, later versions in it.
TEST(Quantization, Fp4ExpertsStandNextToFp8InBlocks) {
  const std::string blocks = R"({"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128])";
  const auto parsed = [&](const std::string& inside, const std::string& beside) {
    const nlohmann::json object =
        nlohmann::json::parse("{" + beside + R"("quantization_config": )" + blocks + inside + "}}");
    JsonFields fields(object, "config.json");
    return ParseQuantization(fields, "");
  };
  for (const auto& quantization :
       {parsed("", R"("expert_dtype": "fp4", )"), parsed(R"(, "expert_dtype": "fp4")", "")}) {
    ASSERT_TRUE(quantization.ok()) << quantization.status();
    EXPECT_TRUE(quantization->microscaled);
    EXPECT_EQ(quantization->weights, WeightScaling::kBlock);
  }
  EXPECT_FALSE(parsed("", R"("expert_dtype": "fp8", )")->microscaled);
  EXPECT_THAT(parsed("", R"("expert_dtype": "int3", )").status().message(),
              HasSubstr("config.json: expert_dtype is 'int3'; known: fp4, fp8, bf16"));
}

TEST(Quantization, IgnoredModulesAreNamesOrSuffixes) {
  const absl::StatusOr<Quantization> parsed = ParsedQuantization(CompressedTensors(kTensor, kTensor));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(IsIgnored(*parsed, "lm_head"));
  EXPECT_TRUE(IsIgnored(*parsed, "model.lm_head"));
  EXPECT_FALSE(IsIgnored(*parsed, "model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(IsIgnored(*parsed, "other_lm_head"));
}

struct Refused {
  std::string config;
  const char* message;
};

TEST(Quantization, RefusesEverythingElseByFieldAndValue) {
  const Refused cases[] = {
      {R"({"quant_method": "quip", "bits": 4})", "quantization_config: quant_method is 'quip'; known: compressed-ten"},
      {R"({"quant_method": "gptq"})", "bits is missing"},
      {R"({"quant_method": "gptq", "bits": 3})", "bits is 3; codes of 4 and 8 bits are read"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})", "checkpoint_format is 'marlin'"},
      {R"({"quant_method": "gptq", "bits": 4, "pack_dtype": "int8"})", "pack_dtype is 'int8'"},
      {R"({"quant_method": "awq", "bits": 4, "version": "gemv"})", "version is 'gemv'; known: gemm"},
      {R"({"quant_method": "awq", "bits": 8})", "bits is 8; AWQ is read with 4"},
      {R"({"quant_method": "bitsandbytes"})", "load_in_4bit and load_in_8bit are false"},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf3"})", "is 'nf3'"},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16"})",
       "bnb_4bit_quant_storage is 'bfloat16'"},
      {R"({"quant_method": "torchao"})", "quant_type.default is missing"},
      {R"({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_version": 2}}})",
       "quant_type.default: _type is 'Int4WeightOnlyConfig'; known: Int8WeightOnlyConfig"},
      {R"({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig", "_version": 1}}})",
       "_version is 1"},
      {R"({"quant_method": "quark"})", "quant_method is 'quark'"},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"})", "quant_algo is 'NVFP4_AWQ'; known: FP8"},
      {R"({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"})", "quant_algo is 'W4A16_AWQ'"},
      {R"({"quant_method": "modelopt"})", "quant_algo is ''"},
      {R"({"quant_method": "compressed-tensors", "format": "marlin-24"})", "format is 'marlin-24'"},
      {R"({"quant_method": "compressed-tensors"})", "config_groups is missing"},
      {CompressedTensors(R"({"num_bits": 4, "type": "float"})", kToken), "num_bits is 4; limit is [8, 8]"},
      {CompressedTensors(R"({"num_bits": 8, "type": "float", "group_size": 16, "strategy": "tensor_group"})", kToken),
       "group_size is 16 with num_bits 8; MXFP8 has groups of 32"},
      {CompressedTensors(R"({"num_bits": 4, "type": "float", "group_size": 16, "strategy": "group"})", kToken),
       "strategy is 'group'; known: tensor_group"},
      {CompressedTensors(R"({"num_bits": 6, "type": "float", "group_size": 32, "strategy": "group"})", kToken),
       "num_bits is 6; codes of 4 and 8 bits are read"},
      {CompressedTensors(R"({"num_bits": 8, "type": "complex"})", kToken), "type is 'complex'; known: float"},
      {CompressedTensors(R"({"num_bits": 3, "type": "int"})", kToken), "num_bits is 3; codes of 4 and 8 bits are read"},
      {CompressedTensors(R"({"num_bits": 4, "type": "int", "strategy": "block"})", kToken), "strategy is 'block'"},
      {CompressedTensors(R"({"num_bits": 4, "type": "int", "dynamic": true})", kToken), "dynamic is true"},
      {CompressedTensors(R"({"num_bits": 8, "type": "float", "symmetric": false})", kToken), "symmetric is false"},
      {CompressedTensors(R"({"num_bits": 8, "type": "float", "strategy": "group"})", kToken), "strategy is 'group'"},
      {CompressedTensors(R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 64]})",
                         kToken),
       "block_structure is [128, 64]; must be [rows, 128]"},
      {CompressedTensors(kBlock, kTensor), "block-scaled weights need dynamic inputs"},
      {CompressedTensors(kChannel, R"({"num_bits": 8, "type": "float", "strategy": "group", "dynamic": true})"),
       "group_size is missing"},
      {CompressedTensors(kChannel, R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": "local"})"),
       "dynamic is \"local\"; must be true or false"},
      {CompressedTensors(kTensor, kTensor, R"(, "transform_config": {"config_groups": {"R1": {}}})"),
       "transform_config is set"},
      {CompressedTensors(kTensor, kTensor, R"(, "sparsity_config": {"format": "sparse-24-bitmask"})"),
       "sparsity_config is set"},
      {R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 0})", "activation_scale_ub is 0"},
      {R"({"quant_method": "fp8", "fmt": "e5m2"})", "fmt is 'e5m2'"},
      {R"({"quant_method": "fp8", "activation_scheme": "maybe"})", "activation_scheme is 'maybe'"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "weight_block_size is [128]"},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "weight_block_size is 0; limit is [1, "},
      {R"({"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "static"})",
       "activation_scheme is 'static'"},
      {R"({"quant_method": "fp8", "modules_to_not_convert": "lm_head"})", "modules_to_not_convert is \"lm_head\""},
  };
  for (const Refused& row : cases) {
    const absl::Status status = ParsedQuantization(row.config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.config;
    EXPECT_THAT(std::string(status.message()), HasSubstr("config.json: quantization_config")) << row.config;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.message)) << row.config;
  }
  EXPECT_THAT(std::string(ParsedQuantization("", R"({"quantization": {"quant_algo": "INT4_AWQ"}})").status().message()),
              HasSubstr("hf_quant_config.json: quantization: quant_algo is 'INT4_AWQ'"));
  EXPECT_THAT(std::string(ParsedQuantization("", "[]").status().message()), HasSubstr("hf_quant_config.json"));
}

TEST(Quantization, ReadsFloatsInSmallGroupsAndSaysThatInputsStayWide) {
  constexpr const char* kNvfp4 =
      R"({"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group", "symmetric": true})";
  constexpr const char* kMxfp8 = R"({"num_bits": 8, "type": "float", "group_size": 32, "strategy": "group"})";
  for (const std::string& config : {CompressedTensors(kNvfp4, kNvfp4), CompressedTensors(kMxfp8, kMxfp8),
                                    std::string(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"),
                                    std::string(R"({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"})"),
                                    std::string(R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})")}) {
    const auto parsed = ParsedQuantization(config);
    ASSERT_TRUE(parsed.ok()) << config << parsed.status();
    EXPECT_TRUE(parsed->microscaled) << config;
    EXPECT_EQ(parsed->integer.layout, IntegerLayout::kNone);
    EXPECT_FALSE(parsed->static_inputs);
    ASSERT_EQ(parsed->warnings.size(), 1U) << config;
    EXPECT_THAT(parsed->warnings.front(), HasSubstr("inputs are not quantised"));
  }
  EXPECT_TRUE(ParsedQuantization(CompressedTensors(kNvfp4, "null"))->warnings.empty());
  const auto weights_alone = ParsedQuantization(R"({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"})");
  ASSERT_TRUE(weights_alone.ok()) << weights_alone.status();
  EXPECT_TRUE(weights_alone->microscaled && weights_alone->warnings.empty());
  const auto mixed =
      ParsedQuantization("", R"({"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {}}})");
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_TRUE(mixed->microscaled && mixed->static_inputs);
}

TEST(Quantization, MergesGroupsOfSeveralFormats) {
  const std::string groups =
      std::string(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": )") + kChannel +
      R"(, "input_activations": )" + kToken +
      R"(}, "b": {"weights": {"num_bits": 4, "group_size": 32}}, "c": {"weights": {"num_bits": 8, "group_size": 32}},)"
      R"("d": {"weights": {"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"}}}})";
  const auto parsed = ParsedQuantization(groups);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->microscaled);
  EXPECT_EQ(parsed->weights, WeightScaling::kChannel);
  EXPECT_EQ(parsed->integer.layout, IntegerLayout::kPacked);
  EXPECT_EQ(parsed->integer.bits, 0);  // the tensors say
  EXPECT_EQ(parsed->integer.group_size, 32);
}

TEST(Quantization, GroupsOfDifferentStrategiesAreRefused) {
  const std::string groups =
      std::string(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": )") + kTensor +
      R"(, "input_activations": )" + kToken + R"(}, "b": {"weights": )" + kChannel + R"(, "input_activations": )" +
      kToken + "}}}";
  EXPECT_THAT(std::string(ParsedQuantization(groups).status().message()), HasSubstr("groups of different strategies"));
}

}  // namespace
}  // namespace dunlin::engine
