// SPDX-License-Identifier: Apache-2.0
// A slow, a stalled and a failing rank of a divided model, and what a divided model refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/plan/sequence_view.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/model_runtime.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

// What the products of a rank do from the `at`-th on.
enum class Fault : uint8_t { kNone, kSlow, kStalled, kFailing };
std::atomic<Fault> fault{Fault::kNone};
std::atomic<int> products{0};
std::atomic<int> fault_at{0};

// The CPU's table with a fault in its products.
const kernels::DeviceOps& FaultyOps(const kernels::DeviceOps& cpu) {
  static const kernels::DeviceOps* const plain = &cpu;
  static const kernels::DeviceOps table = [] {
    kernels::DeviceOps ops = *plain;
    ops.gemm = [](kernels::DeviceContext* context, const kernels::GemmParams& params) {
      if (products++ >= fault_at) {
        if (fault == Fault::kFailing) return kernels::KernelStatus::kDeviceError;
        if (fault == Fault::kSlow) std::this_thread::sleep_for(std::chrono::microseconds(300));
        while (fault == Fault::kStalled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return plain->gemm(context, params);
    };
    return ops;
  }();
  return table;
}

class RankFaults : public ::testing::Test {
 protected:
  RankFaults() : ranked_(LoadRankedModel(GoldenModelPath("mistral_window"), "", 1, 2, {Precision::kFp32})) {
    ranked_.devices[1]->ops = &FaultyOps(*ranked_.devices[1]->ops);
    Set(Fault::kNone, 0);
  }
  ~RankFaults() override { fault = Fault::kNone; }

  static void Set(Fault kind, int at) {
    products = 0;
    fault_at = at;
    fault = kind;
  }

  static Request RequestOf(int32_t num_tokens) {
    Request request;
    request.prompt = {3, 1, 4, 1, 5, 9, 2, 6};
    request.sampling.logprobs = 1;
    request.stopping.max_tokens = num_tokens;
    request.stopping.ignore_eos = true;
    request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32};
    return request;
  }

  // A step of a prompt. The tokens and pages stay until the next one.
  const StepPlan& Plan() {
    tokens_ = {3, 1, 4, 1, 5};
    pages_.resize(4);
    std::iota(pages_.begin(), pages_.end(), 0);
    plan_.Clear();
    AppendSequence({DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32},
                   {.tokens = tokens_, .prompt_len = 5, .pages = pages_, .sampling = SamplingParams{}, .stopping = {}},
                   {.num_tokens = 5, .samples = true}, &plan_);
    return plan_;
  }

  RankedModel ranked_;
  std::vector<TokenId> tokens_;
  std::vector<PageId> pages_;
  StepPlan plan_;
};

TEST_F(RankFaults, ASlowRankChangesNoBits) {
  EngineClient client(ranked_.model.get(), {});
  const Response quick = client.Run(RequestOf(8));
  Set(Fault::kSlow, 0);
  std::string why;
  EXPECT_TRUE(SameBits(client.Run(RequestOf(8)), quick, &why) || why.find("cached") != std::string::npos) << why;
  EXPECT_GT(products, 8);
}

TEST_F(RankFaults, AStalledRankHoldsTheStepAndItsProgress) {
  const auto runtime = *ModelRuntime::Create(ranked_.model.get(), {});
  Set(Fault::kStalled, 2);
  std::atomic<bool> launched{false};
  std::thread engine([&] {
    EXPECT_TRUE(runtime->Launch(Plan()).ok());
    launched = true;
  });
  while (products < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 reaches the meeting
  const uint64_t before = runtime->progress();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(runtime->progress(), before);  // what a watchdog looks at
  EXPECT_EQ(runtime->rank_at_fault(), 1);
  EXPECT_FALSE(launched);
  Set(Fault::kNone, 0);
  engine.join();
  EXPECT_TRUE(launched);
  EXPECT_GT(runtime->progress(), before);
  EXPECT_EQ(runtime->rank_at_fault(), -1);
}

// Wherever it fails: in the first layer, in the last product, which is the head.
TEST_F(RankFaults, AFailingRankEndsTheStepWithItsReason) {
  for (const int at : {0, 1, 3, 8}) {
    SCOPED_TRACE(at);
    const auto runtime = *ModelRuntime::Create(ranked_.model.get(), {});
    Set(Fault::kFailing, at);
    const absl::Status status = runtime->Launch(Plan()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of 2: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("failed: device error"));
    Set(Fault::kNone, 0);
    EXPECT_EQ(runtime->Launch(Plan()).status().message(), status.message());  // for good
  }
}

TEST_F(RankFaults, AFailingRankEndsTheEngineAndItsRequests) {
  EngineClient client(ranked_.model.get(), {});
  Set(Fault::kStalled, 0);  // until all requests are there
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i) sinks.push_back(client.Submit(RequestOf(60)));
  Set(Fault::kFailing, 40);
  for (const std::shared_ptr<RecordingSink>& sink : sinks) {
    const Response response = sink->Wait();
    EXPECT_EQ(response.finish.reason, FinishReason::kInternal);
    EXPECT_LT(response.tokens.size(), 60U);
  }
  EXPECT_TRUE(client.engine().stats().failed) << "what health asks";
  EXPECT_EQ(client.engine().stats().rank_at_fault, 1);
}

TEST_F(RankFaults, MemoryIsThatOfAllRanks) {
  EngineOptions options;
  options.kv_memory_bytes = size_t{1} << 20;
  const TestModel whole = LoadTestModel(GoldenModelPath("mistral_window"), "", 1, {Precision::kFp32});
  const auto alone = *ModelRuntime::Create(whole.model.get(), options);
  const size_t before = ranked_.devices[0]->ops->memory(ranked_.devices[0]->context).bytes_held +
                        ranked_.devices[1]->ops->memory(ranked_.devices[1]->context).bytes_held;
  const auto divided = *ModelRuntime::Create(ranked_.model.get(), options);
  EXPECT_EQ(divided->num_pages(), alone->num_pages());
  EXPECT_EQ(divided->memory_plan()[BufferId::kKvPool], alone->memory_plan()[BufferId::kKvPool]);
  EXPECT_EQ(divided->memory_plan()[BufferId::kHidden], alone->memory_plan()[BufferId::kHidden]);
  EXPECT_EQ(divided->device_memory().bytes_held, before + divided->memory_plan().total());
  EXPECT_EQ(KvDemandOf(whole.model->config(), {Precision::kFp32}, options, 2).page_bytes,
            KvDemandOf(whole.model->config(), {Precision::kFp32}, options).page_bytes);
  // Four ranks share two heads of keys and values: each has its copy.
  EXPECT_EQ(KvDemandOf(whole.model->config(), {Precision::kFp32}, options, 4).page_bytes,
            2 * KvDemandOf(whole.model->config(), {Precision::kFp32}, options).page_bytes);
}

}  // namespace
}  // namespace dunlin::engine
