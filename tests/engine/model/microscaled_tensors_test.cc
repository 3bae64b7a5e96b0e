// SPDX-License-Identifier: Apache-2.0
// NVFP4, MXFP4 and MXFP8 checkpoints: which codes products have, what is given as BF16, groups of several formats, and
// what is refused. Their logits: tests/integration/model/goldens_formats_test.cc.
#include "engine/model/checkpoint/microscaled_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/model/load/opened_model.h"
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

absl::StatusOr<OpenedModel> OpenGolden(const std::string& golden, const GoldenChange& change,
                                       const nlohmann::json& config = nlohmann::json::object()) {
  const TempDirectory directory;
  WriteChangedGolden(golden, change, directory, config);
  ModelSource source;
  source.path = directory.path();
  return OpenModelSource(source, false);
}

TEST(MicroscaledTensors, GiveTheCodesOfNvfp4InPieces) {
  for (const char* golden : {"nvfp4_compressed", "nvfp4_modelopt"}) {
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
      std::vector<float> expected(values.size());
      const auto first_byte = static_cast<uint64_t>(first) * 96 * sizeof(float);
      ASSERT_EQ(model->tensors->Read(tensor, first_byte, std::as_writable_bytes(std::span(expected))),
                absl::OkStatus());
      EXPECT_EQ(values, expected);
      // A part of a row.
      std::vector<float> part(5);
      ASSERT_EQ(model->tensors->Read(tensor, first_byte + 12, std::as_writable_bytes(std::span(part))),
                absl::OkStatus());
      EXPECT_EQ(part, std::vector<float>(expected.begin() + 3, expected.begin() + 8));
    }
  }
}

TEST(MicroscaledTensors, GivePowersOfTwoAsBf16AndSaySo) {
  for (const auto& [golden, name] : {std::pair{"mxfp4_compressed", "MXFP4"}, {"mxfp8_compressed", "MXFP8"}}) {
    const auto model = OpenGolden(golden, AsItIs);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_FALSE(model->encodings.own_precision().has_value());
    const TensorInfo& tensor = *model->tensors->Find("model.layers.0.mlp.up_proj.weight");
    EXPECT_EQ(tensor.dtype->loadable, DType::kBF16);
    EXPECT_FALSE(model->tensors->CodesOf(tensor).has_value());
    EXPECT_THAT(model->parsed.warnings, ElementsAre(AllOf(HasSubstr("7 quantised matrix(es)"), HasSubstr(name),
                                                          HasSubstr("BF16 holds its values"))));
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
