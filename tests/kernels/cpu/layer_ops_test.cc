// SPDX-License-Identifier: Apache-2.0
// Norm, quantise and activate against FP64, and their part of the bit contract.
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class LayerOps : public CpuVariants {
 protected:
  // The stored row equals `exact` up to float rounding of the operation and the precision's own rounding.
  void ExpectRow(const Activation& out, int64_t row, const std::vector<double>& exact, double float_error) {
    double largest = 0;
    for (const double value : exact) largest = std::fmax(largest, std::fabs(value));
    const auto stored = StoredRow(*device_, out, row);
    for (size_t i = 0; i < exact.size(); ++i) {
      double tolerance = float_error * (std::fabs(exact[i]) + 1e-3 * largest) + 1e-37;
      if (out.precision == Precision::kBf16) tolerance += std::fabs(exact[i]) * 0x1.01p-8;
      if (out.precision == Precision::kFp8) tolerance += std::fabs(exact[i]) * 0x1.01p-4 + largest / 448 * 0x1p-9;
      ASSERT_NEAR(stored[i], exact[i], tolerance) << Name(out.precision) << " row " << row << " column " << i;
    }
  }
};

constexpr int32_t kWidths[] = {1, 2, 3, 15, 16, 17, 64, 255, 768, 1027};

std::vector<double> ExactNorm(const NormParams& p, const float* in, int32_t n) {
  double mean = 0;
  double square = 0;
  if (p.kind == NormKind::kLayerNorm) {
    for (int32_t i = 0; i < n; ++i) mean += in[i] / static_cast<double>(n);
  }
  for (int32_t i = 0; i < n; ++i) square += (in[i] - mean) * (in[i] - mean) / n;
  std::vector<double> out;
  for (int32_t i = 0; i < n; ++i) {
    const double bias = p.bias == nullptr ? 0.0 : static_cast<double>(p.bias[i]);
    out.push_back((in[i] - mean) / std::sqrt(square + static_cast<double>(p.epsilon)) * p.weight[i] + bias);
  }
  return out;
}

TEST_P(LayerOps, NormMatchesFp64) {
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const int32_t width : kWidths) {
      for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
        const auto in = RandomMatrix(7, width, 21);
        const auto weight = RandomMatrix(1, width, 22);
        const auto bias = RandomMatrix(1, width, 23);
        const std::vector<int32_t> rows = {6, 0, 3};
        ActivationTensor out(*device_, traits.precision, 4, width);
        const bool layer_norm = kind == NormKind::kLayerNorm;
        const NormParams params{
            kind, in.data(), rows.data(), weight.data(), layer_norm ? bias.data() : nullptr, 1e-5F, &out.activation, 3};
        ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto exact = ExactNorm(params, in.data() + rows[i] * width, width);
          ExpectRow(out.activation, static_cast<int64_t>(i), exact, 1e-4);
        }
      }
    }
  }
}

// The rows that a norm keeps are its FP32 result whatever the precision, in place too, and the GEMM input is not
// changed by keeping them.
TEST_P(LayerOps, NormKeepsItsRows) {
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const int32_t width : kWidths) {
      const auto in = RandomMatrix(5, width, 24);
      const auto weight = RandomMatrix(1, width, 25);
      const auto bias = RandomMatrix(1, width, 26);
      NormParams params{NormKind::kLayerNorm, in.data(), nullptr, weight.data(), bias.data(), 1e-12F, nullptr, 5};
      ActivationTensor plain(*device_, traits.precision, 5, width);
      params.out = &plain.activation;
      ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);

      std::vector<float> kept(in.begin(), in.end());
      ActivationTensor out(*device_, traits.precision, 5, width);
      params.in = params.rows_out = kept.data();
      params.out = &out.activation;
      ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
      ActivationTensor fp32(*device_, Precision::kFp32, 5, width);
      params.in = in.data();
      params.rows_out = nullptr;
      params.out = &fp32.activation;
      ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
      for (int64_t row = 0; row < 5; ++row) {
        const auto same = StoredRow(*device_, plain.activation, row);
        EXPECT_EQ(StoredRow(*device_, out.activation, row), same) << traits.name << " " << width;
        const auto exact = StoredRow(*device_, fp32.activation, row);
        for (int32_t i = 0; i < width; ++i) {
          ASSERT_EQ(static_cast<double>(kept[static_cast<size_t>(row * width + i)]), exact[static_cast<size_t>(i)]);
        }
      }
    }
  }
}

