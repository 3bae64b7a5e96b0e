// SPDX-License-Identifier: Apache-2.0
// The engine thread neither allocates nor frees in steps, whatever happens in them: admission, prefix hits, decode,
// preemption, cancel, end. Counted at malloc itself.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "tests/engine/loop/engine_harness.h"
#include "tests/simulation/scripted_constraint.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define DUNLIN_COUNTS_MALLOC 0
#else
#define DUNLIN_COUNTS_MALLOC 1
#endif

namespace {

thread_local bool is_engine_thread = false;
std::atomic<bool> armed{false};
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> frees{0};

}  // namespace

#if DUNLIN_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void __libc_free(void* memory);

void* malloc(size_t bytes) noexcept {
  if (is_engine_thread && armed) ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  if (is_engine_thread && armed) ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  if (is_engine_thread && armed) ++allocations;
  return __libc_realloc(memory, bytes);
}
void free(void* memory) noexcept {
  if (is_engine_thread && armed && memory != nullptr) ++frees;
  __libc_free(memory);
}
}
#endif

namespace dunlin::engine {
namespace {

TimeNs Now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// Counts what the engine thread does with memory while it lives.
class Count {
 public:
  Count() {
    allocations = frees = 0;
    armed = true;
  }
  ~Count() { armed = false; }
};

class AllocationTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!DUNLIN_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizers own malloc";
  }

  void Start(int32_t num_pages, int32_t depth) {
    EngineOptions options;
    options.max_sequences = 8;
    options.max_tokens_per_step = 32;
    options.kv_events.max_batches = 16;
    simulation::FakeRuntimeOptions fake;
    fake.num_pages = num_pages;
    fake.tokens_per_page = {4, 4, 4, 4};
    fake.depth = depth;
    fake.on_launch = [](const StepPlan&) {
      is_engine_thread = true;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    };
    ModelConfig config;
    config.vocab_size = 50;
    config.max_context = 65536;
    engine_ = std::make_unique<Engine>(options, config, std::make_unique<simulation::FakeRuntime>(fake), &Now, nullptr);
  }

  using Pending = std::pair<std::shared_ptr<simulation::RecordingSink>, RequestId>;
  Pending Submit(int32_t prompt_len, int32_t max_tokens, TokenId first = 1,
                 std::shared_ptr<const TokenConstraint> constraint = nullptr) {
    auto sink = std::make_shared<simulation::RecordingSink>(static_cast<size_t>(max_tokens));
    Request request = EngineHarness::Ask(prompt_len, max_tokens, first);
    request.constraint = std::move(constraint);
    const RequestId id = *engine_->Submit(std::move(request), sink);
    return {sink, id};
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(AllocationTest, EngineThreadNeitherAllocatesNorFreesInSteps) {
  for (const int32_t depth : {1, 2}) {
    Start(12500, depth);
    const auto [endless, endless_id] = Submit(4, 49000);  // keeps the engine from going idle, where it may free
    ASSERT_TRUE(endless->WaitForTokens(5));
    {
      const Count count;
      for (int wave = 0; wave < 5; ++wave) {
        std::vector<Pending> clients;
        for (int i = 0; i < 20; ++i) clients.push_back(Submit(1 + 3 * i, 10 + i));
        engine_->Cancel(clients[3].second, FinishReason::kCancelled);
        engine_->Cancel(clients[7].second, FinishReason::kCancelled);
        for (const auto& [sink, id] : clients) ASSERT_TRUE(sink->WaitForFinish());
      }
    }
    ASSERT_EQ(endless->num_finishes(), 0) << "the engine went idle: nothing was shown";
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(frees, 0);
    EXPECT_GT(engine_->stats().prefix_hits, 0U);
    engine_->Cancel(endless_id, FinishReason::kCancelled);
    ASSERT_TRUE(endless->WaitForFinish());
  }
}

// Of a constraint whose state does not either: masks and forced tokens have their memory from Submit.
TEST_F(AllocationTest, EngineThreadNeitherAllocatesNorFreesForConstrainedRequests) {
  const auto constraint = simulation::ScriptedConstraint::Chain(
      {{{1, 2, 3}}, {{4}}, {{5}}, {{6, 7}}, {{8}}, {{1, 9}}, {{2, 5}}, {{3}}, {{4, 5}}, {}}, {});
  for (const int32_t depth : {1, 2}) {
    Start(12500, depth);
    const auto [endless, endless_id] = Submit(4, 49000);
    ASSERT_TRUE(endless->WaitForTokens(5));
    {
      const Count count;
      for (int wave = 0; wave < 10; ++wave) {
        std::vector<Pending> clients;
        for (int i = 0; i < 20; ++i) clients.push_back(Submit(1 + 3 * i, 10 + i, 1, constraint));
        engine_->Cancel(clients[3].second, FinishReason::kCancelled);
        for (const auto& [sink, id] : clients) ASSERT_TRUE(sink->WaitForFinish());
      }
    }
    ASSERT_EQ(endless->num_finishes(), 0) << "the engine went idle: nothing was shown";
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(frees, 0);
    engine_->Cancel(endless_id, FinishReason::kCancelled);
    ASSERT_TRUE(endless->WaitForFinish());
  }
}

TEST_F(AllocationTest, EngineThreadDoesNotAllocateWhenItPreempts) {
  Start(24, 1);
  ASSERT_TRUE(Submit(2, 2).first->WaitForFinish());  // the thread has run
  {
    const Count count;
    std::vector<Pending> clients;
    for (int i = 0; i < 30; ++i) clients.push_back(Submit(3, 60, i));
    for (const auto& [sink, id] : clients) ASSERT_TRUE(sink->WaitForFinish());
  }
  EXPECT_EQ(allocations, 0);
  EXPECT_GT(engine_->stats().preemptions, 0U);
}

}  // namespace
}  // namespace dunlin::engine
