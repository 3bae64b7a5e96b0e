// SPDX-License-Identifier: Apache-2.0
// NVFP4, MXFP4 and MXFP8 checkpoints: which codes products have, what is given as BF16, groups of several formats, and
// what is refused. Their logits: tests/integration/model/goldens_formats_test.cc.
#include "engine/model/checkpoint/microscaled_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/model/load/opened_model.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/changed_golden.h"

namespace dunlin::engine {
namespace {

using kernels::DType;
using kernels::Precision;
using kernels::WeightFormat;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kUpProjection = "mlp.up_proj";

void AsItIs(GoldenTensors* /*tensors*/) {}

// Elements of a tensor, widened.
std::vector<float> ValuesOf(const TensorSource& tensors, const TensorInfo& tensor, int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  if (tensor.dtype->loadable == DType::kF32) {
    const uint64_t first_byte = static_cast<uint64_t>(first) * sizeof(float);
    EXPECT_EQ(tensors.Read(tensor, first_byte, std::as_writable_bytes(std::span(values))), absl::OkStatus());
    return values;
  }
  std::vector<uint16_t> words(values.size());
  const uint64_t first_byte = static_cast<uint64_t>(first) * sizeof(uint16_t);
  EXPECT_EQ(tensors.Read(tensor, first_byte, std::as_writable_bytes(std::span(words))), absl::OkStatus());
  std::transform(words.begin(), words.end(), values.begin(), kernels::Bf16ToFloat);
  return values;
}

absl::StatusOr<OpenedModel> OpenGolden(const std::string& golden, const GoldenChange& change,
                                       const nlohmann::json& config = nlohmann::json::object()) {
  const TempDirectory directory;
  WriteChangedGolden(golden, change, directory, config);
  ModelSource source;
  source.path = directory.path();
  return OpenModelSource(source, false);
}

TEST(MicroscaledTensors, GiveTheCodesOfFourBitsInPieces) {
  for (const char* golden : {"nvfp4_compressed", "nvfp4_modelopt", "mxfp4_compressed"}) {
    SCOPED_TRACE(golden);
    const auto model = OpenGolden(golden, AsItIs);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->encodings.own_precision(), Precision::kInt4);
    const TensorInfo& tensor = *model->tensors->Find("model.layers.0.mlp.down_proj.weight");
    EXPECT_THAT(tensor.shape, ElementsAre(64, 96));
    const auto traits = model->tensors->CodesOf(tensor);
    ASSERT_TRUE(traits.has_value());
    EXPECT_EQ(SmallestFormatOf(std::vector{*traits}), WeightFormat::kE2M1);
    for (const auto& [first, rows] : {std::pair{int64_t{0}, int64_t{64}}, {17, 3}}) {
      CodedRows codes;
      ASSERT_EQ(model->tensors->ReadCodes(tensor, first, rows, &codes), absl::OkStatus());
      std::vector<float> values(static_cast<size_t>(rows * 96));
      codes.Dequantize(values.data());
      const std::vector<float> expected = ValuesOf(*model->tensors, tensor, first * 96, rows * 96);
      EXPECT_EQ(values, expected);
      // A part of a row.
      EXPECT_EQ(ValuesOf(*model->tensors, tensor, first * 96 + 3, 5),
                std::vector<float>(expected.begin() + 3, expected.begin() + 8));
    }
  }
}

TEST(MicroscaledTensors, GiveMxfp8AsBf16AndSaySo) {
  const auto model = OpenGolden("mxfp8_compressed", AsItIs);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->encodings.own_precision().has_value());
  const TensorInfo& tensor = *model->tensors->Find("model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(tensor.dtype->loadable, DType::kBF16);
  EXPECT_FALSE(model->tensors->CodesOf(tensor).has_value());
  EXPECT_THAT(model->parsed.warnings, ElementsAre(AllOf(HasSubstr("7 quantised matrix(es)"), HasSubstr("MXFP8"),
                                                        HasSubstr("BF16 holds its values"))));
}

// The scales of the first row of down_proj, whose three groups share a factor, and what of its codes is left.
TEST(MicroscaledTensors, RoundCodesOfMxfp4FarBelowTheOthersOf256Columns) {
  for (const int below : {0, 17, 18, 19, 30}) {
    const TempDirectory directory;
    WriteChangedGolden(
        "mxfp4_compressed",
        [&](GoldenTensors* t) {
          t->Set("mlp.down_proj.weight_scale", 0, uint8_t{120});
          t->Set("mlp.down_proj.weight_scale", 1, static_cast<uint8_t>(120 - below));
          t->Set("mlp.down_proj.weight_scale", 2, uint8_t{90});
          for (size_t byte = 0; byte < 16; ++byte) t->Set("mlp.down_proj.weight_packed", 16 + byte, uint8_t{0xF3});
          for (size_t byte = 0; byte < 16; ++byte) t->Set("mlp.down_proj.weight_packed", 32 + byte, uint8_t{0});
        },
        directory);
    ModelSource source;
    source.path = directory.path();
    const auto model = OpenModelSource(source, false);
    ASSERT_TRUE(model.ok()) << model.status();
    const TensorInfo& tensor = *model->tensors->Find("model.layers.0.mlp.down_proj.weight");
    CodedRows codes;
    ASSERT_EQ(model->tensors->ReadCodes(tensor, 0, 1, &codes), absl::OkStatus());
    std::vector<float> values(96);
    codes.Dequantize(values.data());
    const std::vector<float> stored = ValuesOf(*model->tensors, tensor, 0, 96);
    EXPECT_EQ(stored[32], std::ldexp(1.5F, -7 - below));
    EXPECT_EQ(stored[33], std::ldexp(-6.0F, -7 - below));
    // In halves 3 and -12: halved 1.5, which becomes 2, and -6; a quarter of them 1 and -3.
    const float unit = std::ldexp(0.5F, -7 - std::min(below, 17));
    const int shift = std::max(below - 17, 0);
    for (size_t i = 0; i < 96; ++i) {
      const bool far = i >= 32 && i < 64 && shift > 0;
      EXPECT_EQ(values[i], far ? std::nearbyint(std::ldexp(i % 2 == 0 ? 3.0F : -12.0F, -shift)) * unit : stored[i])
          << i;
    }
  }
}

TEST(MicroscaledTensors, StandBesideFp8AndIntegersInOneCheckpoint) {
  const auto model = OpenGolden("mixed_groups", AsItIs);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->encodings.own_precision(), Precision::kInt4);
  const ModelConfig& config = model->parsed.config;
  const auto format = [&](WeightSlot slot, Precision precision) {
    return model->encodings.Of(config, slot, 0, precision).format;
  };
  EXPECT_EQ(format(WeightSlot::kQkv, Precision::kInt4), WeightFormat::kE2M1);
  EXPECT_EQ(format(WeightSlot::kMlpUp, Precision::kInt4), WeightFormat::kQ4);
  EXPECT_EQ(format(WeightSlot::kMlpDown, Precision::kInt4), WeightFormat::kBf16);
  EXPECT_EQ(format(WeightSlot::kMlpDown, Precision::kFp8), WeightFormat::kE4M3);
  EXPECT_THAT(model->parsed.warnings, ElementsAre(HasSubstr("1 quantised matrix(es) are dequantised: beside 4- and "
                                                            "8-bit codes FP8 is rounded to BF16")));
}

