// The engine thread neither allocates nor frees in steps, whatever happens in them: admission, prefix hits, decode,
// preemption, cancel, end. Counted at malloc itself.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "tests/engine/engine/engine_harness.h"

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

TimeNs Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

struct Rig {
  explicit Rig(int32_t depth) {
    EngineOptions options;
    options.max_sequences = 8;
    options.max_tokens_per_step = 32;
    simulation::FakeRuntimeOptions fake;
    fake.num_pages = 12500 + 16;  // the endless request may take 12500; the others squeeze into the rest
    fake.tokens_per_page = {4, 4, 4, 4};
    fake.depth = depth;
    fake.on_launch = [](const StepPlan&) {
      is_engine_thread = true;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    };
    ModelConfig config;
    config.vocab_size = 50;
    config.max_context = 65536;
    engine = std::make_unique<Engine>(options, config, std::make_unique<simulation::FakeRuntime>(fake), &Now, nullptr);
  }
  std::pair<std::shared_ptr<simulation::RecordingSink>, RequestId> Submit(int32_t prompt_len, int32_t max_tokens) {
    auto sink = std::make_shared<simulation::RecordingSink>(static_cast<size_t>(max_tokens));
    const Request request = EngineHarness::Ask(prompt_len, max_tokens);
    const RequestId id = *engine->Submit(request, sink);
    return {sink, id};
  }
  std::unique_ptr<Engine> engine;
};

TEST(Allocation, EngineThreadNeitherAllocatesNorFreesInSteps) {
  if (!DUNLIN_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizers own malloc";
  for (const int32_t depth : {1, 2}) {
    Rig rig(depth);
    const auto [endless, endless_id] = rig.Submit(4, 49000);
    ASSERT_TRUE(endless->WaitForTokens(5));
    allocations = frees = 0;
    armed = true;
    for (int wave = 0; wave < 5; ++wave) {
      std::vector<std::pair<std::shared_ptr<simulation::RecordingSink>, RequestId>> clients;
      for (int i = 0; i < 20; ++i) clients.push_back(rig.Submit(1 + 3 * i, 10 + i));
      rig.engine->Cancel(clients[3].second, FinishReason::kCancelled);
      rig.engine->Cancel(clients[7].second, FinishReason::kCancelled);
      for (const auto& [sink, id] : clients) ASSERT_TRUE(sink->WaitForFinish());
    }
    armed = false;
    ASSERT_EQ(endless->num_finishes(), 0) << "the engine went idle: nothing was shown";
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(frees, 0);
    EXPECT_GT(rig.engine->stats().prefix_hits, 0U);
    rig.engine->Cancel(endless_id, FinishReason::kCancelled);
    ASSERT_TRUE(endless->WaitForFinish());
  }
}

}  // namespace
}  // namespace dunlin::engine
