// SPDX-License-Identifier: Apache-2.0
// The device's row algorithms on the host, with one lane and with several concurrent ones, against the CPU device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/api/device.h"
#include "kernels/cuda/ops/row_target.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/cuda/ops/host_matrix.h"
#include "tests/kernels/cuda/portable_cpu.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr float kUnlimited = std::numeric_limits<float>::infinity();
constexpr int32_t kOpRows = 3;

template <typename Source, typename Lanes>
void Write(const Lanes& lanes, const Source& source, const RowTarget& target, int64_t row) {
  switch (target.out.precision) {
    case Precision::kFp32:
      return WriteRow<Precision::kFp32>(lanes, source, target, row);
    case Precision::kBf16:
      return WriteRow<Precision::kBf16>(lanes, source, target, row);
    case Precision::kFp16:
      return WriteRow<Precision::kFp16>(lanes, source, target, row);
    case Precision::kFp8:
      return WriteRow<Precision::kFp8>(lanes, source, target, row);
    default:  // no matrix has another
      return;
  }
}

// Row by row, as the kernels' blocks do. lanes 0: the single lane.
template <typename Source>
void RunRows(const Source& source, const RowTarget& target, int32_t lanes, int32_t rows = kOpRows) {
  for (int32_t row = 0; row < rows; ++row) {
    if (lanes == 0) {
      Write(SingleLane(), source, target, row);
    } else {
      RunLanes(lanes, [&](const ThreadLanes& each) { Write(each, source, target, row); });
    }
  }
}

RowTarget TargetOf(const HostMatrix& out, float* rows_out = nullptr) {
  RowTarget target{};
  target.out = out.view();
  target.rows_out = rows_out;
  target.amax_limit = kUnlimited;
  target.scaling = InputScaling::kPerRow;
  return target;
}

// What a precision keeps of the values, by the scalar conversions.
float Rounded(Precision precision, float value, float scale) {
  switch (precision) {
    case Precision::kFp32:
      return value;
    case Precision::kBf16:
      return Bf16ToFloat(FloatToBf16(value));
    case Precision::kFp16:
      return Fp16ToFloat(FloatToFp16(value));
    case Precision::kFp8:
      return E4M3ToFloat(FloatToE4M3(value * (1.0F / scale))) * scale;
    default:  // no matrix has another
      break;
  }
  return 0.0F;
}

float LargestOf(const float* values, int64_t count) {
  float largest = 0.0F;
  for (int64_t i = 0; i < count; ++i) largest = std::fmax(largest, std::fabs(values[i]));
  return largest;
}

// Expects `expected`, rounded, in `out`, with one scale per row in FP8, and zeros in the padding.
void ExpectRows(const HostMatrix& out, const std::vector<float>& expected, float tolerance) {
  const MatrixView& view = out.view();
  for (int64_t row = 0; row < kOpRows; ++row) {
    const float* values = expected.data() + row * view.columns;
    const float scale = LargestOf(values, view.columns) / kE4M3Max;
    for (int64_t k = 0; k < view.columns; ++k) {
      // One step of the format where the value is within the tolerance of a tie.
      const float step = view.precision == Precision::kFp8    ? std::fmax(std::fabs(values[k]) / 8, scale / 64)
                         : view.precision == Precision::kBf16 ? std::fabs(values[k]) / 128
                         : view.precision == Precision::kFp16 ? std::fmax(std::fabs(values[k]) / 1024, 0x1p-24F)
                                                              : 0.0F;
      const float exact = Rounded(view.precision, values[k], scale);
      ASSERT_NEAR(out.At(row, k), exact, (tolerance > 0 ? step : 0.0F) + tolerance * (1 + std::fabs(values[k])))
          << Name(view.precision) << " row " << row << " column " << k;
    }
    for (int64_t k = view.columns; k < PaddedDepth(view.columns); ++k) ASSERT_EQ(out.At(row, k), 0.0F);
  }
}

