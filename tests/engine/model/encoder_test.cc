// SPDX-License-Identifier: Apache-2.0
// Encoder directories load under each naming scheme, and every tensor reaches its slot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/load/inspect.h"
#include "engine/model/load/load_model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

ModelSource SourceOf(const TempDirectory& temp) {
  return {.path = temp.path(), .random_shape = "", .precisions = {Precision::kFp32, Precision::kFp8}};
}

struct Naming {
  const char* prefix;
  const char* norm_weight;
  const char* norm_bias;
};

TEST(EncoderCheckpoint, LoadsUnderEveryNaming) {
  for (const Naming& naming :
       {Naming{"", "weight", "bias"}, Naming{"bert.", "weight", "bias"}, Naming{"bert.", "gamma", "beta"}}) {
    const TempDirectory temp;
    WriteModel(temp, kBertConfig, BertTensors(naming.prefix, naming.norm_weight, naming.norm_bias));
    PlainDeviceState state;
    const auto device = MakePlainDevice(&state);
    const auto model = LoadModel(SourceOf(temp), device.get());
    ASSERT_TRUE(model.ok()) << naming.prefix << naming.norm_weight << ": " << model.status();
    EXPECT_TRUE((*model)->warnings().empty()) << (*model)->warnings().front();
    const PrecisionWeights& weights = (*model)->weights(Precision::kFp32);
    const std::string prefix = naming.prefix;
    EXPECT_EQ(weights.embedding_norm.weight[2], ValueOf(prefix + "embeddings.LayerNorm." + naming.norm_weight, 2));
    EXPECT_EQ(weights.layers[1].mlp_norm.bias[5],
              ValueOf(prefix + "encoder.layer.1.output.LayerNorm." + naming.norm_bias, 5));
    EXPECT_EQ(weights.layers[0].qkv.bias[6], ValueOf(prefix + "encoder.layer.0.attention.self.key.bias", 0));
    EXPECT_EQ(weights.token_types.out_features, 2);
    EXPECT_EQ(weights.head.weight.data, nullptr);
    EXPECT_EQ(weights.final_norm.weight, nullptr);
  }
}

// They are gathered and added, never multiplied, so quantising them would only cost accuracy.
TEST(EncoderCheckpoint, KeepsGatheredTablesInBf16ForFp8) {
  const TempDirectory temp;
  WriteModel(temp, kBertConfig, BertTensors(""));
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const auto model = LoadModel(SourceOf(temp), device.get());
  ASSERT_TRUE(model.ok()) << model.status();
  const PrecisionWeights& weights = (*model)->weights(Precision::kFp8);
  EXPECT_EQ(weights.embedding.precision, Precision::kBf16);
  EXPECT_EQ(weights.positions.precision, Precision::kBf16);
  EXPECT_EQ(weights.token_types.precision, Precision::kBf16);
  EXPECT_EQ(weights.layers[0].qkv.weight.precision, Precision::kFp8);
}

TEST(EncoderCheckpoint, InspectAgreesWithLoadingAndHasNoKvCache) {
  const TempDirectory temp;
  WriteModel(temp, kBertConfig, BertTensors("bert."));
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const absl::StatusOr<ModelSummary> summary = InspectModel(SourceOf(temp), *device->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto model = LoadModel(SourceOf(temp), device.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->num_parameters(), summary->num_parameters);
  EXPECT_EQ((*model)->weight_bytes(Precision::kFp8), summary->weight_bytes[static_cast<size_t>(Precision::kFp8)]);
  EXPECT_TRUE(summary->kv_bytes_per_token.empty());
}

TEST(EncoderCheckpoint, NamesAMissingTensor) {
  const TempDirectory temp;
  std::vector<TestTensor> tensors = BertTensors("");
  std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.name == "embeddings.LayerNorm.bias"; });
  WriteModel(temp, kBertConfig, tensors);
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const absl::Status status = LoadModel(SourceOf(temp), device.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("embeddings.LayerNorm.bias"));
}

}  // namespace
}  // namespace dunlin::engine
