// SPDX-License-Identifier: Apache-2.0
// Row operations in a kernel that begins before the preceding one has ended: what that one writes is NaN until the lane
// waits for it, and the bytes are those of a kernel that begins after it.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kEarlyColumns = 72;
constexpr int64_t kEarlyRows = 3;

// The preceding kernel ends when the lane waits.
struct WaitingLane : SingleLane {
  const std::function<void()>* preceding_ends;
  void WaitForPreceding() const { (*preceding_ends)(); }
};

// What the preceding kernel writes.
struct Written {
  explicit Written(int64_t count, uint32_t seed) : values(RandomValues(count, seed)), memory(values) {}
  void Begin() { std::ranges::fill(memory, std::numeric_limits<float>::quiet_NaN()); }
  void End() { memory = values; }
  std::vector<float> values;
  std::vector<float> memory;
};

std::vector<unsigned char> MatrixBytesOf(const HostMatrix& matrix) {
  const MatrixView& view = matrix.view();
  return {view.data, view.data + MatrixBytes(view.precision, view.rows, view.columns, view.scale_block)};
}

// make(): the source, whose pointers are to the memories.
template <Precision kPrecision, typename Make>
void CheckEarly(const std::vector<Written*>& inputs, const Make& make) {
  const std::function<void()> ends = [&inputs] {
    for (Written* input : inputs) input->End();
  };
  const auto run = [&](const HostMatrix& out, std::vector<float>* rows_out, auto&& write) {
    RowTarget target{};
    target.out = out.view();
    target.rows_out = rows_out->data();
    target.amax_limit = std::numeric_limits<float>::infinity();
    for (int64_t row = 0; row < kEarlyRows; ++row) write(make(), target, row);
  };
  const HostMatrix expected(kPrecision, kEarlyRows, kEarlyColumns);
  std::vector<float> expected_rows(kEarlyRows * kEarlyColumns);
  run(expected, &expected_rows, [](const auto& source, const RowTarget& target, int64_t row) {
    WriteRow<kPrecision>(SingleLane(), source, target, row);
  });
  for (const bool plain : {false, true}) {
    const HostMatrix out(kPrecision, kEarlyRows, kEarlyColumns);
    std::vector<float> rows(expected_rows.size());
    run(out, &rows, [&](const auto& source, const RowTarget& target, int64_t row) {
      for (Written* input : inputs) input->Begin();
      WaitingLane lane;
      lane.preceding_ends = &ends;
      if (plain) {
        WritePlainRowEarly(lane, source, target, row);
      } else {
        WriteRowEarly<kPrecision>(lane, source, target, row);
      }
    });
    EXPECT_EQ(rows, expected_rows);
    if (plain) continue;
    EXPECT_EQ(MatrixBytesOf(out), MatrixBytesOf(expected));
  }
}

TEST(EarlyRows, ReadOnlyConstantsBeforeThePrecedingKernelEnds) {
  Written in(kEarlyRows * 2 * kEarlyColumns, 1);
  Written residual(kEarlyRows * kEarlyColumns, 2);
  const std::vector<float> weight = RandomValues(kEarlyColumns, 3);
  const std::vector<float> bias = RandomValues(kEarlyColumns, 4);
  for (const NormKind kind : {NormKind::kRmsNorm, NormKind::kLayerNorm}) {
    const auto norm = [&] {
      return NormSource{.kind = kind,
                        .in = in.memory.data(),
                        .rows = nullptr,
                        .weight = weight.data(),
                        .bias = bias.data(),
                        .residual = residual.memory.data(),
                        .epsilon = 1e-5F,
                        .columns = kEarlyColumns,
                        .vector = false};
    };
    CheckEarly<Precision::kBf16>({&in, &residual}, norm);
    CheckEarly<Precision::kFp8>({&in, &residual}, norm);
  }
  const auto activate = [&] {
    return ActivateSource{ActivationKind::kSilu, true, in.memory.data(), kEarlyColumns, false};
  };
  CheckEarly<Precision::kFp8>({&in}, activate);
  const auto copy = [&] { return CopySource{in.memory.data(), kEarlyColumns, kEarlyColumns, false}; };
  CheckEarly<Precision::kFp16>({&in}, copy);
}

// Without the wait the test above would see it.
TEST(EarlyRows, ARowThatDoesNotWaitIsNan) {
  Written in(kEarlyRows * kEarlyColumns, 1);
  in.Begin();
  std::vector<float> rows(kEarlyRows * kEarlyColumns);
  RowTarget target{};
  target.out = {nullptr, Precision::kFp32, kEarlyRows, kEarlyColumns};
  target.rows_out = rows.data();
  const std::function<void()> nothing = [] {};
  WaitingLane lane;
  lane.preceding_ends = &nothing;
  WritePlainRowEarly(lane, CopySource{in.memory.data(), kEarlyColumns, kEarlyColumns, false}, target, 0);
  EXPECT_NE(rows[0], in.values[0]);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