TEST(RowOps, QuantizeRoundsEveryPrecisionExactly) {
  for (const Precision precision : kAllPrecisions) {
    for (const int64_t columns : {1, 7, 16, 100, 1028}) {
      for (const int32_t lanes : {0, 3}) {
        const std::vector<float> in = RandomValues(kOpRows * columns, 1);
        HostMatrix out(precision, kOpRows, columns);
        const CopySource source{in.data(), columns, columns, columns % 4 == 0};
        RunRows(source, TargetOf(out), lanes);
        ExpectRows(out, in, 0.0F);
      }
    }
  }
}

TEST(RowOps, NormsMatchTheCpus) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const int32_t columns : {5, 64, 772}) {
      for (const int32_t lanes : {0, 4}) {
        const std::vector<float> in = RandomValues(5 * columns, 2);
        const std::vector<float> weight = RandomValues(columns, 3);
        const std::vector<float> bias = RandomValues(columns, 4);
        const int32_t rows[kOpRows] = {4, 0, 2};
        std::vector<float> expected(static_cast<size_t>(kOpRows * columns));
        Activation width{.columns = columns};
        ASSERT_EQ(Cpu().ops->norm(Cpu().context, {kind, in.data(), rows, weight.data(), bias.data(), 1e-5F, &width,
                                                  kOpRows, expected.data()}),
                  KernelStatus::kOk);
        const NormSource source{kind,    in.data(), rows,    weight.data(),   bias.data(),
                                nullptr, 1e-5F,     columns, columns % 4 == 0};
        for (const Precision precision : kAllPrecisions) {
          HostMatrix out(precision, kOpRows, columns);
          std::vector<float> plain(expected.size());
          RunRows(source, TargetOf(out, plain.data()), lanes);
          ExpectRows(out, expected, 2e-6F);
          for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(plain[i], expected[i], 2e-5F);
        }
      }
    }
  }
}

TEST(RowOps, NormMayWriteItsOwnInput) {
  constexpr int32_t kColumns = 36;
  const std::vector<float> in = RandomValues(kOpRows * kColumns, 5);
  const std::vector<float> weight(kColumns, 1.0F);
  std::vector<float> apart(in.size());
  std::vector<float> in_place = in;
  HostMatrix out(Precision::kFp8, kOpRows, kColumns);
  const auto source = [&](const float* rows) {
    return NormSource{NormKind::kLayerNorm, rows, nullptr, weight.data(), nullptr, nullptr, 1e-5F, kColumns, true};
  };
  RunRows(source(in.data()), TargetOf(out, apart.data()), 4);
  RunRows(source(in_place.data()), TargetOf(out, in_place.data()), 4);
  EXPECT_EQ(apart, in_place);
  in_place = in;
  RowTarget plain = TargetOf(out, in_place.data());
  for (int32_t row = 0; row < kOpRows; ++row) {
    RunLanes(4, [&](const ThreadLanes& lanes) { WritePlainRow(lanes, source(in_place.data()), plain, row); });
  }
  EXPECT_EQ(apart, in_place);
}

// After the norm, four columns at a time and one at a time, into a GEMM input and onto the residual itself.
TEST(RowOps, ANormAddsItsResidual) {
  for (const int64_t columns : {35, 36}) {
    const std::vector<float> in = RandomValues(kOpRows * columns, 5);
    const std::vector<float> weight = RandomValues(columns, 3);
    const std::vector<float> residual = RandomValues(kOpRows * columns, 8);
    NormSource source{NormKind::kRmsNorm, in.data(), nullptr, weight.data(), nullptr, nullptr, 1e-5F, columns,
                      columns % 4 == 0};
    HostMatrix out(Precision::kBf16, kOpRows, columns);
    std::vector<float> expected(in.size());
    RunRows(source, TargetOf(out, expected.data()), 4);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];
    std::vector<float> in_place = residual;
    source.residual = in_place.data();
    RunRows(source, TargetOf(out, in_place.data()), 4);
    EXPECT_EQ(in_place, expected);
    ExpectRows(out, expected, 0.0F);
    const float factor = 0.37F;  // of the sum
    source.factor = &factor;
    for (float& value : expected) value *= factor;
    in_place = residual;
    RunRows(source, TargetOf(out, in_place.data()), 4);
    EXPECT_EQ(in_place, expected);
    ExpectRows(out, expected, 0.0F);
  }
}

