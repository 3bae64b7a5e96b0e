// SPDX-License-Identifier: Apache-2.0
// A model whose KV pool gets its memory while it serves: a loaded model on the CPU device, whose backing a test holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/models/loader.h"
#include "server/models/repository.h"
#include "server/observe/metrics/server_metrics.h"
#include "tests/simulation/recording_sink.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

// The CPU device, but that it backs a first range at once and further ones when it may.
class HeldBacking {
 public:
  HeldBacking() {
    std::string error;
    cpu_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {1, ""}, &error);
    ops_ = *cpu_->ops;
    ops_.back = &Back;
    device.ops = &ops_;
    device.context = cpu_->context;
    device.description = cpu_->description;
    absl::MutexLock lock(&mutex_);
    calls_ = 0;
    open_ = false;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }

  kernels::Device device;

 private:
  static bool Back(kernels::DeviceContext*, void*, size_t) {
    absl::MutexLock lock(&mutex_);
    if (++calls_ > 1) mutex_.Await(absl::Condition(&open_));
    return true;  // the system gives memory at the first touch, too
  }

  // Of the one object that a test has: a device's operations have no state of their own.
  static absl::Mutex mutex_;
  static int calls_ ABSL_GUARDED_BY(mutex_);
  static bool open_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<kernels::Device> cpu_;
  kernels::DeviceOps ops_;
};
absl::Mutex HeldBacking::mutex_;
int HeldBacking::calls_ = 0;
bool HeldBacking::open_ = false;

// The demo model with 32 MiB of pages, of which 4 MiB are backed first.
ModelSettings Demo(size_t memory_left) {
  ModelSettings settings;
  settings.name = "demo";
  settings.source.path = DUNLIN_SOURCE_DIR "/models/demo";
  settings.source.precisions = {engine::Precision::kBf16};
  settings.engine.kv_memory_bytes = size_t{32} << 20;
  settings.engine.kv_backing.first_bytes = size_t{4} << 20;
  settings.engine.kv_backing.memory_left = [memory_left] { return memory_left; };
  return settings;
}

engine::Request FourTokens() {
  engine::Request request;
  request.prompt = {11, 12, 13, 14};
  request.profile.precision = engine::Precision::kBf16;
  request.stopping.max_tokens = 4;
  request.stopping.ignore_eos = true;
  return request;
}

engine::FinishReason EndOf(const ServedModel& model, const engine::Request& request) {
  const auto sink = std::make_shared<simulation::RecordingSink>(64, 64);
  EXPECT_TRUE(model.engine->Submit(request, sink).ok());
  EXPECT_TRUE(sink->WaitForFinish());
  return sink->info.reason;
}

std::string Backed(int32_t pages) {
  return "dunlin_kv_pages_backed{model_name=\"demo\"} " + std::to_string(pages) + "\n";
}

TEST(GrowingPool, AModelServesBeforeItsPoolHasMemory) {
  HeldBacking backing;
  ServerMetrics metrics;
  ModelRepository repository;
  repository.Subscribe(&metrics);
  const std::atomic<bool> stop{false};
  absl::StatusOr<std::unique_ptr<ServedModel>> loaded = LoadModel(Demo(SIZE_MAX), &backing.device, nullptr, stop);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(repository.Add(*std::move(loaded)).ok());
  {
    const ModelLease model = repository.Lease("demo");
    const engine::EngineStats before = model->engine->stats();
    EXPECT_GT(before.pages_backed, 0);
    EXPECT_LT(before.pages_backed, before.pages_total);
    EXPECT_EQ(before.pages_missing, 0);
    EXPECT_EQ(EndOf(*model, FourTokens()), engine::FinishReason::kLength);
    EXPECT_EQ(model->engine->stats().pages_backed, before.pages_backed);
    EXPECT_THAT(metrics.Render(), HasSubstr(Backed(before.pages_backed)));
    backing.Open();
    EXPECT_TRUE(simulation::RecordingSink::WaitUntil(
        [&] { return model->engine->stats().pages_backed == before.pages_total; }));
    EXPECT_EQ(EndOf(*model, FourTokens()), engine::FinishReason::kLength);
    EXPECT_THAT(metrics.Render(), HasSubstr(Backed(before.pages_total)));
  }
  repository.Unsubscribe(&metrics);
}

TEST(GrowingPool, AModelIsUnloadedWhileItsPoolGetsMemory) {
  HeldBacking backing;
  ModelRepository repository;
  const std::atomic<bool> stop{false};
  absl::StatusOr<std::unique_ptr<ServedModel>> loaded = LoadModel(Demo(SIZE_MAX), &backing.device, nullptr, stop);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(repository.Add(*std::move(loaded)).ok());
  EXPECT_TRUE(repository.Remove("demo"));
  backing.Open();  // the chunk in progress is waited for
  EXPECT_EQ(repository.FreeUnleased(), 1);
}

TEST(GrowingPool, EndsSmallerWhereTheSystemHasNoMoreMemory) {
  HeldBacking backing;
  ServerMetrics metrics;
  ModelRepository repository;
  repository.Subscribe(&metrics);
  const std::atomic<bool> stop{false};
  absl::StatusOr<std::unique_ptr<ServedModel>> loaded = LoadModel(Demo(0), &backing.device, nullptr, stop);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(repository.Add(*std::move(loaded)).ok());
  {
    const ModelLease model = repository.Lease("demo");
    EXPECT_TRUE(simulation::RecordingSink::WaitUntil([&] { return model->engine->stats().pages_missing > 0; }));
    const engine::EngineStats stats = model->engine->stats();
    EXPECT_EQ(stats.pages_backed + stats.pages_missing, stats.pages_total);
    EXPECT_EQ(model->engine->limits().num_pages, stats.pages_backed);
    EXPECT_THAT(metrics.Render(), HasSubstr("dunlin_kv_pages_missing{model_name=\"demo\"} " +
                                            std::to_string(stats.pages_missing) + "\n"));
    EXPECT_EQ(EndOf(*model, FourTokens()), engine::FinishReason::kLength);
  }
  repository.Unsubscribe(&metrics);
}

}  // namespace
}  // namespace dunlin::server
