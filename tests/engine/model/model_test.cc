// SPDX-License-Identifier: Apache-2.0
// Round trips: directories written by the test, loaded, and read back element by element from the packed weights.
#include "engine/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/load/load_model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelTest : public ::testing::Test {
 protected:
  std::unique_ptr<Model> LoadOrDie(std::vector<Precision> precisions = {Precision::kFp32}) {
    auto model =
        LoadModel({.path = temp_.path(), .random_shape = "", .precisions = std::move(precisions)}, device_.get());
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  // Rows [row_begin, row_begin + num_rows) of the weight are the tensor's, which is stored transposed or not.
  static void ExpectRows(const kernels::PackedWeight& weight, int64_t row_begin, int64_t num_rows,
                         const std::string& tensor, bool transposed) {
    ASSERT_NE(weight.data, nullptr) << tensor;
    ASSERT_LE(row_begin + num_rows, weight.out_features) << tensor;
    for (int64_t n = 0; n < num_rows; ++n) {
      for (int64_t k = 0; k < weight.in_features; ++k) {
        const int64_t index = transposed ? k * num_rows + n : n * weight.in_features + k;
        ASSERT_EQ(ElementOf(weight, row_begin + n, k), ValueOf(tensor, index))
            << tensor << " [" << n << ", " << k << "]";
      }
    }
  }
  static void ExpectAll(const kernels::PackedWeight& weight, const std::string& tensor, bool transposed = false) {
    ExpectRows(weight, 0, weight.out_features, tensor, transposed);
  }
  static void ExpectVector(const float* vector, int64_t count, const std::string& tensor) {
    ASSERT_NE(vector, nullptr) << tensor;
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(vector[i], ValueOf(tensor, i)) << tensor << " [" << i << "]";
  }

  TempDirectory temp_;
  PlainDeviceState state_;
  std::unique_ptr<kernels::Device> device_ = MakePlainDevice(&state_);
};

template <typename ExpectMatrix, typename ExpectVector>
void ExpectGpt2Layer(const LayerWeights& layer, const std::string& name, ExpectMatrix matrix, ExpectVector vector) {
  matrix(layer.qkv.weight, name + "attn.c_attn.weight");
  matrix(layer.attention_out.weight, name + "attn.c_proj.weight");
  matrix(layer.mlp_up.weight, name + "mlp.c_fc.weight");
  matrix(layer.mlp_down.weight, name + "mlp.c_proj.weight");
  vector(layer.qkv.bias, 18, name + "attn.c_attn.bias");
  vector(layer.attention_out.bias, 6, name + "attn.c_proj.bias");
  vector(layer.mlp_up.bias, 10, name + "mlp.c_fc.bias");
  vector(layer.mlp_down.bias, 6, name + "mlp.c_proj.bias");
  vector(layer.attention_norm.weight, 6, name + "ln_1.weight");
  vector(layer.attention_norm.bias, 6, name + "ln_1.bias");
  vector(layer.mlp_norm.weight, 6, name + "ln_2.weight");
  vector(layer.mlp_norm.bias, 6, name + "ln_2.bias");
}

TEST_F(ModelTest, Gpt2RoundTripsWithEitherPrefixAndEveryDtype) {
  for (const std::string prefix : {"", "transformer."}) {
    for (const char* dtype : {"F32", "F16", "BF16"}) {
      WriteModel(temp_, kGpt2Config, Gpt2Tensors(prefix, dtype));
      const auto model = LoadOrDie();
      EXPECT_THAT(model->warnings(), IsEmpty());  // attn.bias is a known buffer
      const PrecisionWeights& weights = model->weights(Precision::kFp32);
      ExpectAll(weights.embedding, prefix + "wte.weight");
      ExpectAll(weights.positions, prefix + "wpe.weight");
      EXPECT_EQ(weights.head.weight.data, weights.embedding.data);
      EXPECT_EQ(weights.head.weight.out_features, 7);
      ASSERT_EQ(weights.layers.size(), 2U);
      for (size_t i = 0; i < 2; ++i) {
        ExpectGpt2Layer(
            weights.layers[i], absl::StrCat(prefix, "h.", i, "."),
            [](const kernels::PackedWeight& w, const std::string& name) { ExpectAll(w, name, true); }, &ExpectVector);
      }
      ExpectVector(weights.final_norm.weight, 6, prefix + "ln_f.weight");
      ExpectVector(weights.final_norm.bias, 6, prefix + "ln_f.bias");
    }
  }
}

