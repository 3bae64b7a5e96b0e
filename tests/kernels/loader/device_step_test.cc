// SPDX-License-Identifier: Apache-2.0
// What a step needs from a device besides the layers: sampling, events, pinned memory, memory counters and the scales
// of the recipe `delayed`. Through the table only, as device_ops_test.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/kernels/loader/device_fixture.h"

namespace dunlin::kernels {
namespace {

class DeviceStepTest : public DeviceTest {};

TEST_P(DeviceStepTest, SampledTokensMatchTheCpus) {
  constexpr int32_t kRows = 24;
  for (const int32_t vocab_size : {50, 5003}) {
    const std::vector<float> logits = Random(int64_t{kRows} * vocab_size, 13);
    const std::vector<uint32_t> words = {7, 0x40A00000, 3, 2,
                                         5};  // token 7 gets +5, token 3 occurred twice, 5 is banned
    std::vector<SampleRow> rows(kRows);
    for (int32_t i = 0; i < kRows; ++i) {
      SampleRow& row = rows[static_cast<size_t>(i)];
      row.temperature = i % 5 == 0 ? 0.0F : 0.4F;
      row.top_k = i % 2 == 0 ? 20 : 0;
      row.top_p = i % 3 == 0 ? 0.8F : 1.0F;
      row.min_p = i % 4 == 0 ? 0.01F : 0.0F;
      row.frequency_penalty = 0.5F;
      row.logprobs = i % 7 - 1;
      row.seed = static_cast<uint64_t>(i);
      row.position = i;
      row.scored_token = i == 11 ? 9 : -1;
      if (row.scored_token >= 0) row.logprobs = 20;
      if (i % 3 == 1) row.edits = {.first_word = 0, .num_biases = 1, .num_counts = 1, .num_banned = 1};
    }
    std::vector<SampledToken> results[2];
    for (Device* device : {cpu_.get(), device_.get()}) {
      const size_t bytes = device->ops->sample_workspace(device->context, kRows, vocab_size);
      const Array<float> device_logits(*device, logits);
      const Array<SampleRow> device_rows(*device, rows);
      const Array<uint32_t> device_words(*device, words);
      const Array<SampledToken> out(*device, std::vector<SampledToken>(kRows));
      const Array<unsigned char> workspace(*device, std::vector<unsigned char>(bytes, 0xFF));
      const SampleParams params{.logits = device_logits.data(),
                                .vocab_size = vocab_size,
                                .num_rows = kRows,
                                .rows = device_rows.data(),
                                .words = device_words.data(),
                                .out = out.data(),
                                .workspace = workspace.data(),
                                .workspace_bytes = bytes};
      ASSERT_EQ(device->ops->sample(device->context, params), KernelStatus::kOk);
      results[device == device_.get() ? 1 : 0] = out.Read();
    }
    for (size_t i = 0; i < kRows; ++i) {
      const TokenOutput& token = results[1][i].token;
      const TokenOutput& expected = results[0][i].token;
      EXPECT_TRUE(results[1][i].valid);
      EXPECT_EQ(token.token_id, expected.token_id) << "row " << i;
      ASSERT_EQ(token.num_top, expected.num_top);
      if (rows[i].logprobs >= 0) {
        EXPECT_NEAR(token.logprob, expected.logprob, 1e-5);
      }
      for (size_t top = 0; top < static_cast<size_t>(token.num_top); ++top) {
        EXPECT_EQ(token.top[top].token_id, expected.top[top].token_id);
        EXPECT_NEAR(token.top[top].logprob, expected.top[top].logprob, 1e-5);
      }
    }
  }
}

TEST_P(DeviceStepTest, DrawnTokensTakeThePlaceOfIdsThatWereNotKnown) {
  std::vector<SampledToken> drawn(5);
  for (size_t i = 0; i < drawn.size(); ++i) {
    drawn[i].token.token_id = 700 + static_cast<int32_t>(i);
    drawn[i].valid = i != 3;
  }
  std::vector<int32_t> rows(3000, -1);
  std::vector<int32_t> ids(rows.size());
  std::vector<int32_t> expected(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ids[i] = expected[i] = static_cast<int32_t>(i);
    if (i % 3 == 0) continue;
    rows[i] = static_cast<int32_t>(i % 5);
    expected[i] = rows[i] == 3 ? 0 : 700 + rows[i];
  }
  const Array<SampledToken> device_drawn(*device_, drawn);
  const Array<int32_t> device_rows(*device_, rows);
  const Array<int32_t> device_ids(*device_, ids);
  TakeDrawnParams params{device_drawn.data(), device_rows.data(), device_ids.data(), 0};
  const DeviceOps& ops = *device_->ops;
  ASSERT_EQ(ops.take_drawn(device_->context, params), KernelStatus::kOk);
  EXPECT_EQ(device_ids.Read(), ids);
  params.num_tokens = static_cast<int32_t>(ids.size());
  ASSERT_EQ(ops.take_drawn(device_->context, params), KernelStatus::kOk);
  EXPECT_EQ(device_ids.Read(), expected);
  EXPECT_EQ(cpu_->ops->take_drawn(cpu_->context, {drawn.data(), nullptr, ids.data(), 1}),
            KernelStatus::kInvalidArgument);
}

TEST_P(DeviceStepTest, WaitingForAnEventCompletesTheCopiesBeforeIt) {
  constexpr size_t kCount = 100000;
  constexpr size_t kBytes = kCount * sizeof(int32_t);
  const DeviceOps& ops = *device_->ops;
  auto* pinned = static_cast<int32_t*>(ops.allocate_host(device_->context, 2 * kBytes));
  DeviceEvent* event = ops.create_event(device_->context);
  ASSERT_NE(pinned, nullptr);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(ops.wait_event(device_->context, event), KernelStatus::kOk) << "nothing is marked yet";
  const Array<int32_t> on_device(*device_, std::vector<int32_t>(kCount, -1));
  for (int32_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kCount; ++i) pinned[i] = static_cast<int32_t>(i) * (round + 1);
    EXPECT_EQ(ops.copy_to_device(device_->context, on_device.data(), pinned, kBytes), KernelStatus::kOk);
    EXPECT_EQ(ops.copy_to_host(device_->context, pinned + kCount, on_device.data(), kBytes), KernelStatus::kOk);
    EXPECT_EQ(ops.record_event(device_->context, event), KernelStatus::kOk);
    EXPECT_EQ(ops.wait_event(device_->context, event), KernelStatus::kOk);
    EXPECT_EQ(std::memcmp(pinned, pinned + kCount, kBytes), 0) << "round " << round;
  }
  ops.destroy_event(device_->context, event);
  ops.release_host(device_->context, pinned, 2 * kBytes);
}

TEST_P(DeviceStepTest, AGraphRunsItsOperationsOnWhatMemoryHoldsThen) {
  const DeviceOps& ops = *device_->ops;
  ASSERT_TRUE(ops.supports_graphs(device_->context));
  const Array<float> sums(*device_, {1.0F, 2.0F, 3.0F, 4.0F});
  const Array<float> bias(*device_, {10.0F, 20.0F});
  const Array<float> copy(*device_, std::vector<float>(4));
  const Array<float> other(*device_, {5.0F, 6.0F});
  const Array<int32_t> rows(*device_, {1, 0});
  const auto add_and_copy = [&] {
    const AddParams add{sums.data(), bias.data(), nullptr, 2, 2};
    const CopyRowsParams copies{
        .in = sums.data(), .in_stride = 2, .rows = rows.data(), .out = copy.data(), .num_rows = 2, .columns = 2};
    EXPECT_EQ(ops.add(device_->context, add), KernelStatus::kOk);
    EXPECT_EQ(ops.copy_rows(device_->context, copies), KernelStatus::kOk);
  };
  add_and_copy();
  ASSERT_TRUE(ops.begin_graph(device_->context));
  add_and_copy();
  // Another thread's operations run; it cannot record.
  std::thread([&] {
    EXPECT_FALSE(ops.begin_graph(device_->context));
    const AddParams add{other.data(), bias.data(), nullptr, 1, 2};
    EXPECT_EQ(ops.add(device_->context, add), KernelStatus::kOk);
  }).join();
  DeviceGraph* graph = ops.end_graph(device_->context);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(sums.Read(), (std::vector<float>{11.0F, 22.0F, 13.0F, 24.0F})) << "recording runs nothing";
  EXPECT_EQ(other.Read(), (std::vector<float>{15.0F, 26.0F}));

  EXPECT_EQ(ops.launch_graph(device_->context, graph), KernelStatus::kOk);
  EXPECT_EQ(sums.Read(), (std::vector<float>{21.0F, 42.0F, 23.0F, 44.0F}));
  EXPECT_EQ(copy.Read(), (std::vector<float>{23.0F, 44.0F, 21.0F, 42.0F}));
  const std::vector<float> new_bias = {1.0F, 2.0F};
  EXPECT_EQ(ops.copy_to_device(device_->context, bias.data(), new_bias.data(), 2 * sizeof(float)), KernelStatus::kOk);
  for (int launch = 0; launch < 2; ++launch) {
    EXPECT_EQ(ops.launch_graph(device_->context, graph), KernelStatus::kOk);
  }
  ops.destroy_graph(device_->context, graph);
  EXPECT_EQ(copy.Read(), (std::vector<float>{25.0F, 48.0F, 23.0F, 46.0F}));
  EXPECT_EQ(other.Read(), (std::vector<float>{15.0F, 26.0F}));
}

// A copy from memory that is not pinned has to wait for the device.
TEST_P(DeviceStepTest, WhatAGraphCannotContainEndsItsRecordingAlone) {
  const DeviceOps& ops = *device_->ops;
  const Array<float> values(*device_, {1.0F, 2.0F});
  const std::vector<float> others = {3.0F, 4.0F};
  ASSERT_TRUE(ops.begin_graph(device_->context));
  (void)ops.copy_to_device(device_->context, values.data(), others.data(), 2 * sizeof(float));
  EXPECT_EQ(ops.end_graph(device_->context), nullptr);
  EXPECT_EQ(ops.copy_to_device(device_->context, values.data(), others.data(), 2 * sizeof(float)), KernelStatus::kOk);
  EXPECT_EQ(values.Read(), others);
  ASSERT_TRUE(ops.begin_graph(device_->context));
  DeviceGraph* empty = ops.end_graph(device_->context);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(ops.launch_graph(device_->context, empty), KernelStatus::kOk);
  ops.destroy_graph(device_->context, empty);
}

TEST_P(DeviceStepTest, MemoryIsCounted) {
  const DeviceOps& ops = *device_->ops;
  const DeviceMemory before = ops.memory(device_->context);
  void* memory = ops.allocate(device_->context, 5000);
  const DeviceMemory held = ops.memory(device_->context);
  ops.release(device_->context, memory, 5000);
  const DeviceMemory after = ops.memory(device_->context);
  EXPECT_EQ(held.bytes_held, before.bytes_held + 5000);
  EXPECT_GE(held.bytes_peak, held.bytes_held);
  EXPECT_EQ(held.allocations, before.allocations + 1);
  EXPECT_EQ(after.bytes_held, before.bytes_held);
  EXPECT_EQ(after.bytes_peak, held.bytes_peak);
}

TEST_P(DeviceStepTest, DelayedScalingMatchesTheCpus) {
  const std::vector<float> history = {56.0F, 0.0F, 2.0F, 1.0F, 3.0F, 900.0F};  // two rows of three inputs
  std::vector<float> results[2];
  for (Device* device : {cpu_.get(), device_.get()}) {
    const Array<float> rows(*device, history);
    const Array<float> factors(*device, {1.0F, 1.0F, 1.0F});
    const Array<float> scales(*device, {1.0F, 1.0F, 1.0F});
    const DelayedScalingParams params{rows.data(), factors.data(), scales.data(), 3, 2, true, 448.0F};
    ASSERT_EQ(device->ops->update_delayed_scaling(device->context, params), KernelStatus::kOk);
    std::vector<float>& result = results[device == device_.get() ? 1 : 0];
    for (const Array<float>* array : {&rows, &factors, &scales}) {
      const std::vector<float> values = array->Read();
      result.insert(result.end(), values.begin(), values.end());
    }
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[0][6], 8.0F);
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceStepTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceStepTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
