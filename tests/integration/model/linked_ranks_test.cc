// SPDX-License-Identifier: Apache-2.0
// Models divided among devices with memory of their own: the fake module's, whose ranks work only when they are waited
// for, and where there is a GPU the CUDA module's, two ranks on two devices or on one and the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "engine/model/load/load_model.h"
#include "engine/parallel/rank_devices.h"
#include "engine/runtime/model_runtime.h"
#include "tests/integration/model/bit_mixes.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/graph_count.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/test_model.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

struct LinkedMix {
  const char* name;
  int32_t num_ranks;
  bool no_peers = false;
  bool eager = false;
};
void PrintTo(const LinkedMix& mix, std::ostream* out) {
  *out << mix.name << ", " << mix.num_ranks << " linked ranks" << (mix.no_peers ? " without peers" : "");
}

MixTotals linked_totals;

class LinkedMixes : public ::testing::TestWithParam<std::tuple<Place, LinkedMix>> {};

// In the precisions whose products do not divide their sums by the shape of a weight, so that a rank's part of one
// gives the whole one's bits.
TEST_P(LinkedMixes, AResponseEqualsThatOfItsRequestAloneOnOneDevice) {
  const auto& [place, mix] = GetParam();
  std::string reason;
  auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  std::vector<Precision> precisions;
  for (const Precision precision : kAllPrecisions) {
    if (precision == Precision::kFp32 && place.name != "fake") continue;
    if (device->ops->prefill_matches_decode(device->context, precision, true)) precisions.push_back(precision);
  }
  if (precisions.empty()) GTEST_SKIP() << "no precision of this device has one order of additions for all shapes";
  const MixCase test{mix.name, GoldenModelPath(mix.name), 2, 1, false, mix.eager};
  const WithoutPeers no_peers(mix.no_peers);
  const TestModel alone = LoadTestModel(test.path, std::move(device), precisions);
  const RankedModel together = LoadLinkedModel(place, test.path, mix.num_ranks, precisions);
  RunMixes(*alone.model, *together.model, test, &linked_totals);
}

std::string LinkedName(const ::testing::TestParamInfo<std::tuple<Place, LinkedMix>>& info) {
  const LinkedMix& mix = std::get<1>(info.param);
  return std::string(mix.name) + "_" + std::to_string(mix.num_ranks) + (mix.no_peers ? "_by_host" : "") +
         (mix.eager ? "_eager" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Fake, LinkedMixes,
    ::testing::Combine(
        ::testing::ValuesIn(FakePlaces()),
        ::testing::Values(LinkedMix{"gpt2_tiny", 2}, LinkedMix{"llama_gqa", 2}, LinkedMix{"mistral_window", 4},
                          LinkedMix{"gemma2_tiny", 2}, LinkedMix{"mixtral_tiny", 4}, LinkedMix{"gpt_oss_tiny", 2},
                          LinkedMix{"qwen35_tiny", 2}, LinkedMix{"falcon_h1_norm", 2},
                          LinkedMix{"deepseek_v32_tiny", 2}, LinkedMix{"llama4_tiny", 2}, LinkedMix{"gemma4_tiny", 2},
                          LinkedMix{"gemma4_e_tiny", 2}, LinkedMix{"gemma4_moe_tiny", 2}, LinkedMix{"step_tiny", 2},
                          LinkedMix{"mimo_v2_tiny", 2}, LinkedMix{"minimax_m2_tiny", 2}, LinkedMix{"olmo2_tiny", 4},
                          LinkedMix{"olmo_hybrid_tiny", 2}, LinkedMix{"gpt2_tiny", 3, true},
                          LinkedMix{"mistral_window", 4, true}, LinkedMix{"gpt_oss_tiny", 2, true},
                          LinkedMix{"falcon_h1_norm", 2, true}, LinkedMix{"deepseek_v32_tiny", 2, true},
                          LinkedMix{"gemma4_e_tiny", 2, true}, LinkedMix{"minimax_m2_tiny", 2, true},
                          LinkedMix{"qwen35_tiny", 2, true}, LinkedMix{"llama_gqa", 2, false, true},
                          LinkedMix{"gemma2_tiny", 2, true, true}, LinkedMix{"mixtral_tiny", 2, false, true})),
    LinkedName);
INSTANTIATE_TEST_SUITE_P(
    Cuda, LinkedMixes,
    ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                       ::testing::Values(LinkedMix{"gemma4_e_tiny", 2}, LinkedMix{"gemma4_moe_tiny", 2},
                                         LinkedMix{"minimax_m2_tiny", 2}, LinkedMix{"qwen35_tiny", 2})),
    LinkedName);

