// SPDX-License-Identifier: Apache-2.0
// Attention that ends in the next product's input: the bytes of attention followed by quantize.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {
namespace {

constexpr int32_t kSpareRows = 2;

// Rows of a GEMM input in a device's memory, all bytes 0xFF at first.
class Rows {
 public:
  Rows(Device& device, Precision precision, int32_t num_rows, int32_t columns)
      : memory_(device.ops->activation_bytes(precision, num_rows + kSpareRows, columns)),
        activation_{.data = memory_.data(),
                    .precision = precision,
                    .capacity_rows = num_rows + kSpareRows,
                    .columns = columns} {}

  Activation* activation() { return &activation_; }
  bool HasBytesOf(const Rows& other) const {
    return memory_.size() == other.memory_.size() &&
           std::memcmp(memory_.data(), other.memory_.data(), memory_.size()) == 0 && memory_.Intact();
  }

 private:
  PoisonedMemory memory_;
  Activation activation_;
};

class PagedFusionTest : public ::testing::TestWithParam<std::string> {
 protected:
  static KernelStatus Run(Device& device, const PagedBatch& batch, AttentionBackend backend, float* out,
                          Activation* next) {
    PoisonedMemory workspace(device.ops->paged_attention_workspace(device.context, backend, batch.Plan()));
    PagedAttentionParams params = batch.Params(backend, out);
    params.workspace = workspace.data();
    params.workspace_bytes = workspace.size();
    params.next = next;
    return device.ops->paged_attention(device.context, params);
  }

  static bool Fuses(Device& device, const PagedBatch& batch, Activation* next) {
    PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, nullptr);
    params.next = next;
    return device.ops->attention_fuses(device.context, params);
  }
};

// 3 heads of 2 are 6 columns, which are padded to 8.
constexpr HeadShape kShapes[] = {{4, 2, 64}, {3, 3, 2}, {6, 1, 96}, {8, 8, 128}};

TEST_P(PagedFusionTest, HasTheBytesOfTheTwoOperations) {
  Device& device = CpuDevice(GetParam(), 3);
  int fused = 0;
  for (const HeadShape& shape : kShapes) {
    for (const DType dtype : kKvDTypes) {
      PagedBatch batch(dtype, shape, {{1, 0, 37}, {2, 150, 1}, {3, 16, 130}, {4, 0, 0}, {5, 511, 2}});
      const int32_t columns = shape.num_heads * shape.head_dim;
      const auto num_rows = static_cast<int32_t>(batch.out_floats() / static_cast<size_t>(columns));
      for (const AttentionBackend backend : kBackends) {
        std::vector<float> out(batch.out_floats());
        ASSERT_EQ(Run(device, batch, backend, out.data(), nullptr), KernelStatus::kOk);
        for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
          SCOPED_TRACE(Describe(backend, dtype, GetParam()) + " " + Name(precision));
          Rows apart(device, precision, num_rows, columns);
          Rows together(device, precision, num_rows, columns);
          ASSERT_EQ(device.ops->quantize(device.context, {out.data(), columns, apart.activation(), num_rows}),
                    KernelStatus::kOk);
          const bool fuses = Fuses(device, batch, together.activation());
          EXPECT_TRUE(fuses || precision == Precision::kBf16);
          ASSERT_EQ(Run(device, batch, backend, nullptr, together.activation()),
                    fuses ? KernelStatus::kOk : KernelStatus::kUnsupported);
          EXPECT_EQ(together.HasBytesOf(apart), fuses);
          fused += fuses ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(fused, 0);
}

TEST_P(PagedFusionTest, RefusesAnInputThatItCannotFill) {
  Device& device = CpuDevice(GetParam(), 1);
  const PagedBatch batch(DType::kF32, {2, 1, 16}, {{1, 0, 5}, {2, 20, 3}});
  std::vector<float> out(batch.out_floats());
  const auto status = [&](auto&& change) {
    Rows rows(device, Precision::kFp32, 8, 32);
    change(*rows.activation());
    return Run(device, batch, AttentionBackend::kFlash, nullptr, rows.activation());
  };
  float amax = 0.0F;
  EXPECT_EQ(status([](Activation&) {}), KernelStatus::kOk);
  EXPECT_EQ(status([](Activation& next) { next.columns = 48; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](Activation& next) { next.data = nullptr; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](Activation& next) { next.capacity_rows = 7; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](Activation& next) { next.precision = Precision::kFp8; }), KernelStatus::kUnsupported);
  EXPECT_EQ(status([&](Activation& next) { next.amax = &amax; }), KernelStatus::kUnsupported);
  Rows rows(device, Precision::kFp32, 8, 32);
  EXPECT_EQ(Run(device, batch, AttentionBackend::kFlash, out.data(), rows.activation()),
            KernelStatus::kInvalidArgument);
  EXPECT_EQ(Run(device, batch, AttentionBackend::kFlash, nullptr, nullptr), KernelStatus::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(EveryVariant, PagedFusionTest, ::testing::ValuesIn(AvailableCpuVariants()),
                         [](const auto& variant) { return variant.param; });

}  // namespace
}  // namespace dunlin::kernels::testing