// Behind the norm, the bits of an addition of its own: in place, beside it, and in the GEMM input.
TEST_P(LayerOps, NormAddsAResidual) {
  constexpr int32_t kRows = 5;
  for (const int32_t width : {1, 8, 513, 1100}) {
    const auto in = RandomMatrix(kRows, width, 27);
    const auto weight = RandomMatrix(1, width, 28);
    const auto residual = RandomMatrix(kRows, width, 29);
    ActivationTensor out(*device_, Precision::kFp32, kRows, width);
    NormParams params{NormKind::kRmsNorm, in.data(), nullptr, weight.data(), nullptr, 1e-6F, &out.activation, kRows};
    std::vector<float> expected(in.size());
    params.rows_out = expected.data();
    ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];

    std::vector<float> beside(in.size());
    params.rows_out = beside.data();
    params.residual = residual.data();
    ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
    EXPECT_EQ(beside, expected) << width;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto stored = StoredRow(*device_, out.activation, row);
      for (int32_t i = 0; i < width; ++i) {
        ASSERT_EQ(stored[static_cast<size_t>(i)], static_cast<double>(expected[static_cast<size_t>(row * width + i)]));
      }
    }
    std::vector<float> in_place(residual.begin(), residual.end());
    params.residual = params.rows_out = in_place.data();
    Activation rows_alone{.columns = width};
    params.out = &rows_alone;
    ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
    EXPECT_EQ(in_place, expected) << width;

    const float factor = 0.7F;
    std::vector<float> scaled(residual.begin(), residual.end());
    params.residual = params.rows_out = scaled.data();
    params.factor = &factor;
    ASSERT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kOk);
    AddParams add{.rows = expected.data(), .bias = nullptr, .residual = nullptr, .num_rows = kRows, .columns = width};
    add.factor = &factor;
    ASSERT_EQ(device_->ops->add(device_->context, add), KernelStatus::kOk);
    EXPECT_EQ(scaled, expected) << width;
    for (size_t i = 0; i < scaled.size(); ++i) ASSERT_EQ(scaled[i], in_place[i] * factor);
    params.residual = nullptr;
    EXPECT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kInvalidArgument);
  }
}

TEST_P(LayerOps, NormRefusesToKeepGatheredRowsInPlace) {
  std::vector<float> rows(8, 1.0F);
  const std::vector<float> weight(4, 1.0F);
  const std::vector<int32_t> ids = {1, 0};
  ActivationTensor out(*device_, Precision::kFp32, 2, 4);
  NormParams params{NormKind::kRmsNorm, rows.data(), ids.data(), weight.data(), nullptr, 1e-5F, &out.activation, 2};
  params.rows_out = rows.data();
  EXPECT_EQ(device_->ops->norm(device_->context, params), KernelStatus::kInvalidArgument);
}

double Exact(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kGeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kRelu:
      return x > 0 ? x : 0;
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kReluSquared:
      return x > 0 ? x * x : 0;
    case ActivationKind::kClampedSwish:
      return std::fmin(x, 7) / (1 + std::exp(-1.702 * std::fmin(x, 7)));
  }
  return 0;
}
double ExactFactor(ActivationKind kind, double up) {
  return kind == ActivationKind::kClampedSwish ? std::fmin(std::fmax(up, -7), 7) + 1 : up;
}

constexpr ActivationKind kKinds[] = {ActivationKind::kGeluTanh,    ActivationKind::kGeluErf,
                                     ActivationKind::kRelu,        ActivationKind::kSilu,
                                     ActivationKind::kReluSquared, ActivationKind::kClampedSwish};

TEST_P(LayerOps, ActivateMatchesFp64) {
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const int32_t width : kWidths) {
      for (const ActivationKind kind : kKinds) {
        for (const bool gated : {false, true}) {
          const int32_t in_width = gated ? 2 * width : width;
          auto in = RandomMatrix(3, in_width, 31);
          for (float& value : in) value *= 3.0F;
          ActivationTensor out(*device_, traits.precision, 3, width);
          ASSERT_EQ(device_->ops->activate(device_->context, {kind, gated, in.data(), &out.activation, 3}),
                    KernelStatus::kOk);
          for (int64_t row = 0; row < 3; ++row) {
            std::vector<double> exact;
            for (int32_t i = 0; i < width; ++i) {
              const float* x = in.data() + row * in_width + i;
              exact.push_back(Exact(kind, *x) * (gated ? ExactFactor(kind, x[width]) : 1.0));
            }
            ExpectRow(out.activation, row, exact, 3e-5);
          }
        }
      }
    }
  }
}