TEST_F(ModelTest, NanoGptIsNotTransposedAndHasNoBiases) {
  WriteModel(temp_, kNanoGptConfig, NanoGptTensors());
  const auto model = LoadOrDie();
  const PrecisionWeights& weights = model->weights(Precision::kFp32);
  ExpectAll(weights.layers[1].qkv.weight, "transformer.h.1.attn.c_attn.weight");
  ExpectAll(weights.layers[1].mlp_up.weight, "transformer.h.1.mlp.c_fc.weight");
  ExpectVector(weights.layers[0].mlp_norm.weight, 6, "transformer.h.0.ln_2.weight");
  EXPECT_EQ(weights.layers[0].qkv.bias, nullptr);
  EXPECT_EQ(weights.layers[0].attention_norm.bias, nullptr);
  EXPECT_EQ(weights.final_norm.bias, nullptr);
}

TEST_F(ModelTest, LlamaFusesItsParts) {
  WriteModel(temp_, kLlamaConfig, LlamaTensors());
  const auto model = LoadOrDie();
  const PrecisionWeights& weights = model->weights(Precision::kFp32);
  ExpectAll(weights.embedding, "model.embed_tokens.weight");
  ExpectAll(weights.head.weight, "lm_head.weight");
  EXPECT_EQ(weights.positions.data, nullptr);
  const LayerWeights& layer = weights.layers[1];
  const std::string name = "model.layers.1.";
  ExpectRows(layer.qkv.weight, 0, 16, name + "self_attn.q_proj.weight", false);
  ExpectRows(layer.qkv.weight, 16, 8, name + "self_attn.k_proj.weight", false);
  ExpectRows(layer.qkv.weight, 24, 8, name + "self_attn.v_proj.weight", false);
  ExpectVector(layer.qkv.bias, 16, name + "self_attn.q_proj.bias");
  ExpectVector(layer.qkv.bias + 16, 8, name + "self_attn.k_proj.bias");
  ExpectVector(layer.qkv.bias + 24, 8, name + "self_attn.v_proj.bias");
  ExpectRows(layer.mlp_up.weight, 0, 10, name + "mlp.gate_proj.weight", false);
  ExpectRows(layer.mlp_up.weight, 10, 10, name + "mlp.up_proj.weight", false);
  ExpectVector(layer.mlp_up.bias + 10, 10, name + "mlp.up_proj.bias");
  ExpectAll(layer.attention_out.weight, name + "self_attn.o_proj.weight");
  ExpectVector(layer.attention_out.bias, 6, name + "self_attn.o_proj.bias");
  ExpectAll(layer.mlp_down.weight, name + "mlp.down_proj.weight");
  ExpectVector(layer.attention_norm.weight, 6, name + "input_layernorm.weight");
  ExpectVector(layer.mlp_norm.weight, 6, name + "post_attention_layernorm.weight");
  ExpectVector(weights.final_norm.weight, 6, "model.norm.weight");
}

TEST_F(ModelTest, ScaleByInverseLayerIsFoldedIntoTheQueries) {
  for (const char* dtype : {"F32", "BF16"}) {
    WriteModel(temp_, WithField(kGpt2Config, "scale_attn_by_inverse_layer_idx", "true"), Gpt2Tensors("", dtype));
    const auto model = LoadOrDie();
    const PrecisionWeights& weights = model->weights(Precision::kFp32);
    ExpectAll(weights.layers[0].qkv.weight, "h.0.attn.c_attn.weight", true);
    for (int64_t row = 0; row < 18; ++row) {
      const float scale = row < 6 ? 0.5F : 1.0F;
      EXPECT_EQ(weights.layers[1].qkv.bias[row], ValueOf("h.1.attn.c_attn.bias", row) * scale);
      for (int64_t k = 0; k < 6; ++k) {
        EXPECT_EQ(ElementOf(weights.layers[1].qkv.weight, row, k),
                  ValueOf("h.1.attn.c_attn.weight", k * 18 + row) * scale);
      }
    }
  }
}

