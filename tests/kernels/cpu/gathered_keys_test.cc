// SPDX-License-Identifier: Apache-2.0
// Sparse attention on the CPU reads the chosen keys alone, and where all are chosen has the bits of attention without a
// choice.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/attention/kv_block.h"
#include "tests/kernels/attention/selection_devices.h"
#include "tests/kernels/attention/sparse_problem.h"

namespace dunlin::kernels {
namespace {

using testing_cpu::PoisonedMemory;

class GatheredKeysTest : public ::testing::TestWithParam<std::string> {
 protected:
  GatheredKeysTest() : device_(OpenSelectionDevice(GetParam(), 2)) {}
  const std::unique_ptr<Device> device_;
};

constexpr int32_t kStoredRows = 300;

void PoisonKey(const SparseProblem& problem, void* pool, int32_t key) {
  const KvLayout& layout = problem.layout;
  const int32_t page = problem.pages[static_cast<size_t>(key / layout.tokens_per_page)];
  std::byte* const block = cpu::KeyBlock(pool, layout, page, kLatentLayer, 0);
  for (int32_t d = 0; d < kLatentDim; ++d) {
    cpu::StoreKvElement(layout, block, cpu::KeyIndex(layout, key % layout.tokens_per_page, d), testing_cpu::kNaN);
  }
}

TEST_P(GatheredKeysTest, KeysThatAreNotChosenAreNotRead) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const AttentionBackend backend : kAutoOrder) {
      SparseProblem problem(kStoredRows, 16, dtype);
      if (!device_->ops->supports_attention(device_->context, backend, problem.traits(), nullptr)) continue;
      const PoisonedMemory pool(*device_, problem.pool_bytes());
      StoreStep(*device_, &problem, pool.data(), 0, kStoredRows, true);
      const SparseRows clean = AttendStep(*device_, problem, pool.data(), kStoredRows - 1, 1, 140, backend);
      int32_t poisoned = 0;
      for (int32_t key = 0; key < kStoredRows; ++key) {
        if (IsSelected(clean, problem.words(), 0, key)) continue;
        PoisonKey(problem, pool.data(), key);
        ++poisoned;
      }
      EXPECT_EQ(poisoned, kStoredRows - 140);
      EXPECT_EQ(AttendStep(*device_, problem, pool.data(), kStoredRows - 1, 1, 140, backend).out, clean.out)
          << Name(dtype) << " " << Name(backend);
    }
  }
}

TEST_P(GatheredKeysTest, OfAllKeysTheBitsAreThoseWithoutAChoice) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const AttentionBackend backend : kAutoOrder) {
      SparseProblem problem(kStoredRows, 16, dtype);
      if (!device_->ops->supports_attention(device_->context, backend, problem.traits(), nullptr)) continue;
      const PoisonedMemory pool(*device_, problem.pool_bytes());
      StoreStep(*device_, &problem, pool.data(), 0, kStoredRows, true);
      const SparseRows chosen = AttendStep(*device_, problem, pool.data(), 0, kStoredRows, kStoredRows, backend);
      const SequenceSpan span{.query_start = 0, .query_len = kStoredRows, .first_position = 0, .page_table_row = 0};
      std::vector<float> all(chosen.out.size(), testing_cpu::kNaN);
      PagedAttentionParams attention = SparseAttention(problem, pool.data(), &span, backend);
      attention.out = all.data();
      ASSERT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kOk);
      EXPECT_EQ(chosen.out, all) << Name(dtype) << " " << Name(backend);
    }
  }
}

TEST_P(GatheredKeysTest, ChoicesThatTheContractDoesNotHaveAreRefused) {
  SparseProblem problem(20, 16, DType::kF32);
  const PoisonedMemory pool(*device_, problem.pool_bytes());
  StoreStep(*device_, &problem, pool.data(), 0, problem.tokens, true);
  const SequenceSpan span{.query_start = 0, .query_len = 20, .first_position = 0, .page_table_row = 0};
  const std::vector<uint32_t> selected(20, 1U);
  std::vector<float> out(size_t{20} * kAttentionHeads * kLatentValue);
  PagedAttentionParams attention = SparseAttention(problem, pool.data(), &span, AttentionBackend::kMath);
  attention.out = out.data();
  attention.selection = {.bits = selected.data(), .stride = 1, .most = 1};
  EXPECT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kOk);
  attention.window = 4;
  EXPECT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kInvalidArgument) << "window";
  attention.window = 0;
  attention.causal = false;
  EXPECT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kInvalidArgument) << "causal";
  attention.causal = true;
  attention.bias.data = out.data();
  EXPECT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kInvalidArgument) << "bias";
  attention.bias = {};
  attention.selection.stride = 0;
  EXPECT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kInvalidArgument) << "stride";
  attention.selection = {.bits = selected.data(), .stride = 1, .most = 0};
  EXPECT_EQ(RunAttention(*device_, problem, attention), KernelStatus::kInvalidArgument) << "most";
}

INSTANTIATE_TEST_SUITE_P(Variants, GatheredKeysTest, ::testing::ValuesIn(SelectionDeviceNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::kernels