TEST_P(LayerOps, ActivateCutsBothFactorsAtALimit) {
  constexpr int32_t kWidth = 37;
  auto in = RandomMatrix(3, 2 * kWidth, 33);
  for (float& value : in) value *= 3.0F;
  in[5] = kNaN;
  in[kWidth + 6] = kNaN;
  for (const PrecisionTraits& traits : kPrecisionTable) {
    ActivationTensor out(*device_, traits.precision, 3, kWidth);
    std::vector<float> kept(size_t{3} * kWidth);
    const ActivateParams params{ActivationKind::kSilu, true, in.data(), &out.activation, 3, kept.data(), 0.75F};
    ASSERT_EQ(device_->ops->activate(device_->context, params), KernelStatus::kOk);
    int cut = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      const float* x = in.data() + i / kWidth * 2 * kWidth + i % kWidth;
      if (std::isnan(*x) || std::isnan(x[kWidth])) {
        EXPECT_TRUE(std::isnan(kept[i])) << i;
        continue;
      }
      const double value = Exact(ActivationKind::kSilu, static_cast<double>(*x));
      cut += value > 0.75 ? 1 : 0;
      ASSERT_NEAR(kept[i], std::min(value, 0.75) * std::clamp<double>(x[kWidth], -0.75, 0.75), 1e-6) << i;
    }
    EXPECT_GT(cut, 0);
  }
}

TEST_P(LayerOps, ActivateIsAccurateOverTheWholeRange) {
  std::vector<float> in;
  for (float x = -60.0F; x <= 60.0F; x += 0.01F) in.push_back(x);
  const auto n = static_cast<int64_t>(in.size());
  std::vector<float> out(in.size());
  for (const ActivationKind kind : kKinds) {
    cpu::ContextOf(device_->context).kernels.activate(kind, in.data(), nullptr, n, out.data());
    for (size_t i = 0; i < in.size(); ++i) {
      const double exact = Exact(kind, static_cast<double>(in[i]));
      // exp of a large argument costs its rounding: relative error grows with x * x where the value is tiny anyway.
      ASSERT_NEAR(out[i], exact, std::fabs(exact) * 1e-5 + 1e-9) << static_cast<int>(kind) << " at " << in[i];
      if (std::fabs(in[i]) < 4.0F) {
        ASSERT_NEAR(out[i], exact, std::fabs(exact) * 2e-6 + 1e-12) << static_cast<int>(kind) << " at " << in[i];
      }
    }
  }
}

TEST_P(LayerOps, ActivateKeepsNanAndTheLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> in = {kNaN, infinity, 1e30F, -200.0F, 0.0F};
  std::vector<float> out(in.size());
  for (const ActivationKind kind : kKinds) {
    cpu::ContextOf(device_->context)
        .kernels.activate(kind, in.data(), nullptr, static_cast<int64_t>(in.size()), out.data());
    EXPECT_TRUE(std::isnan(out[0]));
    const bool clamps = kind == ActivationKind::kClampedSwish;
    const bool squares = kind == ActivationKind::kReluSquared;
    for (const size_t i : {1, 2}) {
      const float exact = squares ? infinity : clamps ? static_cast<float>(Exact(kind, 1e30)) : in[i];
      EXPECT_FLOAT_EQ(out[i], exact);
    }
    EXPECT_EQ(out[3], 0.0F);
    EXPECT_EQ(out[4], 0.0F);
  }
}

TEST_P(LayerOps, QuantizeRoundsAsTheScalarFunctions) {
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const int32_t width : kWidths) {
      const int64_t stride = width + 5;
      auto in = RandomMatrix(4, stride, 41);
      std::fill_n(in.begin() + stride, width, 0.0F);  // a zero row
      ActivationTensor out(*device_, traits.precision, 4, width);
      ASSERT_EQ(device_->ops->quantize(device_->context, {in.data(), stride, &out.activation, 4}), KernelStatus::kOk);
      for (int64_t row = 0; row < 4; ++row) {
        const auto expected = RoundedRow(traits.precision, in.data() + row * stride, width, false);
        ASSERT_EQ(StoredRow(*device_, out.activation, row), expected)
            << traits.name << " width " << width << " row " << row;
      }
    }
  }
}

// Runs an operation on `rows` rows and returns each stored row.
using RowsOf = std::vector<std::vector<double>>;
TEST_P(LayerOps, ARowIsTheSameForEveryNumberOfRowsAndThreads) {
  constexpr int32_t kRows = 70;
  constexpr int32_t kWidth = 515;
  const auto in = RandomMatrix(kRows, 2 * kWidth, 51);
  const auto weight = RandomMatrix(1, kWidth, 52);
  const auto other = Open(GetParam(), 5);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto run = [&](Device& device, int operation, int32_t first, int32_t rows) {
      ActivationTensor out(device, traits.precision, rows, kWidth);
      const float* norm_in = in.data() + first * kWidth;
      const float* gated_in = in.data() + first * 2 * kWidth;
      const NormParams norm{NormKind::kLayerNorm, norm_in, nullptr, weight.data(), nullptr, 1e-5F,
                            &out.activation,      rows};
      const ActivateParams activate{ActivationKind::kSilu, true, gated_in, &out.activation, rows};
      const KernelStatus status =
          operation == 0 ? device.ops->norm(device.context, norm) : device.ops->activate(device.context, activate);
      EXPECT_EQ(status, KernelStatus::kOk);
      RowsOf stored;
      for (int32_t row = 0; row < rows; ++row) stored.push_back(StoredRow(device, out.activation, row));
      return stored;
    };
    for (const int operation : {0, 1}) {
      const RowsOf all = run(*device_, operation, 0, kRows);
      ASSERT_EQ(run(*other, operation, 0, kRows), all);
      for (const int32_t row : {0, 1, 33, 69}) {
        ASSERT_EQ(run(*device_, operation, row, 1).front(), all[static_cast<size_t>(row)]) << traits.name;
      }
    }
  }
}

