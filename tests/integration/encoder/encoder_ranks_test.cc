// SPDX-License-Identifier: Apache-2.0
// An encoder that is divided among ranks gives the bits of the encoder in one piece: vectors of every pooling, rows,
// and the logits of a classifier.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "engine/encoder/encoder_runtime.h"
#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/encoder/encoder_goldens.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

EngineOptions BatchOptions() {
  EngineOptions options;
  options.max_sequences = 64;
  options.max_tokens_per_step = 4096;
  return options;
}

struct BatchKind {
  Pooling pooling;
  bool classify = false;
};

// The vectors of all inputs, of one batch.
std::vector<float> VectorsOf(ModelEncoderRuntime* runtime, const ModelConfig& config,
                             const std::vector<GoldenInput>& inputs, const BatchKind& kind,
                             const ExecutionProfile& profile) {
  const int32_t dimensions = kind.classify ? config.classifier.num_labels : config.hidden_dim;
  std::vector<float> vectors(inputs.size() * static_cast<size_t>(dimensions));
  EncodeBatch batch{.profile = profile, .classify = kind.classify, .inputs = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto num_tokens = static_cast<int32_t>(inputs[i].tokens.size());
    batch.inputs.push_back({.tokens = inputs[i].tokens.data(),
                            .num_tokens = num_tokens,
                            .first_length = num_tokens / 2,
                            .vector = vectors.data() + i * static_cast<size_t>(dimensions),
                            .dimensions = dimensions,
                            .pooling = kind.pooling});
    batch.num_tokens += num_tokens;
  }
  EXPECT_TRUE(runtime->Run(&batch).ok());
  return vectors;
}

std::vector<BatchKind> KindsOf(const ModelConfig& config) {
  std::vector<BatchKind> kinds = {{Pooling::kMean}, {Pooling::kCls}, {Pooling::kLast}};
  if (config.classifier.num_labels > 0)
    kinds.push_back({config.classifier.mean ? Pooling::kMean : Pooling::kCls, true});
  return kinds;
}

// Whose memory is one, or whose devices are linked, also through memory of the host.
enum class RanksOn : uint8_t { kCpu, kLinked, kLinkedByHost };

// Of an encoder of the goldens.
RankedModel LoadEncoderRanks(const std::string& name, RanksOn where, int32_t num_ranks,
                             const std::vector<Precision>& precisions) {
  const std::string path = GoldenEncoderPath(name);
  return where == RanksOn::kCpu ? LoadRankedModel(path, "", 1, num_ranks, precisions)
                                : LoadLinkedModel(FakePlaces().front(), path, num_ranks, precisions);
}

class EncoderRanks : public ::testing::TestWithParam<std::tuple<RanksOn, std::string>> {};

// In all backends, poolings and classifiers' heads.
void ExpectSameVectors(ModelEncoderRuntime* together, ModelEncoderRuntime* alone, const ModelConfig& config,
                       const std::vector<GoldenInput>& inputs, Precision precision) {
  for (const AttentionBackend backend : kernels::kAutoOrder) {
    const ExecutionProfile profile = {DeviceKind::kCpu, backend, precision};
    for (const BatchKind& kind : KindsOf(config)) {
      ASSERT_EQ(VectorsOf(together, config, inputs, kind, profile), VectorsOf(alone, config, inputs, kind, profile))
          << kernels::Name(precision) << " " << kernels::Name(backend) << (kind.classify ? ", labels" : "");
    }
  }
}