// What a rank's device does from the `at`-th call on.
enum class LinkFault : uint8_t { kNone, kProductFails, kWaitFails };
std::atomic<LinkFault> link_fault{LinkFault::kNone};
std::atomic<int> calls_left{0};

const kernels::DeviceOps& FaultyOps(const kernels::DeviceOps& module) {
  static const kernels::DeviceOps* const plain = &module;
  static const kernels::DeviceOps table = [] {
    kernels::DeviceOps ops = *plain;
    ops.gemm = [](kernels::DeviceContext* context, const kernels::GemmParams& params) {
      if (link_fault == LinkFault::kProductFails && calls_left-- <= 0) return kernels::KernelStatus::kDeviceError;
      return plain->gemm(context, params);
    };
    ops.wait_event = [](kernels::DeviceContext* context, kernels::DeviceEvent* event) {
      if (link_fault == LinkFault::kWaitFails && calls_left-- <= 0) return kernels::KernelStatus::kDeviceError;
      return plain->wait_event(context, event);
    };
    return ops;
  }();
  return table;
}

class LinkedFaults : public ::testing::Test {
 protected:
  LinkedFaults()
      : ranked_(LoadLinkedModel(FakePlaces().front(), GoldenModelPath("mistral_window"), 2, {Precision::kBf16})) {
    ranked_.devices[1]->ops = &FaultyOps(*ranked_.devices[1]->ops);
  }
  ~LinkedFaults() override { Set(LinkFault::kNone, 0); }

  static void Set(LinkFault kind, int at) {
    calls_left = at;
    link_fault = kind;
  }
  static Request RequestOf(int32_t num_tokens) {
    Request request;
    request.prompt = {3, 1, 4, 1, 5, 9, 2, 6};
    request.sampling.logprobs = 1;
    request.stopping.max_tokens = num_tokens;
    request.stopping.ignore_eos = true;
    request.profile = {DeviceKind::kCuda, AttentionBackend::kFlash, Precision::kBf16};
    return request;
  }

  RankedModel ranked_;
};

// Its peer is left waiting for a rank that will not come: neither the step nor the end of the engine hangs.
TEST_F(LinkedFaults, AFailingRankEndsTheEngineAndItsRequests) {
  for (const auto& [kind, at, no_peers] :
       {std::tuple{LinkFault::kProductFails, 0, false}, std::tuple{LinkFault::kProductFails, 7, true},
        std::tuple{LinkFault::kWaitFails, 0, true}, std::tuple{LinkFault::kWaitFails, 7, false},
        std::tuple{LinkFault::kWaitFails, 7, true}}) {
    SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + " at " + std::to_string(at));
    const WithoutPeers host(no_peers);
    EngineOptions options;
    options.steps_in_flight = 2;
    EngineClient client(ranked_.model.get(), options);
    Set(kind, at);
    const Response response = client.Run(RequestOf(60));
    EXPECT_EQ(response.finish.reason, FinishReason::kInternal);
    EXPECT_LT(response.tokens.size(), 60U);
    Set(LinkFault::kNone, 0);
  }
}

TEST_F(LinkedFaults, TheReasonNamesTheRank) {
  const auto runtime = *ModelRuntime::Create(ranked_.model.get(), {});
  const ProfileTable profiles(ranked_.model->config(), {Precision::kBf16}, *ranked_.devices[0], {});
  Set(LinkFault::kWaitFails, 0);
  std::string notice;
  const absl::Status status = runtime->WarmUp(profiles, &notice);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of 2: "));
}

