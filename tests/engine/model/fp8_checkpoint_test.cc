// SPDX-License-Identifier: Apache-2.0
// FP8 checkpoints on a device that exposes the packed weights: dequantised values, unquantised matrices, bad files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/model/model.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kAutoFp8 =
    R"({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]})";
constexpr const char* kPerChannel = R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})";
constexpr const char* kBlocks = R"({"quant_method": "fp8", "weight_block_size": [4, 128]})";
const std::vector<float> kScales = {0.5F, 0.25F, 0.75F, 1.5F, 2.0F};

bool IsProjection(const TestTensor& tensor) {
  return tensor.name.ends_with("_proj.weight");
}

// LlamaTensors with every projection in FP8, each with a scale tensor of `shape(rows, columns)`.
std::vector<TestTensor> Quantized(const std::string& ending,
                                  const std::function<std::vector<int64_t>(int64_t, int64_t)>& shape) {
  std::vector<TestTensor> tensors = LlamaTensors();
  std::vector<TestTensor> scales;
  for (TestTensor& tensor : tensors) {
    if (!IsProjection(tensor)) continue;
    tensor.dtype = "F8_E4M3";
    const std::string module = tensor.name.substr(0, tensor.name.size() - 6);
    scales.push_back({module + ending, shape(tensor.shape[0], tensor.shape[1]), "BF16", kScales});
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  return tensors;
}

std::vector<TestTensor> PerTensor() {
  auto tensors = Quantized("weight_scale", [](int64_t, int64_t) { return std::vector<int64_t>{1}; });
  const size_t count = tensors.size();
  for (size_t i = 0; i < count; ++i) {
    if (!IsProjection(tensors[i])) continue;
    const std::string module = tensors[i].name.substr(0, tensors[i].name.size() - 6);
    tensors.push_back({module + "input_scale", {}, "F32", {module.ends_with("k_proj.") ? 0.75F : 0.5F}});
  }
  return tensors;
}
std::vector<TestTensor> PerChannel() {
  return Quantized("weight_scale", [](int64_t rows, int64_t) { return std::vector<int64_t>{rows, 1}; });
}
std::vector<TestTensor> InBlocks() {
  return Quantized("weight_scale_inv", [](int64_t rows, int64_t columns) {
    return std::vector<int64_t>{(rows + 3) / 4, (columns + 127) / 128};
  });
}

float Rounded(const std::string& tensor, int64_t index) {
  return kernels::E4M3ToFloat(kernels::FloatToE4M3(ValueOf(tensor, index)));
}

class Fp8Checkpoint : public ModelLoading {
 protected:
  absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& quantization, const std::vector<TestTensor>& tensors,
                                              const std::vector<Precision>& precisions = {Precision::kFp8}) {
    return ModelLoading::Load(WithField(kLlamaConfig, "quantization_config", quantization), tensors, precisions);
  }
  std::string Refusal(const std::string& quantization, const std::vector<TestTensor>& tensors) {
    const absl::Status status = Load(quantization, tensors).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
};

TEST_F(Fp8Checkpoint, FusedPartsKeepTheirOwnScales) {
  auto tensors = PerTensor();
  for (TestTensor& tensor : tensors) {
    if (tensor.name == "model.layers.1.self_attn.v_proj.weight_scale") tensor.values = {4.0F};
  }
  const auto model = Load(kAutoFp8, tensors, {Precision::kFp8, Precision::kFp32});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Precision precision : {Precision::kFp8, Precision::kFp32}) {
    const kernels::PackedWeight& qkv = (*model)->weights(precision).layers[1].qkv.weight;
    for (const int64_t column : {0, 5}) {
      const int64_t at = 3 * 6 + column;
      EXPECT_EQ(ElementOf(qkv, 3, column), Rounded("model.layers.1.self_attn.q_proj.weight", at) * 0.5F);
      EXPECT_EQ(ElementOf(qkv, 24 + 3, column), Rounded("model.layers.1.self_attn.v_proj.weight", at) * 4.0F);
    }
  }
  EXPECT_THAT((*model)->warnings(), IsEmpty());
}

TEST_F(Fp8Checkpoint, AFusedInputTakesTheLargestScale) {
  const auto model = Load(kAutoFp8, PerTensor());
  ASSERT_TRUE(model.ok()) << model.status();
  const InputScales& scales = (*model)->input_scales();
  EXPECT_EQ(scales.size(), 8U);  // 4 matrices of 2 layers
  EXPECT_EQ(scales.at({WeightSlot::kQkv, 0}), 0.75F);
  EXPECT_EQ(scales.at({WeightSlot::kMlpDown, 1}), 0.5F);
}