// Several parts' lanes raise one number concurrently.
TEST(RowOps, ConcurrentAmaxUpdatesAreNotLost) {
  constexpr uint32_t kSteps = 20000;
  float amax = 0.0F;
  RunLanes(4, [&](const ThreadLanes& lanes) {
    const auto lane = static_cast<uint32_t>(lanes.index());
    for (uint32_t step = 0; step < kSteps; ++step) {
      RaiseAmax(&amax, 4 * step + lane);
      // It never decreases.
      EXPECT_GE(__atomic_load_n(reinterpret_cast<uint32_t*>(&amax), __ATOMIC_RELAXED), 4 * step + lane);
    }
  });
  EXPECT_EQ(FloatBits(amax), 4 * kSteps - 1);
}

TEST(RowOps, ActivationsMatchTheCpus) {
  for (const ActivationKind kind :
       {ActivationKind::kGeluTanh, ActivationKind::kGeluErf, ActivationKind::kRelu, ActivationKind::kSilu,
        ActivationKind::kReluSquared, ActivationKind::kClampedSwish}) {
    for (const bool gated : {false, true}) {
      for (const int32_t columns : {9, 128}) {
        const std::vector<float> in = RandomValues(kOpRows * columns * (gated ? 2 : 1), 6);
        std::vector<float> expected(static_cast<size_t>(kOpRows * columns));
        Activation width{.columns = columns};
        ASSERT_EQ(Cpu().ops->activate(Cpu().context, {kind, gated, in.data(), &width, kOpRows, expected.data()}),
                  KernelStatus::kOk);
        for (const Precision precision : kAllPrecisions) {
          HostMatrix out(precision, kOpRows, columns);
          RunRows(ActivateSource{kind, gated, in.data(), columns, columns % 4 == 0}, TargetOf(out), 3);
          ExpectRows(out, expected, 1e-6F);
        }
      }
    }
  }
}

TEST(RowOps, LimitsOfGatesMatchTheCpus) {
  for (const int32_t columns : {9, 128}) {
    std::vector<float> in = RandomValues(kOpRows * columns * 2, 8);
    for (float& value : in) value *= 3.0F;
    std::vector<float> expected(static_cast<size_t>(kOpRows * columns));
    Activation width{.columns = columns};
    ASSERT_EQ(Cpu().ops->activate(Cpu().context,
                                  {ActivationKind::kSilu, true, in.data(), &width, kOpRows, expected.data(), 0.75F}),
              KernelStatus::kOk);
    for (const Precision precision : kAllPrecisions) {
      HostMatrix out(precision, kOpRows, columns);
      RunRows(ActivateSource{ActivationKind::kSilu, true, in.data(), columns, columns % 4 == 0, 0.75F}, TargetOf(out),
              3);
      ExpectRows(out, expected, 1e-6F);
    }
  }
}

TEST(RowOps, XieluMatchesTheCpus) {
  const float curve[] = {0.7F, 0.4F, 0.5F, -1e-6F};
  const std::vector<float> in = RandomValues(kOpRows * 128, 9);
  std::vector<float> expected(in.size());
  Activation width{.columns = 128};
  ASSERT_EQ(Cpu().ops->activate(Cpu().context, {ActivationKind::kSilu, false, in.data(), &width, kOpRows,
                                                expected.data(), 0.0F, false, curve}),
            KernelStatus::kOk);
  HostMatrix out(Precision::kFp32, kOpRows, 128);
  RunRows(ActivateSource{ActivationKind::kSilu, false, in.data(), 128, true, 0.0F, curve}, TargetOf(out), 3);
  ExpectRows(out, expected, 2e-6F);
}

