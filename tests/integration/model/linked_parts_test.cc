// SPDX-License-Identifier: Apache-2.0
// What models divided among devices with memory of their own have in addition: low-rank adapters, and layers that
// predict further tokens. On the fake module, and where there is a GPU on the CUDA module's, as linked_ranks_test.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "engine/draft_model/predicting_layer.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/test_adapters.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

// A model of num_ranks devices; 1: in one piece.
struct LinkedPart {
  const char* model;
  int32_t num_ranks;
  std::vector<std::string> adapters = {};
};
void PrintTo(const LinkedPart& part, std::ostream* out) {
  *out << part.model << ", " << part.num_ranks << " ranks";
}

using LinkedPartCase = std::tuple<Place, LinkedPart>;

std::string LinkedPartName(const ::testing::TestParamInfo<LinkedPartCase>& info) {
  const LinkedPart& part = std::get<1>(info.param);
  return std::string(part.model) + "_" + std::to_string(part.num_ranks);
}

// Of a device whose bits do not depend on the shape of a weight; false: there is none, and *reason says why.
bool HasLinkedBits(const Place& place, std::string* reason) {
  const auto device = OpenPlace(place, 1, reason);
  if (device == nullptr) return false;
  if (device->ops->prefill_matches_decode(device->context, Precision::kBf16, true)) return true;
  *reason = "BF16 of this device has another order of additions for other shapes";
  return false;
}

Request LinkedPartRequest(int32_t first, int32_t num_prompt, int32_t num_new) {
  Request request;
  for (int32_t i = 0; i < num_prompt; ++i) request.prompt.push_back((first + 5 * i + i * i) % 61);
  request.sampling.temperature = 0.0F;
  request.sampling.logprobs = 2;
  request.stopping.max_tokens = num_new;
  request.stopping.ignore_eos = true;
  request.profile = {DeviceKind::kCuda, AttentionBackend::kFlash, Precision::kBf16};
  return request;
}

EngineOptions WithLinkedAdapters() {
  EngineOptions options;
  options.adapters = TestAdapterLimits();
  options.max_tokens_per_step = 37;
  return options;
}

class LinkedAdapters : public ::testing::TestWithParam<LinkedPartCase> {};

// With every adapter and with none: alone on one device, and together on several.
TEST_P(LinkedAdapters, ResponsesHaveTheBitsOfOneDevice) {
  const auto& [place, part] = GetParam();
  std::string reason;
  if (!HasLinkedBits(place, &reason)) GTEST_SKIP() << reason;
  const RankedModel whole = LoadLinkedModel(place, GoldenModelPath(part.model), 1, {Precision::kBf16});
  const RankedModel ranked = LoadLinkedModel(place, GoldenModelPath(part.model), part.num_ranks, {Precision::kBf16});
  const std::unique_ptr<AdapterSet> of_whole = LoadTestAdapters(whole.model.get(), part.adapters);
  const std::unique_ptr<AdapterSet> of_ranks = LoadTestAdapters(ranked.model.get(), part.adapters);
  EngineClient alone(whole.model.get(), WithLinkedAdapters());
  EngineClient together(ranked.model.get(), WithLinkedAdapters());
  std::vector<Response> expected;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (size_t i = 0; i <= part.adapters.size(); ++i) {
    Request request = LinkedPartRequest(3, 11, 12);
    if (i > 0) request.adapter = of_whole->Lookup(part.adapters[i - 1]);
    expected.push_back(alone.Run(request));
    if (i > 0) request.adapter = of_ranks->Lookup(part.adapters[i - 1]);
    sinks.push_back(together.Submit(request));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), expected[i], &why)) << "request " << i << ": " << why;
    if (i > 0) {
      EXPECT_FALSE(SameBits(expected[i], expected[0], &why)) << "adapter " << i << " changes nothing";
    }
  }
}

class LinkedDrafts : public ::testing::TestWithParam<LinkedPartCase> {};

// One request after the other, so that as many guesses are right as on one device where every guess is the same.
TEST_P(LinkedDrafts, ChangeNoBitAndAreThoseOfOneDevice) {
  const auto& [place, part] = GetParam();
  std::string reason;
  if (!HasLinkedBits(place, &reason)) GTEST_SKIP() << reason;
  ModelSource source;
  source.path = SourcePath(std::string("tests/golden/predictors/") + part.model);
  source.precisions = {Precision::kBf16};
  const RankedModel plain_model = LoadLinkedModel(place, source, 1);
  source.predictor = true;
  const RankedModel whole = LoadLinkedModel(place, source, 1);
  const RankedModel ranked = LoadLinkedModel(place, source, part.num_ranks);
  EngineOptions options;
  EngineClient plain(plain_model.model.get(), options);
  options.max_drafts = 5;
  options.adapt_drafts = false;
  const auto predicting = [](ModelRuntime* runtime, const Model& model) {
    return std::make_unique<PredictingLayer>(runtime, model.config().vocab_size);
  };
  EngineClient alone(whole.model.get(), options, predicting);
  EngineClient together(ranked.model.get(), options, predicting);
  for (const int32_t first : {5, 9, 14}) {
    const Request request = LinkedPartRequest(first, 9 + 2 * first, 30);
    const Response expected = plain.Run(request);
    std::string why;
    EXPECT_TRUE(SameBits(alone.Run(request), expected, &why)) << "one device: " << why;
    EXPECT_TRUE(SameBits(together.Run(request), expected, &why)) << why;
  }
  alone.engine().Stop();
  together.engine().Stop();
  EXPECT_GT(together.engine().stats().draft_tokens, 100U);
  EXPECT_EQ(together.engine().stats().draft_tokens, alone.engine().stats().draft_tokens);
  EXPECT_EQ(together.engine().stats().accepted_tokens, alone.engine().stats().accepted_tokens);
}