TEST_P(EncoderRanks, VectorsHaveTheBitsOfOneRank) {
  const auto& [where, name] = GetParam();
  const WithoutPeers no_peers(where == RanksOn::kLinkedByHost);
  const std::string path = GoldenEncoderPath(name);
  const std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16, Precision::kInt8};
  const TestModel whole = LoadTestModel(path, "", 1, precisions);
  const ModelConfig& config = whole.model->config();
  const auto alone = *ModelEncoderRuntime::Create(whole.model.get(), BatchOptions());
  const std::vector<GoldenInput> inputs = ReadEncoderGoldens(name).inputs;
  int num_divided = 0;
  for (const auto& [num_ranks, execution] : {std::pair{2, ExecutionMode::kFused}, std::pair{2, ExecutionMode::kEager},
                                             std::pair{4, ExecutionMode::kFused}}) {
    std::string reason;
    if (!Divides(path, num_ranks, &reason)) {
      std::printf("not divided: %s\n", reason.c_str());
      continue;
    }
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks" + (execution == ExecutionMode::kEager ? ", eager" : ""));
    ++num_divided;
    const RankedModel ranked = LoadEncoderRanks(name, where, num_ranks, precisions);
    EngineOptions options = BatchOptions();
    options.execution = execution;
    const auto together = *ModelEncoderRuntime::Create(ranked.model.get(), options);
    for (const Precision precision : precisions) {
      if (execution == ExecutionMode::kEager && precision != Precision::kBf16) continue;
      ExpectSameVectors(together.get(), alone.get(), config, inputs, precision);
    }
  }
  EXPECT_GT(num_divided, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderRanks,
                         ::testing::Combine(::testing::Values(RanksOn::kCpu, RanksOn::kLinked),
                                            ::testing::ValuesIn(GoldenEncoderNames())),
                         [](const auto& test) {
                           const bool linked = std::get<0>(test.param) == RanksOn::kLinked;
                           return std::get<1>(test.param) + (linked ? "_linked" : "");
                         });
INSTANTIATE_TEST_SUITE_P(ByHost, EncoderRanks,
                         ::testing::Combine(::testing::Values(RanksOn::kLinkedByHost), ::testing::Values("bert_tiny")),
                         [](const auto& test) { return std::get<1>(test.param); });

class EncoderRankMemory : public ::testing::TestWithParam<RanksOn> {};
class EncoderRankFaults : public ::testing::TestWithParam<RanksOn> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EncoderRankMemory, ::testing::Values(RanksOn::kCpu, RanksOn::kLinked));
INSTANTIATE_TEST_SUITE_P(Ranks, EncoderRankFaults, ::testing::Values(RanksOn::kCpu, RanksOn::kLinked));

TEST_P(EncoderRankMemory, IsThatOfAllRanks) {
  const RankedModel ranked = LoadEncoderRanks("bert_tiny", GetParam(), 2, {Precision::kFp32});
  const auto held = [&ranked] {
    size_t bytes = 0;
    for (const auto& device : ranked.devices) bytes += device->ops->memory(device->context).bytes_held;
    return bytes;
  };
  const size_t before = held();
  const auto runtime = *ModelEncoderRuntime::Create(ranked.model.get(), BatchOptions());
  EXPECT_EQ(held(), before + runtime->memory_plan().total());
  EXPECT_EQ(runtime->device_memory().bytes_held, held());
}

// What a rank's products do.
bool rank_fails = false;

TEST_P(EncoderRankFaults, AFailingRankEndsTheEngine) {
  RankedModel ranked = LoadEncoderRanks("bert_tiny", GetParam(), 2, {Precision::kFp32});
  static const kernels::DeviceOps* plain;
  static kernels::DeviceOps faulty;
  plain = ranked.devices[1]->ops;
  faulty = [] {
    kernels::DeviceOps ops = *plain;
    ops.gemm = [](kernels::DeviceContext* context, const kernels::GemmParams& params) {
      return rank_fails ? kernels::KernelStatus::kDeviceError : plain->gemm(context, params);
    };
    return ops;
  }();
  ranked.devices[1]->ops = &faulty;
  EncoderClient client(ranked.model.get(), BatchOptions());
  EncodeRequest request;
  request.tokens = {1, 2, 3};
  request.lengths = {3};
  request.dimensions = ranked.model->config().hidden_dim;
  request.profile = {ranked.devices[1]->ops->kind, AttentionBackend::kFlash, Precision::kFp32};
  EXPECT_EQ(client.Submit(request)->Wait()->reason, FinishReason::kStop);
  rank_fails = true;
  EXPECT_EQ(client.Submit(request)->Wait()->reason, FinishReason::kInternal);
  rank_fails = false;
}

}  // namespace
}  // namespace dunlin::engine
