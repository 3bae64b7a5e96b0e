// SPDX-License-Identifier: Apache-2.0
// Products that end in pages: the bytes of the product followed by rotate_and_store_kv.
#include <cstring>

#include "kernels/api/kv_layout.h"
#include "kernels/api/layer_ops.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;

struct Case {
  DType kv_dtype;
  int32_t head_dim;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t rotary_dim;  // 0 for none
  int32_t rows;
  int32_t first_slot;  // of the first token: odd ones complete a pair of an earlier step
  bool norms;
};

// 300 and 513 rows are blocks of 152 and 176 that begin and end inside pairs where the first slot is odd.
constexpr Case kCases[] = {
    {DType::kBF16, 64, 3, 3, 0, 300, 0, false},    {DType::kBF16, 64, 4, 2, 64, 513, 7, false},
    {DType::kBF16, 128, 4, 1, 128, 129, 1, true},  {DType::kBF16, 32, 5, 5, 16, 70, 3, false},
    {DType::kF16, 64, 2, 2, 64, 300, 5, true},     {DType::kF32, 96, 4, 2, 0, 65, 1, false},
    {DType::kF8E4M3, 64, 6, 2, 64, 300, 9, false}, {DType::kBF16, 64, 3, 3, 0, 5, 1, false},
};

class GemmHeads : public CpuVariants {
 protected:
  static constexpr int32_t kDepth = 70;

  // What a step leaves behind: all of `qkv` and of the pages.
  struct Step {
    std::vector<float> qkv;
    std::vector<std::byte> pages;
  };

  Step Run(Device& device, const Case& c, Precision precision, bool fused) {
    const KvLayout layout =
        MakeKvLayout(c.kv_dtype, {.num_layers = 2, .num_kv_heads = c.num_kv_heads, .head_dim = c.head_dim});
    const int32_t columns = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim;
    const auto bias = RandomMatrix(1, columns, 1);
    const auto weight = Pack(device, precision, RandomMatrix(columns, kDepth, 2), columns, kDepth);
    const auto in = Quantized(device, precision, RandomMatrix(c.rows, kDepth, 3), c.rows, kDepth);
    const auto cos_sin = RandomMatrix(c.rows, std::max(c.rotary_dim, 1), 4);
    const auto norm = RandomMatrix(1, c.head_dim, 5);
    const int32_t num_pages = (c.first_slot + c.rows) / layout.tokens_per_page + 1;
    std::vector<int32_t> page;
    std::vector<int32_t> slot;
    for (int32_t t = 0; t < c.rows; ++t) {
      page.push_back(num_pages - 1 - (c.first_slot + t) / layout.tokens_per_page);
      slot.push_back((c.first_slot + t) % layout.tokens_per_page);
    }
    const PoisonedMemory pool(device, static_cast<size_t>(num_pages) * layout.page_bytes);
    std::vector<float> qkv(static_cast<size_t>(c.rows) * static_cast<size_t>(columns), kNaN);
    const RotateAndStoreKvParams heads{.qkv = qkv.data(),
                                       .cos_sin = c.rotary_dim > 0 ? cos_sin.data() : nullptr,
                                       .rotary_dim = c.rotary_dim,
                                       .num_heads = c.num_heads,
                                       .kv_pool = pool.data(),
                                       .layout = layout,
                                       .layer = 1,
                                       .token_page = page.data(),
                                       .token_slot = slot.data(),
                                       .num_tokens = c.rows,
                                       .query_norm = c.norms ? norm.data() : nullptr,
                                       .key_norm = c.norms ? norm.data() : nullptr,
                                       .norm_epsilon = 1e-5F};
    GemmParams params{};
    params.in = &in->activation;
    params.weight = &weight->weight;
    params.bias = bias.data();
    params.out = qkv.data();
    params.out_stride = columns;
    params.num_rows = c.rows;
    params.heads = fused ? &heads : nullptr;
    if (fused) {
      EXPECT_TRUE(device.ops->gemm_fuses(device.context, params));
    }
    EXPECT_EQ(device.ops->gemm(device.context, params), KernelStatus::kOk);
    if (!fused) {
      EXPECT_EQ(device.ops->rotate_and_store_kv(device.context, heads), KernelStatus::kOk);
    }
    const auto* bytes = static_cast<const std::byte*>(pool.data());
    return {qkv, {bytes, bytes + pool.bytes()}};
  }
};

TEST_P(GemmHeads, HaveTheBytesOfTheTwoOperations) {
  const auto many_threads = Open(GetParam(), 5);
  for (const Case& c : kCases) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
      SCOPED_TRACE(std::to_string(&c - kCases) + " " + std::to_string(static_cast<int>(precision)));
      const Step apart = Run(*device_, c, precision, false);
      for (Device* device : {device_.get(), many_threads.get()}) {
        const Step fused = Run(*device, c, precision, true);
        ASSERT_EQ(fused.pages.size(), apart.pages.size());
        EXPECT_EQ(std::memcmp(fused.pages.data(), apart.pages.data(), apart.pages.size()), 0);
        const size_t columns = fused.qkv.size() / static_cast<size_t>(c.rows);
        const size_t query_bytes = static_cast<size_t>(c.num_heads * c.head_dim) * sizeof(float);
        for (size_t row = 0; row < static_cast<size_t>(c.rows); ++row) {
          ASSERT_EQ(std::memcmp(&fused.qkv[row * columns], &apart.qkv[row * columns], query_bytes), 0) << row;
        }
      }
    }
  }
}

TEST_P(GemmHeads, RefusesHeadsThatItCannotStore) {
  const KvLayout layout = MakeKvLayout(DType::kBF16, {.num_layers = 1, .num_kv_heads = 1, .head_dim = 16});
  const auto weight = Pack(*device_, Precision::kBf16, RandomMatrix(48, 8, 1), 48, 8);
  const ActivationTensor in(*device_, Precision::kBf16, 2, 8);
  const PoisonedMemory pool(*device_, layout.page_bytes);
  std::vector<float> out(2 * 48);
  const int32_t page[2] = {0, 0};
  const int32_t slot[2] = {0, 1};
  RotateAndStoreKvParams good_heads{};
  good_heads.qkv = out.data();
  good_heads.num_heads = 1;
  good_heads.kv_pool = pool.data();
  good_heads.layout = layout;
  good_heads.token_page = page;
  good_heads.token_slot = slot;
  good_heads.num_tokens = 2;
  const auto status = [&](auto&& change) {
    RotateAndStoreKvParams heads = good_heads;
    GemmParams params{};
    params.in = &in.activation;
    params.weight = &weight->weight;
    params.out = out.data();
    params.out_stride = 48;
    params.num_rows = 2;
    params.heads = &heads;
    change(params, heads);
    return device_->ops->gemm(device_->context, params);
  };
  const int32_t bad_slot[2] = {0, 16};
  ActivationTensor next(*device_, Precision::kBf16, 2, 48);
  EXPECT_EQ(status([](GemmParams&, RotateAndStoreKvParams&) {}), KernelStatus::kOk);
  EXPECT_EQ(status([&](GemmParams& p, auto&) { p.residual = out.data(); }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams& p, auto&) { p.next = &next.activation; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](GemmParams& p, auto&) { p.num_rows = 1; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](GemmParams& p, auto&) { p.out_stride = 64; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](GemmParams&, auto& h) { h.qkv = nullptr; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams&, auto& h) { h.token_slot = bad_slot; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([](GemmParams&, auto& h) { h.num_heads = 2; }), KernelStatus::kUnsupported);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(GemmHeads);

}  // namespace
}  // namespace dunlin::kernels
