// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/load/load_model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

TEST(InspectModel, AgreesWithLoading) {
  for (const bool llama : {false, true}) {
    const TempDirectory temp;
    WriteModel(temp, llama ? kLlamaConfig : kGpt2Config, llama ? LlamaTensors() : Gpt2Tensors(""));
    PlainDeviceState state;
    const auto device = MakePlainDevice(&state);
    ModelSource source{.path = temp.path(), .random_shape = "", .precisions = {}};
    const absl::StatusOr<ModelSummary> summary = InspectModel(source, *device->ops);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(state.num_packs, 0);
    EXPECT_EQ(summary->config.architecture, llama ? "llama" : "gpt2");
    for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
      source.precisions = {row.precision};
      const auto model = LoadModel(source, device.get());
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ((*model)->weight_bytes(row.precision), summary->weight_bytes[static_cast<size_t>(row.precision)]);
      EXPECT_EQ(state.bytes_held, (*model)->weight_bytes(row.precision));
      EXPECT_EQ((*model)->num_parameters(), summary->num_parameters);
    }
  }
}

TEST(InspectModel, APrecisionThatTheDeviceDoesNotMultiplyIsRefusedByName) {
  const TempDirectory temp;
  WriteModel(temp, kLlamaConfig, LlamaTensors());
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  kernels::DeviceOps ops = *device->ops;
  ops.packed_weight_bytes = [](kernels::WeightFormat format, int64_t out_features, int64_t in_features, int32_t) {
    const int64_t bytes = format == kernels::WeightFormat::kInt4 ? 0 : out_features * in_features * 4;
    return static_cast<size_t>(bytes);
  };
  device->ops = &ops;
  const ModelSource source{.path = temp.path(), .random_shape = "", .precisions = {Precision::kInt8, Precision::kInt4}};
  const auto model = LoadModel(source, device.get());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("precision int4 is not supported on cpu (models[].precisions)"));
  const absl::StatusOr<ModelSummary> summary = InspectModel(source, ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->weight_bytes[static_cast<size_t>(Precision::kInt4)], 0U);
  EXPECT_GT(summary->weight_bytes[static_cast<size_t>(Precision::kInt8)], 0U);
}

TEST(InspectModel, CountsKvBytes) {
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const ModelSource source{.path = "", .random_shape = "llama-8b", .precisions = {}};
  const absl::StatusOr<ModelSummary> summary = InspectModel(source, *device->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->kv_bytes_per_token.size(), 4U);
  EXPECT_EQ(summary->kv_bytes_per_token[0].bytes_per_token, 2U * 32 * 8 * 128 * 4);
  EXPECT_EQ(summary->kv_bytes_per_token[2].dtype, kernels::DType::kBF16);
  EXPECT_EQ(summary->kv_bytes_per_token[2].bytes_per_token, 131072U);
  EXPECT_EQ(summary->kv_bytes_per_token[3].dtype, kernels::DType::kF8E4M3);
  EXPECT_EQ(summary->kv_bytes_per_token[3].bytes_per_token, 2U * 32 * 8 * (128 + 4));  // codes and a scale
  EXPECT_EQ(summary->num_parameters, 8'030'261'248);
}

TEST(InspectModel, RefusesWhatLoadingWouldRefuse) {
  const TempDirectory temp;
  WriteModel(temp, WithField(kGpt2Config, "vocab_size", "8"), Gpt2Tensors(""));
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const absl::Status status =
      InspectModel({.path = temp.path(), .random_shape = "", .precisions = {}}, *device->ops).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("config.json makes it [8, 6]"));
}

}  // namespace
}  // namespace dunlin::engine
