// SPDX-License-Identifier: Apache-2.0
// The CPU's `sample` over many rows: the compute pool's threads share them, and no row's result shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "tests/kernels/sampling/random_logits.h"

namespace dunlin::kernels {
namespace {

constexpr int32_t kVocab = 3001;
constexpr int32_t kRows = 64;

std::unique_ptr<Device> Cpu(int threads) {
  std::string error;
  auto device = OpenDevice(DeviceKind::kCpu, {threads, "portable"}, &error);
  EXPECT_NE(device, nullptr) << error;
  return device;
}

// Rows of every kind: greedy, drawn, truncated, scored, with edits, not finite.
struct Batch {
  std::vector<float> logits;
  std::vector<SampleRow> rows;
  std::vector<uint32_t> words = {5, 2, 9, (1U << 30) + 1, 11, 12};  // two counts, two bans

  Batch() {
    for (int32_t i = 0; i < kRows; ++i) {
      std::vector<float> row = RandomLogits(kVocab, 2.0F, static_cast<uint32_t>(i) + 1);
      if (i % 16 == 15) row[7] = std::numeric_limits<float>::infinity();
      logits.insert(logits.end(), row.begin(), row.end());
      SampleRow& sample = rows.emplace_back();
      sample.seed = static_cast<uint64_t>(i);
      sample.position = i;
      if (i % 8 == 1) sample.temperature = 0.0F;
      if (i % 8 == 2) sample.top_k = 40;
      if (i % 8 == 3) sample.top_p = 0.9F;
      if (i % 8 == 4) sample.min_p = 0.05F;
      if (i % 8 == 5) sample.scored_token = i;
      if (i % 8 >= 5) sample.logprobs = i % 20;
      if (i % 8 == 6) sample.top_k = 1000, sample.top_p = 0.8F;
      if (i % 8 == 7) sample.frequency_penalty = 1.5F, sample.edits = {.num_counts = 2, .num_banned = 2};
    }
  }

  std::vector<SampledToken> Sample(Device* device, int32_t first, int32_t count) const {
    const size_t bytes = device->ops->sample_workspace(device->context, count, kVocab);
    void* workspace = device->ops->allocate(device->context, bytes);
    std::vector<SampledToken> out(static_cast<size_t>(count));
    const SampleParams params{.logits = logits.data() + int64_t{first} * kVocab,
                              .vocab_size = kVocab,
                              .num_rows = count,
                              .rows = rows.data() + first,
                              .words = words.data(),
                              .out = out.data(),
                              .workspace = workspace,
                              .workspace_bytes = bytes};
    EXPECT_EQ(device->ops->sample(device->context, params), KernelStatus::kOk);
    device->ops->release(device->context, workspace, bytes);
    return out;
  }
};

void ExpectSame(const SampledToken& a, const SampledToken& b, int row) {
  ASSERT_EQ(a.valid, b.valid) << row;
  if (!a.valid) return;
  EXPECT_EQ(a.token.token_id, b.token.token_id) << row;
  EXPECT_EQ(std::memcmp(&a.token.logprob, &b.token.logprob, sizeof(float)), 0) << row;
  ASSERT_EQ(a.token.num_top, b.token.num_top) << row;
  const size_t bytes = static_cast<size_t>(a.token.num_top) * sizeof(TopLogprob);
  EXPECT_EQ(std::memcmp(a.token.top.data(), b.token.top.data(), bytes), 0) << row;
}

TEST(SampleRows, HaveTheBitsOfEachRowAloneOnAnyNumberOfThreads) {
  const Batch batch;
  const auto one_thread = Cpu(1);
  for (const int threads : {1, 2, 5, 100}) {
    const auto device = Cpu(threads);
    for (int round = 0; round < 5; ++round) {
      const std::vector<SampledToken> together = batch.Sample(device.get(), 0, kRows);
      for (int32_t i = 0; i < kRows; ++i) {
        ExpectSame(together[static_cast<size_t>(i)], batch.Sample(one_thread.get(), i, 1)[0], i);
      }
    }
  }
}

// One workspace for each thread that may take a row: with one, the rows would have to take turns.
TEST(SampleRows, HaveAWorkspaceForEveryThreadThatTakesOne) {
  const auto one = Cpu(1);
  const auto four = Cpu(4);
  const size_t alone = one->ops->sample_workspace(one->context, kRows, kVocab);
  EXPECT_EQ(one->ops->sample_workspace(one->context, 1, kVocab), alone);
  EXPECT_EQ(four->ops->sample_workspace(four->context, kRows, kVocab), 4 * alone);
  EXPECT_EQ(four->ops->sample_workspace(four->context, 2, kVocab), 2 * alone);
  EXPECT_EQ(four->ops->sample_workspace(four->context, 1, kVocab), alone);
}

}  // namespace
}  // namespace dunlin::kernels