INSTANTIATE_TEST_SUITE_P(
    Fake, LinkedAdapters,
    ::testing::Combine(
        ::testing::ValuesIn(FakePlaces()),
        ::testing::Values(
            LinkedPart{"llama_gqa", 2, {"llama_gqa", "llama_gqa_second", "llama_gqa_third", "llama_gqa_head"}},
            LinkedPart{"gpt2_tiny", 3, {"gpt2_tiny"}}, LinkedPart{"gemma3_tiny", 4, {"gemma3_tiny"}},
            LinkedPart{"qwen35_tiny", 2, {"qwen35_tiny", "qwen35_gates"}},
            LinkedPart{"falcon_h1_tiny", 2, {"falcon_h1_tiny"}},
            LinkedPart{"mixtral_tiny", 2, {"mixtral_tiny", "mixtral_modules"}},
            LinkedPart{"gpt_oss_tiny", 2, {"gpt_oss_tiny"}}, LinkedPart{"nemotron_h_tiny", 2, {"nemotron_h_tiny"}},
            LinkedPart{"deepseek_v3_tiny", 2, {"deepseek_v3_tiny"}})),
    LinkedPartName);
INSTANTIATE_TEST_SUITE_P(
    Fake, LinkedDrafts,
    ::testing::Combine(::testing::ValuesIn(FakePlaces()),
                       ::testing::Values(LinkedPart{"qwen35_mtp", 2}, LinkedPart{"glm4_moe_mtp", 4},
                                         LinkedPart{"deepseek_v3_mtp", 2}, LinkedPart{"step_mtp", 2})),
    LinkedPartName);
INSTANTIATE_TEST_SUITE_P(Cuda, LinkedAdapters,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::Values(LinkedPart{"llama_gqa", 2, {"llama_gqa"}},
                                                              LinkedPart{"mixtral_tiny", 2, {"mixtral_tiny"}})),
                         LinkedPartName);
INSTANTIATE_TEST_SUITE_P(Cuda, LinkedDrafts,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::Values(LinkedPart{"deepseek_v3_mtp", 2})),
                         LinkedPartName);

// First matrices are copied, second ones are not: the set counts what all devices hold, and each has released it in the
// end. One that was evicted to host memory, and came back, has its bits.
TEST(LinkedAdapterMemory, IsThatOfAllDevices) {
  const RankedModel ranked = LoadLinkedModel(FakePlaces().front(), GoldenModelPath("llama_gqa"), 2, {Precision::kBf16});
  const auto held = [&ranked] {
    std::vector<size_t> bytes;
    for (const auto& device : ranked.devices) bytes.push_back(device->ops->memory(device->context).bytes_held);
    return bytes;
  };
  AdapterLimits limits = TestAdapterLimits();
  limits.max_adapters = 1;
  limits.max_registered = 2;
  limits.max_host_bytes = limits.max_bytes;
  EngineOptions options = WithLinkedAdapters();
  options.adapters = limits;
  EngineClient client(ranked.model.get(), options);
  const std::vector<size_t> before = held();
  {
    const std::unique_ptr<AdapterSet> set = *AdapterSet::Create(ranked.model.get(), limits);
    const auto run = [&](const char* name) {
      Request request = LinkedPartRequest(3, 11, 12);
      absl::StatusOr<AdapterLease> lease = set->Restore(name);
      for (int tries = 0; tries < 10000 && absl::IsUnavailable(lease.status()); ++tries) {  // the one before has ended
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        lease = set->Restore(name);
      }
      EXPECT_TRUE(lease.ok()) << lease.status();
      if (lease.ok()) request.adapter = *std::move(lease);
      return client.Run(request);
    };
    ASSERT_TRUE(set->Load("first", GoldenAdapterPath("llama_gqa")).ok());
    ASSERT_TRUE(set->Load("second", GoldenAdapterPath("llama_gqa_second")).ok());
    const Response first = run("first");
    const std::vector<size_t> with_first = held();
    EXPECT_GT(with_first[0], before[0]);
    EXPECT_GT(with_first[1], before[1]);
    EXPECT_EQ(with_first[0] + with_first[1] - before[0] - before[1], set->bytes());
    const Response second = run("second");
    std::string why;
    EXPECT_FALSE(SameBits(second, first, &why));
    EXPECT_TRUE(SameBits(run("first"), first, &why)) << why;
    EXPECT_GE(set->moves().evictions, 2U);
    EXPECT_EQ(set->moves().reads, 0U) << "the files again";
  }
  // The engine may still have the last request, whose lease keeps its adapter.
  for (int tries = 0; tries < 10000 && held() != before; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(held(), before);
}

}  // namespace
}  // namespace dunlin::engine