// The scales of the CPU device under the same recipe, for the values that its activation holds.
TEST(RowOps, SharedScalesAndAmaxesMatchTheCpus) {
  constexpr int32_t kColumns = 40;
  std::vector<float> in = RandomValues(kOpRows * kColumns, 7);
  for (const float extra : {0.0F, kUnlimited, std::numeric_limits<float>::quiet_NaN()}) {
    if (extra != 0.0F) in[50] = extra;
    for (const InputScaling scaling : {InputScaling::kPerRow, InputScaling::kGiven, InputScaling::kCurrent}) {
      std::vector<unsigned char> memory(Cpu().ops->activation_bytes(Precision::kFp8, kOpRows, kColumns) + 64);
      const auto at = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
      float cpu_scale = 0.25F;
      float cpu_amax = 0.125F;
      Activation activation{reinterpret_cast<void*>(at), Precision::kFp8, kOpRows, kColumns};
      activation.scaling = scaling;
      activation.shared_scale = &cpu_scale;
      activation.amax = &cpu_amax;
      ASSERT_EQ(Cpu().ops->quantize(Cpu().context, {in.data(), kColumns, &activation, kOpRows}), KernelStatus::kOk);

      HostMatrix out(Precision::kFp8, kOpRows, kColumns);
      float scale = 0.25F;
      float amax = 0.125F;
      uint32_t current = 0;
      RowTarget target = TargetOf(out);
      target.scaling = scaling;
      target.shared_scale = &scale;
      target.amax = &amax;
      target.current = &current;
      const CopySource source{in.data(), kColumns, kColumns, true};
      if (scaling == InputScaling::kCurrent) {
        for (int32_t row = 0; row < kOpRows; ++row) {
          RunLanes(4, [&](const ThreadLanes& lanes) { MeasureRow(lanes, source, target, row); });
        }
      }
      RunRows(source, target, 4);
      EXPECT_EQ(scale, cpu_scale) << static_cast<int>(scaling) << " extra " << extra;
      EXPECT_EQ(FloatBits(amax) & 0x7FC00000U, FloatBits(cpu_amax) & 0x7FC00000U) << static_cast<int>(scaling);
      if (scaling == InputScaling::kPerRow) continue;
      for (int32_t row = 0; row < kOpRows; ++row) EXPECT_EQ(out.view().scales()[row], cpu_scale);
    }
  }
}

TEST(RowOps, AmaxLimitBoundsAScaleAndTheCodesSaturate) {
  constexpr int32_t kColumns = 32;
  std::vector<float> in(kOpRows * kColumns, 1.0F);
  in[3] = 1000.0F;
  HostMatrix out(Precision::kFp8, kOpRows, kColumns);
  RowTarget target = TargetOf(out);
  target.amax_limit = 2.0F;
  RunRows(CopySource{in.data(), kColumns, kColumns, true}, target, 2);
  EXPECT_EQ(out.view().scales()[0], 2.0F / kE4M3Max);
  EXPECT_EQ(out.At(0, 3), 2.0F);
  EXPECT_EQ(out.view().scales()[1], 1.0F / kE4M3Max);
}

// One scale per 128 columns, of those columns only: with one lane, and with lanes that take blocks in turn.
TEST(RowOps, BlocksOf128ColumnsHaveTheirOwnScales) {
  for (const int64_t columns : {1, 128, 300, 516}) {
    std::vector<float> in = RandomValues(kOpRows * columns, 10);
    for (size_t i = 0; i < in.size(); ++i) in[i] *= static_cast<float>(1 + i % 7);
    in[0] = 5000.0F;  // above the limit: it saturates and does not widen the scale
    for (const int32_t lanes : {0, 3, 8}) {
      HostMatrix out(Precision::kFp8, kOpRows, columns, kScaleBlock);
      std::vector<float> plain(in.size());
      RowTarget target = TargetOf(out, plain.data());
      target.amax_limit = 100.0F;
      RunRows(CopySource{in.data(), columns, columns, columns % 4 == 0}, target, lanes);
      EXPECT_EQ(plain, in);
      for (int64_t row = 0; row < kOpRows; ++row) {
        for (int64_t begin = 0; begin < columns; begin += kScaleBlock) {
          const float* values = in.data() + row * columns + begin;
          const int64_t count = std::min<int64_t>(kScaleBlock, columns - begin);
          const Fp8Scale scale = ScaleOfRow(FloatBits(std::fmin(LargestOf(values, count), 100.0F)));
          ASSERT_EQ(out.view().scale(row, begin), scale.scale) << row << ", " << begin;
          for (int64_t k = 0; k < count; ++k) {
            const float code = E4M3ToFloat(FloatToE4M3(values[k] * scale.factor));
            ASSERT_EQ(out.At(row, begin + k), code * scale.scale) << row << ", " << begin + k;
          }
        }
        for (int64_t k = columns; k < PaddedDepth(columns); ++k) ASSERT_EQ(out.view().row(row)[k], 0);
      }
    }
  }
}