TEST_F(Fp8Checkpoint, AppliesChannelAndBlockScalesToTheirRows) {
  for (const bool blocks : {false, true}) {
    const auto model = Load(blocks ? kBlocks : kPerChannel, blocks ? InBlocks() : PerChannel());
    ASSERT_TRUE(model.ok()) << model.status();
    const PrecisionWeights& weights = (*model)->weights(Precision::kFp8);
    const kernels::PackedWeight& up = weights.layers[0].mlp_up.weight;  // gate rows 0..9, then up
    EXPECT_EQ(up.precision, Precision::kFp8);
    EXPECT_EQ(up.scale_block, blocks ? kernels::kScaleBlock : 0);
    EXPECT_EQ(weights.input_amax_limit, blocks ? std::numeric_limits<float>::infinity() : 1200.0F);
    for (int64_t row = 0; row < 10; ++row) {
      const float scale = kScales[static_cast<size_t>(blocks ? row / 4 : row) % kScales.size()];
      EXPECT_EQ(ElementOf(up, 10 + row, 2), Rounded("model.layers.0.mlp.up_proj.weight", row * 6 + 2) * scale) << row;
    }
  }
}

TEST_F(Fp8Checkpoint, UnquantisedMatricesKeepTheirDtype) {
  auto tensors = PerChannel();
  for (TestTensor& tensor : tensors) {
    if (tensor.name == "lm_head.weight") tensor.dtype = "F16";
  }
  const auto model = Load(kPerChannel, tensors, {Precision::kFp8, Precision::kBf16});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->weights(Precision::kFp8).embedding.precision, Precision::kBf16);
  EXPECT_EQ((*model)->weights(Precision::kFp8).head.weight.precision, Precision::kFp16);
  EXPECT_EQ((*model)->weights(Precision::kBf16).head.weight.precision, Precision::kBf16);
}

TEST_F(Fp8Checkpoint, KvScalesAreReportedAndChecked) {
  auto tensors = PerChannel();
  tensors.push_back({"model.layers.0.self_attn.k_scale", {1}, "F32", {0.5F}});
  tensors.push_back({"model.layers.0.self_attn.v_proj.v_scale", {}, "BF16", {0.5F}});
  const auto model = Load(kPerChannel, tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->warnings().size(), 1U);
  EXPECT_EQ(
      (*model)->warnings()[0],
      "model.layers.0.self_attn.k_scale and 1 more KV scales ignored: E4M3 KV pages have a scale per token and head");
  tensors.back().values = {-1.0F};
  EXPECT_THAT(Refusal(kPerChannel, tensors), HasSubstr("v_proj.v_scale' has -1 at 0"));
}

TEST_F(Fp8Checkpoint, KvScalesOfEveryPublisherAreIgnoredByName) {
  for (const char* name : {"self_attn.v_scale", "self_attn.attn.k_scale", "self_attn.kv_scale",
                           "self_attn.k_proj.output_scale", "self_attn.v_proj.output_scale"}) {
    auto tensors = PerChannel();
    const std::string tensor = std::string("model.layers.0.") + name;
    tensors.push_back({tensor, {1}, "F32", {0.5F}});
    const auto model = Load(kPerChannel, tensors);
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_EQ((*model)->warnings().size(), 1U) << name;
    EXPECT_EQ((*model)->warnings()[0], tensor + " ignored: E4M3 KV pages have a scale per token and head");
  }
}

struct BadFile {
  const char* name;
  const char* quantization;
  std::vector<TestTensor> (*tensors)();
  std::function<void(std::vector<TestTensor>*)> bend;
  const char* message;
};

