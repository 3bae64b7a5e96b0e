// SPDX-License-Identifier: Apache-2.0
// Attention that ends in the output projection's input: the bytes of FP32 rows followed by quantize, of every row that
// takes them, with and without parts.
#include "kernels/cuda/attention/rounded_outputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cuda/attention/kernel.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/paged_batch.h"
#include "tests/kernels/cuda/attention/host_attention.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::HeadShape;
using testing::PagedBatch;

constexpr DeviceShape kGeneralDevice{108, 163 * 1024, 80};
constexpr DeviceShape kRoundingDevice{132, 227 * 1024, 90};

Activation RoundedRowsOf(const HostMatrix& next) {
  Activation activation{.data = next.view().data, .precision = next.view().precision};
  activation.capacity_rows = static_cast<int32_t>(next.view().rows);
  activation.columns = static_cast<int32_t>(next.view().columns);
  return activation;
}

void CheckRounded(DType dtype, Precision precision, const HeadShape& shape, AttentionBackend backend) {
  SCOPED_TRACE(std::string(Name(backend)) + " " + Name(dtype) + " of " + std::to_string(shape.head_dim));
  const PagedBatch batch(dtype, shape, {{1, 0, 37}, {2, 150, 1}, {3, 1030, 1}, {4, 511, 2}}, 1, testing::kCudaPages);
  const int64_t columns = int64_t{shape.num_heads} * shape.head_dim;
  const int64_t rows = static_cast<int64_t>(batch.out_floats()) / columns;
  std::vector<float> out(batch.out_floats(), NAN);
  testing::RunPagedOnHost(batch.Params(backend, out.data()), batch.Plan(), kRoundingDevice);
  const HostMatrix apart(precision, rows, columns);
  FillWith(apart, out);
  const HostMatrix together(precision, rows, columns);
  Activation next = RoundedRowsOf(together);
  PagedAttentionParams params = batch.Params(backend, nullptr);
  params.next = &next;
  ASSERT_TRUE(RoundsOutputsOn(kRoundingDevice, params));
  testing::RunPagedOnHost(params, batch.Plan(), kRoundingDevice);
  EXPECT_EQ(std::memcmp(together.view().data, apart.view().data,
                        static_cast<size_t>(MatrixBytes(precision, rows, columns, 0))),
            0);
}

TEST(RoundedOutputs, HaveTheBytesOfRowsThatAreQuantised) {
  for (const AttentionBackend backend : testing::kBackends) {
    CheckRounded(DType::kBF16, Precision::kBf16, {4, 2, 64}, backend);
    CheckRounded(DType::kF16, Precision::kFp16, {2, 2, 128}, backend);
    CheckRounded(DType::kBF16, Precision::kFp16, {6, 1, 96}, backend);
    CheckRounded(DType::kF8E4M3, Precision::kBf16, {4, 2, 128}, backend);
  }
}

TEST(RoundedOutputs, AreThoseOfKernelsThatNeedNoTotalsInThem) {
  const auto rounds = [](const DeviceShape& device, AttentionBackend backend, DType dtype, int32_t head_dim,
                         auto&& change) {
    const PagedBatch batch(dtype, {4, 2, head_dim}, {{1, 0, 5}}, 1, testing::kCudaPages);
    const HostMatrix rows(Precision::kBf16, 5, 4 * int64_t{head_dim});
    Activation next = RoundedRowsOf(rows);
    change(&next);
    PagedAttentionParams params = batch.Params(backend, nullptr);
    params.next = &next;
    return RoundsOutputsOn(device, params);
  };
  const auto nothing = [](Activation*) {};
  EXPECT_TRUE(rounds(kRoundingDevice, AttentionBackend::kFlash, DType::kBF16, 128, nothing));
  EXPECT_TRUE(rounds(kGeneralDevice, AttentionBackend::kEfficient, DType::kBF16, 256, nothing));
  EXPECT_TRUE(rounds(kGeneralDevice, AttentionBackend::kMath, DType::kF8E4M3, 64, nothing));
  EXPECT_FALSE(rounds(kGeneralDevice, AttentionBackend::kFlash, DType::kBF16, 128, nothing));
  EXPECT_TRUE(rounds(kRoundingDevice, AttentionBackend::kFlash, DType::kF8E4M3, 128, nothing));
  EXPECT_FALSE(rounds(kGeneralDevice, AttentionBackend::kFlash, DType::kF8E4M3, 128, nothing));
  EXPECT_TRUE(rounds(kRoundingDevice, AttentionBackend::kFlash, DType::kF8E4M3, 512, nothing));
  EXPECT_FALSE(rounds(kGeneralDevice, AttentionBackend::kFlash, DType::kF8E4M3, 512, nothing));
  float amax = 0.0F;
  const auto with_amax = [&amax](Activation* next) { next->amax = &amax; };
  EXPECT_FALSE(rounds(kRoundingDevice, AttentionBackend::kFlash, DType::kBF16, 128, with_amax));
  const auto fp8 = [](Activation* next) { next->precision = Precision::kFp8; };
  EXPECT_FALSE(rounds(kRoundingDevice, AttentionBackend::kFlash, DType::kBF16, 128, fp8));
  EXPECT_FALSE(rounds(kRoundingDevice, AttentionBackend::kFlash, DType::kBF16, 2, nothing)) << "padding columns";
}

}  // namespace
}  // namespace dunlin::kernels::cuda