TEST(MicroscaledTensors, RefuseTensorsThatDoNotFit) {
  const std::string scale = kUpProjection + ".weight_scale";
  const std::tuple<const char*, GoldenChange, const char*> cases[] = {
      {"nvfp4_compressed", [&](GoldenTensors* t) { t->Drop(kUpProjection + ".weight_global_scale"); },
       "up_proj.weight_global_scale' is missing"},
      {"nvfp4_compressed", [&](GoldenTensors* t) { t->Set(kUpProjection + ".weight_global_scale", 0, 0.0F); },
       "up_proj.weight_global_scale' is 0; a scale is finite and above 0"},
      {"nvfp4_modelopt",
       [&](GoldenTensors* t) {
         t->Replace(kUpProjection + ".weight_scale_2", "F32", {2}, std::vector{1.0F, 1.0F});
       },
       "up_proj.weight_scale_2' is F32 [2]; must be F32 [] or [1]"},
      {"nvfp4_compressed",
       [&](GoldenTensors* t) {
         (*t)[scale]["shape"] = {192, 2};
       },
       "up_proj.weight_scale' is F8_E4M3 [192, 2]; must be [96, 4]"},
      {"mxfp8_compressed",
       [&](GoldenTensors* t) {
         (*t)[kUpProjection + ".weight"]["shape"] = {64, 96};
         (*t)[scale]["shape"] = {2, 96};
       },
       "up_proj.weight_scale' is U8 [2, 96]; must be [64, 3]"},
      {"mxfp4_compressed",
       [&](GoldenTensors* t) {
         (*t)[kUpProjection + ".weight_packed"]["shape"] = {128, 24};
       },
       "up_proj.weight_packed' is U8 [128, 24]; must be [rows, columns / 2], columns in groups of 32"},
      {"nvfp4_compressed",  // beside it ModelOpt's names of the same matrix
       [&](GoldenTensors* t) {
         t->Copy(kUpProjection + ".weight_packed", kUpProjection + ".weight");
         t->Copy(kUpProjection + ".weight_global_scale", kUpProjection + ".weight_scale_2");
       },
       "up_proj.weight' is quantised twice"},
  };
  for (const auto& [golden, change, message] : cases) {
    const auto model = OpenGolden(golden, change);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(message));
  }
}

TEST(MicroscaledTensors, RefuseScalesThatAreNoNumbersWithTheirRow) {
  const std::string scale = kUpProjection + ".weight_scale";
  const std::tuple<const char*, int, const char*> cases[] = {
      {"nvfp4_compressed", 0x7F, "up_proj.weight_scale' has NaN in row 2; a scale is a number"},
      {"nvfp4_compressed", 0xFF, "has NaN in row 2"},
      {"mxfp4_compressed", 253, "up_proj.weight_scale' has 253 in row 4; limit of an E8M0 scale is 252"},
      {"mxfp8_compressed", 247, "up_proj.weight_scale' has 247 in row 4; limit of an E8M0 scale is 246"},
  };
  for (const auto& [golden, value, message] : cases) {
    const TempDirectory directory;
    WriteChangedGolden(
        golden, [&, value = value](GoldenTensors* t) { t->Set(scale, 9, static_cast<uint8_t>(value)); }, directory);
    ModelSource source;
    source.path = directory.path();
    const auto model = OpenModelSource(source, false);
    ASSERT_TRUE(model.ok()) << model.status();
    const TensorInfo& tensor = *model->tensors->Find("model.layers.0.mlp.up_proj.weight");
    std::vector<std::byte> bytes(tensor.end);
    const absl::Status read = model->tensors->Read(tensor, 0, bytes);
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(read.message()), HasSubstr(message));
  }
}

TEST(MicroscaledTensors, RefuseACheckpointWithoutThem) {
  const nlohmann::json config = {{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}};
  const auto model = OpenGolden("compressed_group4", AsItIs, config);
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("quantization_config is of NVFP4, MXFP4 or MXFP8; the checkpoint has no such weight"));
}

}  // namespace
}  // namespace dunlin::engine