TEST_P(LayerOps, CopyRowsTakesEachRowFromItsPlace) {
  constexpr int32_t kRows = 700;  // several tasks
  const auto in = RandomMatrix(9, 50, 68);
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < kRows; ++i) rows.push_back(i * 5 % 9);
  std::vector<float> out(size_t{kRows} * 47, kNaN);
  ASSERT_EQ(device_->ops->copy_rows(device_->context, {in.data(), 50, rows.data(), out.data(), kRows, 47}),
            KernelStatus::kOk);
  for (size_t i = 0; i < size_t{kRows}; ++i) {
    const size_t from = static_cast<size_t>(rows[i]) * 50;
    for (size_t k = 0; k < 47; ++k) ASSERT_EQ(out[i * 47 + k], in[from + k]) << i << ", " << k;
  }
}

TEST_P(LayerOps, ColumnsAreCopiedBlockByBlock) {
  const auto in = RandomMatrix(3, 20, 38);
  std::vector<float> out(3 * 30, -1.0F);
  CopyColumnsParams params{.in = in.data() + 2,
                           .in_stride = 20,
                           .in_block_stride = 6,
                           .out = out.data() + 1,
                           .out_stride = 30,
                           .out_block_stride = 11,
                           .num_rows = 3,
                           .num_blocks = 2,
                           .columns = 5};
  ASSERT_EQ(device_->ops->copy_columns(device_->context, params), KernelStatus::kOk);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 30; ++column) {
      const bool first = column >= 1 && column < 6;
      const bool second = column >= 12 && column < 17;
      const float expected = first ? in[row * 20 + 2 + column - 1] : second ? in[row * 20 + 8 + column - 12] : -1.0F;
      EXPECT_EQ(out[row * 30 + column], expected) << row << " " << column;
    }
  }
  params.out_block_stride = 4;  // blocks of 5 would overlap
  EXPECT_EQ(device_->ops->copy_columns(device_->context, params), KernelStatus::kInvalidArgument);
  params.out_block_stride = 26;
  EXPECT_EQ(device_->ops->copy_columns(device_->context, params), KernelStatus::kInvalidArgument) << "rows overlap";
}

TEST_P(LayerOps, RefuseBrokenParametersAndAcceptNoRows) {
  ActivationTensor out(*device_, Precision::kBf16, 2, 8);
  const std::vector<float> in(64);
  const DeviceOps& ops = *device_->ops;
  DeviceContext* context = device_->context;
  EXPECT_EQ(ops.quantize(context, {in.data(), 8, &out.activation, 0}), KernelStatus::kOk);
  EXPECT_EQ(ops.quantize(context, {in.data(), 8, &out.activation, 3}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.quantize(context, {in.data(), 7, &out.activation, 2}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.quantize(context, {nullptr, 8, &out.activation, 2}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.quantize(context, {in.data(), 8, nullptr, 2}), KernelStatus::kInvalidArgument);
  for (const float limit : {-1.0F, kNaN, 1.0F}) {
    const bool gated = limit != 1.0F;
    EXPECT_EQ(ops.activate(context, {ActivationKind::kSilu, gated, in.data(), &out.activation, 0, nullptr, limit}),
              KernelStatus::kInvalidArgument);
  }
  EXPECT_EQ(ops.activate(context, {ActivationKind::kClampedSwish, true, in.data(), &out.activation, 0, nullptr, 1.0F}),
            KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.activate(context, {ActivationKind::kRelu, false, in.data(), &out.activation, -1}),
            KernelStatus::kInvalidArgument);
  std::vector<float> copy(8);
  const int32_t first = 0;
  EXPECT_EQ(ops.copy_rows(context, {in.data(), 8, nullptr, nullptr, 0, 8}), KernelStatus::kOk);
  EXPECT_EQ(ops.copy_rows(context, {in.data(), 7, &first, copy.data(), 1, 8}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.copy_rows(context, {in.data(), 8, nullptr, copy.data(), 1, 8}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.copy_rows(context, {in.data(), 8, &first, copy.data(), -1, 8}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.norm(context, {NormKind::kRmsNorm, in.data(), nullptr, nullptr, nullptr, 1e-5F, &out.activation, 1}),
            KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(LayerOps);

}  // namespace
}  // namespace dunlin::kernels
