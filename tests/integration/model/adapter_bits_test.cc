// SPDX-License-Identifier: Apache-2.0
// The bit contract with adapters: a response depends on its own adapter alone. Mixes of requests with several adapters
// and with none, in every profile, on engines with little memory and small steps, give what each request gives alone;
// those without an adapter what an engine without adapters gives. Pages never pass from one adapter to another.
#include <gtest/gtest.h>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_adapters.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

const std::vector<std::string> kLlamaAdapters = {"llama_gqa", "llama_gqa_second", "llama_gqa_third", "llama_gqa_head"};

EngineOptions WithAdapters(EngineOptions options = {}) {
  options.adapters = TestAdapterLimits();
  return options;
}

EngineOptions Alone() {
  EngineOptions options;
  options.prefix_cache = false;
  options.kv_memory_bytes = size_t{8} << 20;
  return options;
}

struct AdapterMix {
  const char* model;
  std::vector<std::string> adapters;
};
void PrintTo(const AdapterMix& mix, std::ostream* out) {
  *out << mix.model;
}

class AdapterBits : public ::testing::TestWithParam<AdapterMix> {};

TEST_P(AdapterBits, AResponseDependsOnItsOwnAdapterAlone) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam().model), "", 2, kAllPrecisions);
  const ModelConfig& config = test.model->config();
  const std::unique_ptr<AdapterSet> set = LoadTestAdapters(test.model.get(), GetParam().adapters);
  RequestMix mix(11);
  std::vector<Request> requests;
  std::vector<Response> expected;
  EngineClient base(test.model.get(), Alone());
  EngineClient alone(test.model.get(), WithAdapters(Alone()));
  for (const ExecutionProfile& profile : SupportedProfiles(*test.model, kAllPrecisions)) {
    const Request request = mix.DrawRequest(config, profile);
    for (size_t i = 0; i <= GetParam().adapters.size(); ++i) {
      Request& own = requests.emplace_back(request);
      if (i > 0) own.adapter = set->Lookup(GetParam().adapters[i - 1]);
      expected.push_back((i > 0 ? alone : base).Run(own));
    }
  }
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    EngineOptions options = WithAdapters(mix.DrawOptions(config, false));
    options.max_drafts = round % 2 == 0 ? 4 : 0;
    options.adapt_drafts = false;
    EngineClient together(test.model.get(), options);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    std::vector<size_t> order;
    for (size_t i = 0; i < requests.size(); ++i) order.push_back(i * 29 % requests.size());
    for (const size_t i : order) sinks.push_back(together.Submit(requests[i]));
    for (size_t i = 0; i < order.size(); ++i) {
      std::string why;
      ASSERT_TRUE(SameBits(sinks[i]->Wait(), expected[order[i]], &why)) << "request " << order[i] << ": " << why;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterBits,
                         ::testing::Values(AdapterMix{"llama_gqa", kLlamaAdapters},
                                           AdapterMix{"gpt2_tiny", {"gpt2_tiny"}},
                                           AdapterMix{"neox_parallel", {"neox_parallel"}},
                                           AdapterMix{"gemma3_tiny", {"gemma3_tiny"}},
                                           AdapterMix{"gemma4_e_tiny", {"gemma4_e_tiny"}},
                                           AdapterMix{"qwen35_tiny", {"qwen35_tiny", "qwen35_gates"}},
                                           AdapterMix{"falcon_h1_tiny", {"falcon_h1_tiny"}},
                                           AdapterMix{"mixtral_tiny", {"mixtral_tiny", "mixtral_modules"}},
                                           AdapterMix{"qwen2_moe_tiny", {"qwen2_moe_tiny"}},
                                           AdapterMix{"qwen3_moe_tiny", {"qwen3_moe_tiny", "qwen3_moe_modules"}},
                                           AdapterMix{"deepseek_v3_tiny", {"deepseek_v3_tiny"}},
                                           AdapterMix{"gpt_oss_tiny", {"gpt_oss_tiny"}}),
                         [](const auto& test) { return test.param.model; });

// Calls of the CPU's operations, by the fusions that adapters are in the way of.
struct OperationCounts {
  int heads_stored = 0;  // GEMMs that store K and V
  int activated = 0;     // GEMMs that end in the activation
  int adapters = 0;
};
OperationCounts operation_counts;

const kernels::DeviceOps& CountingOps(const kernels::DeviceOps& cpu) {
  static const kernels::DeviceOps* const plain = &cpu;
  static const kernels::DeviceOps table = [] {
    kernels::DeviceOps ops = *plain;
    ops.gemm = [](kernels::DeviceContext* context, const kernels::GemmParams& params) {
      operation_counts.heads_stored += params.heads != nullptr ? 1 : 0;
      operation_counts.activated += params.next != nullptr ? 1 : 0;
      return plain->gemm(context, params);
    };
    ops.add_low_rank = [](kernels::DeviceContext* context, const kernels::AddLowRankParams& params) {
      ++operation_counts.adapters;
      return plain->add_low_rank(context, params);
    };
    return ops;
  }();
  return table;
}

OperationCounts CountsOf(const TestModel& test, const AdapterLease& adapter) {
  EngineClient client(test.model.get(), WithAdapters(Alone()));
  Request request;
  request.profile = {DeviceKind::kCpu, AttentionBackend::kMath, Precision::kFp32};
  request.prompt.assign(100, 5);
  request.stopping.max_tokens = 1;
  request.adapter = adapter;
  operation_counts = {};
  (void)client.Run(request);
  client.engine().Stop();
  return operation_counts;
}