// Of rows 0 to 4 of 6 floats, 8 apart.
TEST(RowOps, RowsAreCopiedInAGivenOrderAndBatchAfterBatch) {
  std::vector<float> in(40);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const SingleLane lane;
  const int32_t order[] = {4, 0, 4};
  const CopySource picked{.in = in.data(), .in_stride = 8, .columns = 6, .vector = false, .rows = order};
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(picked.Begin(lane, i).One(1), static_cast<float>(order[i] * 8 + 1));
  // Two batches of two rows: columns from 0 and from 3 on.
  const CopySource batches{
      .in = in.data(), .in_stride = 8, .columns = 3, .vector = false, .batch_rows = 2, .batch_stride = 3};
  const float expected[] = {2.0F, 10.0F, 5.0F, 13.0F};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(batches.Begin(lane, i).One(2), expected[i]);
}

TEST(ElementOps, SoftcapAddCopyAndRotaryTableMatchTheCpus) {
  constexpr int32_t kColumns = 24;
  const std::vector<float> in = RandomValues(kOpRows * kColumns, 8);
  const std::vector<float> bias = RandomValues(kColumns, 9);
  std::vector<float> expected = in;
  std::vector<float> values = in;
  ASSERT_EQ(Cpu().ops->softcap(Cpu().context, {expected.data(), 2.5F, kOpRows, kColumns}), KernelStatus::kOk);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(Softcapped(2.5F, values[i]), expected[i], 1e-6F);

  const float factor = 0.37F;
  for (const float* by : {static_cast<const float*>(nullptr), &factor}) {
    expected = values = in;
    AddParams add{expected.data(), bias.data(), in.data(), kOpRows, kColumns, by};
    ASSERT_EQ(Cpu().ops->add(Cpu().context, add), KernelStatus::kOk);
    add.rows = values.data();
    for (int64_t row = 0; row < kOpRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) AddAt(add, row, column);
    }
    EXPECT_EQ(values, expected);
  }

  const int32_t picked[kOpRows] = {2, 0, 2};
  CopyRowsParams copy{in.data(), kColumns, picked, expected.data(), kOpRows, kColumns - 5};
  ASSERT_EQ(Cpu().ops->copy_rows(Cpu().context, copy), KernelStatus::kOk);
  copy.out = values.data();
  for (int64_t row = 0; row < kOpRows; ++row) {
    for (int64_t column = 0; column < copy.columns; ++column) CopyAt(copy, row, column);
  }
  EXPECT_EQ(values, expected);

  const int32_t positions[kOpRows] = {0, 77, 131071};
  const std::vector<float> inv_freq = {1.0F, 0.31F, 1e-4F};
  std::vector<float> table(kOpRows * 6);
  std::vector<float> cpu_table(table.size());
  RotaryTableParams rotary{positions, inv_freq.data(), 1.25F, 6, cpu_table.data(), kOpRows};
  ASSERT_EQ(Cpu().ops->rotary_table(Cpu().context, rotary), KernelStatus::kOk);
  rotary.cos_sin = table.data();
  for (int32_t token = 0; token < kOpRows; ++token) {
    for (int32_t i = 0; i < 3; ++i) RotaryAt(rotary, token, i);
  }
  EXPECT_EQ(table, cpu_table);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