TEST_F(ModelTest, PrecisionsKeepTheirOrderAndShareTheVectors) {
  WriteModel(temp_, kGpt2Config, Gpt2Tensors(""));
  const auto model = LoadOrDie({Precision::kFp8, Precision::kFp32, Precision::kBf16});
  EXPECT_THAT(model->precisions(), ElementsAre(Precision::kFp8, Precision::kFp32, Precision::kBf16));
  const PrecisionWeights& fp8 = model->weights(Precision::kFp8);
  const PrecisionWeights& bf16 = model->weights(Precision::kBf16);
  EXPECT_EQ(fp8.embedding.precision, Precision::kFp8);
  EXPECT_EQ(fp8.head.weight.precision, Precision::kFp8);
  EXPECT_EQ(fp8.positions.precision, Precision::kBf16);
  EXPECT_EQ(bf16.layers[0].qkv.weight.precision, Precision::kBf16);
  EXPECT_EQ(fp8.layers[0].qkv.bias, bf16.layers[0].qkv.bias);
  EXPECT_NE(fp8.embedding.data, bf16.embedding.data);
  ExpectAll(bf16.embedding, "wte.weight");
  ExpectAll(fp8.positions, "wpe.weight");
  EXPECT_EQ(model->num_parameters(), 7 * 6 + 5 * 6 + 2 * (24 + 6 * 18 + 18 + 36 + 6 + 60 + 10 + 60 + 6) + 12);
}

TEST_F(ModelTest, EveryPointerIsAlignedAndAllMemoryIsReleased) {
  WriteModel(temp_, kLlamaConfig, LlamaTensors());
  {
    const auto model = LoadOrDie({Precision::kBf16, Precision::kFp16});
    for (const LayerWeights& layer : model->weights(Precision::kFp16).layers) {
      const std::vector<const void*> pointers = {layer.qkv.weight.data, layer.mlp_down.weight.data, layer.qkv.bias,
                                                 layer.mlp_norm.weight};
      for (const void* pointer : pointers) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 64, 0U);
      }
    }
    EXPECT_GE(state_.bytes_held, model->weight_bytes(Precision::kFp16));
  }
  EXPECT_EQ(state_.bytes_held, 0U);
}

TEST_F(ModelTest, UnknownTensorsAreReportedInOneWarning) {
  std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
  for (int i = 0; i < 9; ++i) tensors.push_back({.name = absl::StrCat("extra.", i), .shape = {1}, .dtype = "I64"});
  WriteModel(temp_, kGpt2Config, tensors);
  const auto model = LoadOrDie();
  ASSERT_EQ(model->warnings().size(), 1U);
  EXPECT_THAT(model->warnings()[0], HasSubstr("9 tensor(s) of the checkpoint are not used: extra.0, extra.1"));
  EXPECT_THAT(model->warnings()[0], HasSubstr(", ..."));
}

TEST_F(ModelTest, RefusesInvalidSources) {
  const auto refuse = [&](const ModelSource& source, const char* message) {
    const absl::Status status = LoadModel(source, device_.get()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  refuse({.path = temp_.path(), .random_shape = "", .precisions = {}}, "precisions is empty");
  refuse({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kBf16, Precision::kBf16}},
         "'bf16' twice");
  refuse({.path = "", .random_shape = "", .precisions = {Precision::kBf16}}, "needs a path or a random shape");
  refuse({.path = "", .random_shape = "gpt5", .precisions = {Precision::kBf16}}, "known: gpt2-124m, gpt2-xl, llama-1b");
}

}  // namespace
}  // namespace dunlin::engine