TEST(AdapterOperations, OnlyProjectionsThatAnAdapterHasAreNotFused) {
  const TestModel test = LoadTestModel(GoldenModelPath("llama_gqa"), "", 2, {Precision::kFp32});
  const std::unique_ptr<AdapterSet> set = LoadTestAdapters(test.model.get(), kLlamaAdapters);
  test.device->ops = &CountingOps(*test.device->ops);
  const OperationCounts base = CountsOf(test, {});
  EXPECT_GT(base.heads_stored, 0);
  EXPECT_GT(base.activated, 0);
  EXPECT_EQ(base.adapters, 0);
  const OperationCounts query_and_value = CountsOf(test, set->Lookup("llama_gqa_second"));
  EXPECT_EQ(query_and_value.heads_stored, 0);
  EXPECT_EQ(query_and_value.activated, base.activated);
  EXPECT_EQ(query_and_value.adapters, test.model->config().num_layers);
  const OperationCounts out_and_up = CountsOf(test, set->Lookup("llama_gqa_third"));  // of the last layer alone
  EXPECT_EQ(out_and_up.heads_stored, base.heads_stored);
  EXPECT_EQ(out_and_up.activated, base.activated - 1);
  EXPECT_EQ(out_and_up.adapters, 2);
}

// The same prompt, so that pages would be found where they are looked for.
class AdapterPages : public ::testing::Test {
 protected:
  AdapterPages()
      : test_(LoadTestModel(GoldenModelPath("llama_gqa"), "", 2, {Precision::kFp32})),
        set_(LoadTestAdapters(test_.model.get(), kLlamaAdapters)),
        client_(test_.model.get(), WithAdapters()) {}

  Request Of(const std::string& adapter) const {
    Request request;
    request.profile = {DeviceKind::kCpu, AttentionBackend::kMath, Precision::kFp32};
    for (int32_t i = 0; i < 60; ++i) request.prompt.push_back(3 + i * 17 % 500);
    request.stopping.max_tokens = 8;
    request.stopping.ignore_eos = true;
    request.sampling.temperature = 0.0F;
    request.sampling.logprobs = 2;
    if (!adapter.empty()) request.adapter = set_->Lookup(adapter);
    return request;
  }

  const TestModel test_;
  const std::unique_ptr<AdapterSet> set_;
  EngineClient client_;
};

TEST_F(AdapterPages, AreFoundByRequestsOfTheSameAdapterAlone) {
  for (const char* adapter : {"", "llama_gqa", "llama_gqa_second"}) {
    const Response first = client_.Run(Of(adapter));
    EXPECT_EQ(first.finish.cached_tokens, 0) << adapter;
    const Response second = client_.Run(Of(adapter));
    EXPECT_GT(second.finish.cached_tokens, 0) << adapter;
    std::string why;
    EXPECT_TRUE(SameBits(first, second, &why)) << adapter << ": " << why;
  }
}

TEST_F(AdapterPages, OfAnAdapterThatIsLoadedAgainAreNotFound) {
  const Response first = client_.Run(Of("llama_gqa"));
  ASSERT_TRUE(set_->Unload("llama_gqa").ok());
  ASSERT_TRUE(set_->Load("llama_gqa", GoldenAdapterPath("llama_gqa")).ok());
  const Response reloaded = client_.Run(Of("llama_gqa"));
  EXPECT_EQ(reloaded.finish.cached_tokens, 0);
  // Other matrices under the same name.
  ASSERT_TRUE(set_->Load("llama_gqa", GoldenAdapterPath("llama_gqa_second"), AdapterSet::IfLoaded::kReplace).ok());
  const Response replaced = client_.Run(Of("llama_gqa"));
  EXPECT_EQ(replaced.finish.cached_tokens, 0);
  const Response second = client_.Run(Of("llama_gqa_second"));
  std::string why;
  EXPECT_TRUE(SameBits(first, reloaded, &why)) << why;
  EXPECT_TRUE(SameBits(replaced, second, &why)) << why;
  EXPECT_FALSE(SameBits(first, second, &why)) << "the adapters differ";
}

// Sequences with one prompt follow the oldest of their own adapter (scheduler_follow.cc).
TEST_F(AdapterPages, AreNotSharedWhileTheyFill) {
  std::vector<Response> expected;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  EngineClient alone(test_.model.get(), WithAdapters(Alone()));
  const std::vector<std::string> adapters = {"llama_gqa", "", "llama_gqa_second", "llama_gqa_third", ""};
  for (const std::string& adapter : adapters) expected.push_back(alone.Run(Of(adapter)));
  for (int copy = 0; copy < 3; ++copy) {
    for (const std::string& adapter : adapters) sinks.push_back(client_.Submit(Of(adapter)));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), expected[i % adapters.size()], &why)) << i << ": " << why;
  }
}

TEST_F(AdapterPages, AnAdapterThatIsUnloadedStaysUntilItsSequencesHaveEnded) {
  Request request = Of("llama_gqa");
  request.stopping.max_tokens = 100;
  const Response expected = client_.Run(request);
  const std::shared_ptr<RecordingSink> running = client_.Submit(request);
  request.adapter = {};
  const size_t before = set_->bytes();
  ASSERT_TRUE(set_->Unload("llama_gqa").ok());
  std::string why;
  EXPECT_TRUE(SameBits(running->Wait(), expected, &why)) << why;
  (void)client_.Run(Of(""));  // a step after it, so that the sequence has been given back
  client_.engine().Stop();
  EXPECT_LT(set_->bytes(), before);
}

}  // namespace
}  // namespace dunlin::engine