class LinkedSteps : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Peers, LinkedSteps, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "by_host" : "by_peers"; });

TEST_P(LinkedSteps, DecodeStepsAreRecordedAndServingTakesNoMemory) {
  const WithoutPeers no_peers(GetParam());
  const RankedModel ranked = LoadLinkedModel(FakePlaces().front(), GoldenModelPath("llama_gqa"), 2, {Precision::kBf16});
  const auto allocations = [&] {
    uint64_t sum = 0;
    for (const auto& device : ranked.devices) sum += device->ops->memory(device->context).allocations;
    return sum;
  };
  EngineOptions options;
  options.steps_in_flight = 2;
  const GraphCount graphs;
  EngineClient client(ranked.model.get(), options);
  const uint64_t before = allocations();
  Request request;
  request.prompt = {3, 1, 4, 1, 5};
  request.stopping.max_tokens = 40;
  request.stopping.ignore_eos = true;
  request.profile = {DeviceKind::kCuda, AttentionBackend::kFlash, Precision::kBf16};
  EXPECT_EQ(client.Run(request).tokens.size(), 40U);
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(graphs.launched(), 20) << "of two ranks";
}

TEST(LinkedRanks, TheLogSaysWhyTheyGoThroughTheHost) {
  const RankedModel ranked = LoadLinkedModel(FakePlaces().front(), GoldenModelPath("gpt2_tiny"), 2, {Precision::kBf16});
  const ProfileTable profiles(ranked.model->config(), {Precision::kBf16}, *ranked.devices[0], {});
  for (const bool on : {false, true}) {
    const WithoutPeers no_peers(on);
    const auto runtime = *ModelRuntime::Create(ranked.model.get(), {});
    std::string notice;
    EXPECT_TRUE(runtime->WarmUp(profiles, &notice).ok());
    const std::string expected = std::string("its ranks exchange rows through memory of the host: ") + kNoPeersReason;
    EXPECT_EQ(notice, on ? expected : "");
  }
}

TEST(LinkedRanks, WhatCannotBeLinkedIsRefusedWithTheDevicesReason) {
  const RankedModel ranked = LoadLinkedModel(FakePlaces().front(), GoldenModelPath("gpt2_tiny"), 2, {Precision::kBf16});
  setenv(kernels::kFakeLinkError, "the host has no 32 bytes of pinned memory", 1);
  const absl::Status status = ModelRuntime::Create(ranked.model.get(), {}).status();
  unsetenv(kernels::kFakeLinkError);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("models[].parallel.tensor is 2, but its ranks cannot be linked: the host has no 32 bytes"));
}

TEST(LinkedRanks, LayerEmbeddingsOfAnotherVocabularyAreRefused) {
  std::string reason;
  const auto first = OpenPlace(FakePlaces().front(), 1, &reason);
  const auto second = OpenPlace(FakePlaces().front(), 1, &reason);
  ASSERT_NE(second, nullptr) << reason;
  ModelSource source;
  source.random_shape = R"({"model_type": "gemma4_text", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 50,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32,
      "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 64})";
  source.precisions = {Precision::kBf16};
  source.num_ranks = 2;
  const absl::Status status = LoadModel(source, {first.get(), second.get()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("per-layer embeddings of 64 tokens and a vocabulary of 50, which are not divided on cuda"));
}

TEST(LinkedRanks, EachHasTheDeviceOfItsNumber) {
  std::string reason;
  const auto whole = OpenPlace(FakePlaces().front(), 1, &reason);
  ASSERT_NE(whole, nullptr) << reason;
  kernels::DeviceOptions options;
  options.cuda_module = FakePlaces().front().module;
  EXPECT_EQ(OpenRankDevices(*whole, options, 3)->size(), 3U);
  EXPECT_TRUE(OpenRankDevices(*whole, options, 2, {3, 1}).ok());
  EXPECT_THAT(std::string(OpenRankDevices(*whole, options, 2, {0, 9}).status().message()),
              HasSubstr("the device of rank 1 cannot be opened: there is no CUDA device 9; the process sees 4"));
}

}  // namespace
}  // namespace dunlin::engine