// Applies `change` to the tensor of that name.
std::function<void(std::vector<TestTensor>*)> Bend(const std::string& name, std::function<void(TestTensor&)> change) {
  return [=](std::vector<TestTensor>* tensors) {
    for (TestTensor& tensor : *tensors) {
      if (tensor.name == name) change(tensor);
    }
  };
}
std::function<void(std::vector<TestTensor>*)> Drop(const std::string& name) {
  return [=](std::vector<TestTensor>* tensors) {
    std::erase_if(*tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
  };
}
std::function<void(TestTensor&)> SetLast(float value) {
  return [=](TestTensor& tensor) {
    tensor.values.assign(static_cast<size_t>(tensor.shape.empty() ? 1 : tensor.shape[0]), 0.5F);
    tensor.values.back() = value;
  };
}

// DeepSeek V4's name and dtype of scales.
TEST_F(Fp8Checkpoint, TakesScalesThatArePowersOfTwo) {
  auto tensors = InBlocks();
  for (TestTensor& tensor : tensors) {
    if (!tensor.name.ends_with("weight_scale_inv")) continue;
    tensor.name = tensor.name.substr(0, tensor.name.size() - 16) + "scale";
    tensor.dtype = "F8_E8M0";
    tensor.values = {0.25F, 4.0F};
  }
  const auto model = Load(kBlocks, tensors);
  ASSERT_TRUE(model.ok()) << model.status();
  const kernels::PackedWeight& up = (*model)->weights(Precision::kFp8).layers[0].mlp_up.weight;
  for (int64_t row = 0; row < 10; ++row) {
    const float scale = row / 4 % 2 == 0 ? 0.25F : 4.0F;
    EXPECT_EQ(ElementOf(up, 10 + row, 2), Rounded("model.layers.0.mlp.up_proj.weight", row * 6 + 2) * scale) << row;
  }
  tensors.back().values = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(Refusal(kBlocks, tensors), HasSubstr("has nan at 0; a scale is finite and above 0"));
}

TEST_F(Fp8Checkpoint, BadFilesAreRefusedByTensorAndValue) {
  const std::string down = "model.layers.1.mlp.down_proj.";
  const BadFile cases[] = {
      {"no config", "", PerChannel, {}, "no quantization_config"},
      {"no scale", kPerChannel, PerChannel, Drop(down + "weight_scale"), "down_proj.weight_scale' is missing"},
      {"no input scale", kAutoFp8, PerTensor, Drop(down + "input_scale"), "down_proj.input_scale' is missing"},
      {"shape", kPerChannel, PerChannel,
       Bend(down + "weight_scale",
            [](TestTensor& t) {
              t.shape = {5, 1};
            }),
       "has shape [5, 1]; the quantization makes it [6, 1]"},
      {"block shape", kBlocks, InBlocks,
       Bend(down + "weight_scale_inv",
            [](TestTensor& t) {
              t.shape = {1, 2};
            }),
       "has shape [1, 2]; the quantization makes it [2, 1]"},
      {"dtype", kPerChannel, PerChannel, Bend(down + "weight_scale", [](TestTensor& t) { t.dtype = "F8_E5M2"; }),
       "has dtype F8_E5M2; scales are loaded from"},
      {"zero", kPerChannel, PerChannel, Bend(down + "weight_scale", SetLast(0.0F)),
       "model.safetensors: tensor 'model.layers.1.mlp.down_proj.weight_scale' has 0 at 5"},
      {"negative", kAutoFp8, PerTensor, Bend(down + "input_scale", SetLast(-0.5F)), "input_scale' has -0.5 at 0"},
      {"nan", kPerChannel, PerChannel, Bend(down + "weight_scale", SetLast(std::numeric_limits<float>::quiet_NaN())),
       "has nan at 5"},
      {"infinity", kPerChannel, PerChannel,
       Bend(down + "weight_scale", SetLast(std::numeric_limits<float>::infinity())), "has inf at 5"},
      {"ignored", kAutoFp8, PerTensor, Bend("lm_head.weight", [](TestTensor& t) { t.dtype = "F8_E4M3"; }),
       "'lm_head.weight' is F8_E4M3, but the quantization config lists its module as ignored"},
      {"half fused", kPerChannel, PerChannel,
       Bend("model.layers.0.self_attn.k_proj.weight", [](TestTensor& t) { t.dtype = "BF16"; }), "only one is F8_E4M3"},
      {"norm", kPerChannel, PerChannel, Bend("model.norm.weight", [](TestTensor& t) { t.dtype = "F8_E4M3"; }),
       "norms and biases are loaded from"},
      {"e5m2", kPerChannel, PerChannel, Bend(down + "weight", [](TestTensor& t) { t.dtype = "F8_E5M2"; }),
       "has dtype F8_E5M2"},
  };
  for (const BadFile& row : cases) {
    auto tensors = row.tensors();
    if (row.bend) row.bend(&tensors);
    EXPECT_THAT(Refusal(row.quantization, tensors), HasSubstr(row.message)) << row.name;
    EXPECT_EQ(state_.bytes_held, 0U) << row.name;
  }
}

}  // namespace
}  // namespace dunlin::engine
