// SPDX-License-Identifier: Apache-2.0
// A real Engine with its thread, on the fake runtime. The clock only advances when a test moves it; a gate can hold
// the engine thread in Launch, so that what happens "during a step" happens exactly then.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/loop/engine.h"
#include "tests/simulation/fake_runtime.h"
#include "tests/simulation/recording_sink.h"
#include "tests/simulation/reference.h"

namespace dunlin::engine {

using simulation::kEos;

// Holds the engine thread at each launch until a permit is given. Open from the start.
class StepGate {
 public:
  void Close() { SetPermits(0); }
  void Open() { SetPermits(-1); }
  void WaitUntilHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_held_; });
  }
  // Waits for a held step, lets it go, and waits until the next one is held.
  void LetOneThrough() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_held_; });
    permits_ = 1;
    changed_.notify_all();
    changed_.wait(lock, [this, next = held_ + 1] { return held_ >= next; });
  }
  // The engine thread.
  void Pass() {
    std::unique_lock lock(mutex_);
    if (permits_ < 0) return;
    ++held_;
    is_held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return permits_ != 0; });
    is_held_ = false;
    if (permits_ > 0) --permits_;
  }

 private:
  void SetPermits(int permits) {
    const std::lock_guard lock(mutex_);
    permits_ = permits;
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards all below, between a test and the engine thread
  std::condition_variable changed_;
  int permits_ = -1;  // -1: open
  int64_t held_ = 0;  // times that the engine was held
  bool is_held_ = false;
};

// 64 pages of 4 tokens, 4 sequences, 16 tokens a step, a vocabulary of 50, a context of 128.
struct EngineSetup {
  EngineOptions options;
  simulation::FakeRuntimeOptions runtime;
  StepObserver* observer = nullptr;

  EngineSetup() {
    options.max_sequences = 4;
    options.max_tokens_per_step = 16;
    runtime.num_pages = 64;
    runtime.tokens_per_page = {4, 4, 4, 4};
  }
};

class EngineHarness {
 public:
  struct Client {
    Request request;
    std::shared_ptr<simulation::RecordingSink> sink;
    absl::StatusOr<RequestId> id;

    FinishReason reason() const {
      EXPECT_TRUE(sink->WaitForFinish());
      return sink->info.reason;
    }
  };

  explicit EngineHarness(EngineSetup setup = {}) {
    now().store(1);
    clock_calls().store(0);
    setup.runtime.on_launch = [this](const StepPlan&) { gate.Pass(); };
    auto runtime = std::make_unique<simulation::FakeRuntime>(setup.runtime);
    runtime_ = runtime.get();
    ModelConfig config;
    config.vocab_size = setup.runtime.vocab_size;
    config.hidden_dim = 2;
    config.max_context = 128;
    config.eos_token_ids = {kEos};
    engine = std::make_unique<Engine>(setup.options, config, std::move(runtime), &Now, setup.observer);
  }
  ~EngineHarness() {
    gate.Open();
    engine->Stop();
    EXPECT_EQ(runtime_->violations(), 0) << runtime_->first_violation();
  }

  static Request Ask(int32_t prompt_len, int32_t max_tokens, TokenId first = 1) {
    Request request;
    for (int32_t i = 0; i < prompt_len; ++i) request.prompt.push_back(1 + (first + i) % 49);
    request.stopping.max_tokens = max_tokens;
    request.stopping.ignore_eos = true;
    return request;
  }
  Client Submit(const Request& request) {
    Client client{request, std::make_shared<simulation::RecordingSink>(256, 256), RequestId{0}};
    client.id = engine->Submit(request, client.sink);
    return client;
  }
  static void ExpectAnswerAsAlone(const Client& client) {
    const simulation::Answer expected = simulation::RunAlone(client.request, {kEos}, {.vocab_size = 50});
    EXPECT_EQ(client.reason(), expected.reason);
    EXPECT_EQ(client.sink->tokens, expected.tokens);
    EXPECT_EQ(client.sink->num_finishes(), 1);
  }
  bool WaitForIdle() const {
    return simulation::RecordingSink::WaitUntil([this] { return engine->stats().idle; });
  }

  static std::atomic<TimeNs>& now() {
    static std::atomic<TimeNs> value{1};
    return value;
  }
  static std::atomic<int64_t>& clock_calls() {
    static std::atomic<int64_t> value{0};
    return value;
  }

  // Engine::kv_pool's: see FakeRuntimeOptions::first_pages.
  void GrowPool(int32_t num_pages) { runtime_->GrowPool(num_pages); }

  StepGate gate;
  std::unique_ptr<Engine> engine;

 private:
  static TimeNs Now() {
    ++clock_calls();
    return now().load();
  }

  simulation::FakeRuntime* runtime_;
};

using EngineClient = EngineHarness::Client;

}  // namespace dunlin::engine
