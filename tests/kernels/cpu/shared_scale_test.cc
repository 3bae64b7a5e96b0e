// SPDX-License-Identifier: Apache-2.0
// FP8 inputs whose rows share one scale, the largest magnitude that the operations report, and the unfused forms.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/shared/fp8_scale.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

constexpr float kUnlimited = std::numeric_limits<float>::infinity();
constexpr float kFloatMax = std::numeric_limits<float>::max();

class SharedScale : public CpuVariants {
 protected:
  // Quantises rows [rows, columns] into `out`.
  void Quantize(const std::vector<float>& in, const Activation& out, int32_t rows) {
    Activation copy = out;
    const QuantizeParams params{in.data(), out.columns, &copy, rows};
    ASSERT_EQ(device_->ops->quantize(device_->context, params), KernelStatus::kOk);
  }

  // Every stored value is the scalar function's, bit for bit; NaN stays NaN.
  void ExpectRows(const std::vector<float>& in, const Activation& out, int32_t rows, float scale, float factor) {
    for (int32_t row = 0; row < rows; ++row) {
      const auto stored = StoredRow(*device_, out, row);
      for (int32_t i = 0; i < out.columns; ++i) {
        const float value = in[static_cast<size_t>(row) * static_cast<size_t>(out.columns) + static_cast<size_t>(i)];
        const double expected = static_cast<double>(E4M3ToFloat(FloatToE4M3(value * factor))) * scale;
        const double got = stored[static_cast<size_t>(i)];
        ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
            << value << " with scale " << scale << ": " << got << ", expected " << expected;
      }
    }
  }
};

std::vector<float> EveryBf16Value() {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 1U << 16; ++bits) values.push_back(Bf16ToFloat(static_cast<uint16_t>(bits)));
  return values;
}

constexpr float kScales[] = {1.0F, 0x1p-5F, 0.0123F, 3.7F, 1e-20F, 1e20F, 1.0F / kFloatMax};

TEST_P(SharedScale, EveryCodeComesBackThroughAPowerOfTwo) {
  for (float scale : {1.0F, 0x1p-9F, 0x1p+30F}) {
    std::vector<float> in;
    for (int code = 0; code < 256; ++code) in.push_back(E4M3ToFloat(static_cast<uint8_t>(code)) * scale);
    ActivationTensor out(*device_, Precision::kFp8, 1, 256);
    out.activation.scaling = InputScaling::kGiven;
    out.activation.shared_scale = &scale;
    Quantize(in, out.activation, 1);
    const auto stored = StoredRow(*device_, out.activation, 0);
    for (size_t code = 0; code < 256; ++code) {
      const double got = stored[code];
      ASSERT_TRUE(got == in[code] || (std::isnan(got) && std::isnan(in[code]))) << "code " << code;
    }
  }
}

TEST_P(SharedScale, EveryBf16ValueRoundsAsTheScalarFunction) {
  const auto in = EveryBf16Value();
  constexpr int32_t kColumns = 1024;
  constexpr int32_t kRows = (1 << 16) / kColumns;
  for (float scale : kScales) {
    ActivationTensor out(*device_, Precision::kFp8, kRows, kColumns);
    out.activation.scaling = InputScaling::kGiven;
    out.activation.shared_scale = &scale;
    Quantize(in, out.activation, kRows);
    ExpectRows(in, out.activation, kRows, scale, std::fmin(1.0F / scale, kFloatMax));
  }
}

TEST_P(SharedScale, SaturatesAndKeepsNanAndZero) {
  float scale = 2.0F;
  ActivationTensor out(*device_, Precision::kFp8, 1, 7);
  out.activation.scaling = InputScaling::kGiven;
  out.activation.shared_scale = &scale;
  Quantize({897.0F, -1e30F, kUnlimited, -kUnlimited, kNaN, 0.0F, -0.0F}, out.activation, 1);
  const auto stored = StoredRow(*device_, out.activation, 0);
  const std::vector<double> expected = {896, -896, 896, -896};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(stored[i], expected[i]) << i;
  EXPECT_TRUE(std::isnan(stored[4]));
  EXPECT_EQ(stored[5], 0.0);
  EXPECT_EQ(stored[6], 0.0);
}

TEST_P(SharedScale, CurrentScalingTakesTheLargestOfAllRows) {
  constexpr int32_t kRows = 300;
  constexpr int32_t kColumns = 131;
  auto in = RandomMatrix(kRows, kColumns, 7);
  in[static_cast<size_t>(kColumns) * 217 + 5] = -19.25F;
  ActivationTensor out(*device_, Precision::kFp8, kRows, kColumns);
  float scale = kNaN;
  float amax = 1.0F;
  out.activation.scaling = InputScaling::kCurrent;
  out.activation.shared_scale = &scale;
  out.activation.amax = &amax;
  Quantize(in, out.activation, kRows);
  EXPECT_EQ(scale, 1.0F / (kE4M3Max / 19.25F));
  EXPECT_EQ(amax, 19.25F);
  ExpectRows(in, out.activation, kRows, scale, 1.0F / scale);
}

TEST(Fp8Scale, FactorFromAmaxKeepsToOneAndTheLargestFloat) {
  EXPECT_EQ(FactorFromAmax(2.0F), 224.0F);
  for (const float amax : {0.0F, kUnlimited, kNaN}) EXPECT_EQ(FactorFromAmax(amax), 1.0F);
  EXPECT_EQ(FactorFromAmax(1e-44F), kFloatMax);
}

// The operations that fill an input, on the same rows.
enum class Operation { kNorm, kQuantize, kActivate, kGatedActivate };
constexpr Operation kOperations[] = {Operation::kNorm, Operation::kQuantize, Operation::kActivate,
                                     Operation::kGatedActivate};

struct OperationRun {
  static constexpr int32_t kRows = 37;
  static constexpr int32_t kColumns = 101;
  std::vector<float> in = RandomMatrix(kRows, 2 * kColumns, 61);
  std::vector<float> weight = RandomMatrix(1, kColumns, 62);

  KernelStatus Run(Device& device, Operation operation, Activation* out, float* rows_out) const {
    switch (operation) {
      case Operation::kNorm:
        return device.ops->norm(device.context, {NormKind::kRmsNorm, in.data(), nullptr, weight.data(), nullptr, 1e-5F,
                                                 out, kRows, rows_out});
      case Operation::kQuantize:
        return device.ops->quantize(device.context, {in.data(), kColumns, out, kRows});
      default:
        return device.ops->activate(device.context, {ActivationKind::kSilu, operation == Operation::kGatedActivate,
                                                     in.data(), out, kRows, rows_out});
    }
  }
};

bool SameScaleBits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); });
}

// Two launches, plain rows and their rounding, give the bits of the one that does both.
TEST_P(SharedScale, UnfusedOperationsGiveTheBitsOfTheFusedOnes) {
  const OperationRun run;
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const Operation operation : {Operation::kNorm, Operation::kActivate, Operation::kGatedActivate}) {
      for (const InputScaling scaling : {InputScaling::kPerRow, InputScaling::kGiven, InputScaling::kCurrent}) {
        ActivationTensor fused(*device_, traits.precision, run.kRows, run.kColumns);
        ActivationTensor unfused(*device_, traits.precision, run.kRows, run.kColumns);
        float scales[] = {0.01F, 0.01F};
        float amax[] = {0.0F, 0.0F};
        int i = 0;
        for (ActivationTensor* out : {&fused, &unfused}) {
          out->activation.scaling = scaling;
          out->activation.shared_scale = &scales[i];
          out->activation.amax = &amax[i++];
        }
        std::vector<float> rows(static_cast<size_t>(run.kRows * run.kColumns), kNaN);
        ASSERT_EQ(run.Run(*device_, operation, &fused.activation, nullptr), KernelStatus::kOk);
        Activation shape = unfused.activation;
        shape.data = nullptr;
        ASSERT_EQ(run.Run(*device_, operation, &shape, rows.data()), KernelStatus::kOk);
        Quantize(rows, unfused.activation, run.kRows);
        EXPECT_EQ(scales[0], scales[1]);
        EXPECT_EQ(amax[0], amax[1]);
        for (int32_t row = 0; row < run.kRows; ++row) {
          ASSERT_TRUE(
              SameScaleBits(StoredRow(*device_, fused.activation, row), StoredRow(*device_, unfused.activation, row)))
              << traits.name << " operation " << static_cast<int>(operation) << " row " << row;
        }
        // rows_out beside an activation holds the same rows.
        std::vector<float> both(rows.size(), kNaN);
        ASSERT_EQ(run.Run(*device_, operation, &fused.activation, both.data()), KernelStatus::kOk);
        EXPECT_EQ(both, rows);
      }
    }
  }
}

TEST_P(SharedScale, AmaxIsTheLargestMagnitudeBeforeRoundingInEveryPrecision) {
  const OperationRun run;
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const Operation operation : kOperations) {
      std::vector<float> rows(static_cast<size_t>(run.kRows * run.kColumns));
      Activation shape;
      shape.columns = run.kColumns;
      if (operation == Operation::kQuantize) {
        rows.assign(run.in.begin(), run.in.begin() + static_cast<std::ptrdiff_t>(rows.size()));
      } else {
        ASSERT_EQ(run.Run(*device_, operation, &shape, rows.data()), KernelStatus::kOk);
      }
      float largest = 0;
      for (const float value : rows) largest = std::fmax(largest, std::fabs(value));
      ActivationTensor out(*device_, traits.precision, run.kRows, run.kColumns);
      float amax = 0.0F;
      out.activation.amax = &amax;
      ASSERT_EQ(run.Run(*device_, operation, &out.activation, nullptr), KernelStatus::kOk);
      EXPECT_EQ(amax, largest) << traits.name;
      amax = 1e9F;  // what is there already counts
      ASSERT_EQ(run.Run(*device_, operation, &out.activation, nullptr), KernelStatus::kOk);
      EXPECT_EQ(amax, 1e9F);
    }
  }
}

TEST_P(SharedScale, AmaxOrdersNanAboveInfinityAboveNumbers) {
  ActivationTensor out(*device_, Precision::kFp8, 2, 3);
  float scale = 1.0F;
  float amax = 0.0F;
  out.activation.scaling = InputScaling::kGiven;
  out.activation.shared_scale = &scale;
  out.activation.amax = &amax;
  Quantize({1, -kUnlimited, 3, 4, 5, 6}, out.activation, 2);
  EXPECT_EQ(amax, kUnlimited);
  Quantize({1, 2, 3, kNaN, 5, 6}, out.activation, 2);
  EXPECT_TRUE(std::isnan(amax));
  Quantize({1, 2, kUnlimited, 4, 5, 6}, out.activation, 2);
  EXPECT_TRUE(std::isnan(amax));
}

TEST_P(SharedScale, TheGemmMultipliesWithTheScaleOfTheRows) {
  constexpr int32_t kRows = 5;
  constexpr int32_t kDepth = 70;
  constexpr int32_t kOut = 53;
  const auto in = RandomMatrix(kRows, kDepth, 71);
  const auto weights = RandomMatrix(kOut, kDepth, 72);
  const auto packed = Pack(*device_, Precision::kFp8, weights, kOut, kDepth);
  ActivationTensor input(*device_, Precision::kFp8, kRows, kDepth);
  float scale = 0.01F;
  input.activation.scaling = InputScaling::kGiven;
  input.activation.shared_scale = &scale;
  Quantize(in, input.activation, kRows);
  scale = kNaN;  // the scale of the next step must not reach these rows
  const auto out = RunGemm(*device_, input.activation, packed->weight, kRows);
  for (int32_t row = 0; row < kRows; ++row) {
    const auto a = StoredRow(*device_, input.activation, row);
    for (int32_t n = 0; n < kOut; ++n) {
      const auto w = RoundedRow(Precision::kFp8, weights.data() + n * kDepth, kDepth, true);
      double sum = 0;
      double magnitude = 0;
      for (size_t k = 0; k < a.size(); ++k) {
        sum += a[k] * w[k];
        magnitude += std::fabs(a[k] * w[k]);
      }
      ASSERT_NEAR(out[static_cast<size_t>(row * kOut + n)], sum, 1e-5 * magnitude);
    }
  }
}

TEST_P(SharedScale, AddDoesWhatAnEpilogueDoes) {
  constexpr int32_t kRows = 9;
  constexpr int32_t kDepth = 33;
  constexpr int32_t kOut = 77;
  const auto bias = RandomMatrix(1, kOut, 81);
  const auto residual = RandomMatrix(kRows, kOut, 82);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto packed = Pack(*device_, traits.precision, RandomMatrix(kOut, kDepth, 83), kOut, kDepth);
    const auto input = Quantized(*device_, traits.precision, RandomMatrix(kRows, kDepth, 84), kRows, kDepth);
    const auto fused = RunGemm(*device_, input->activation, packed->weight, kRows, bias.data(), residual.data());
    auto unfused = RunGemm(*device_, input->activation, packed->weight, kRows);
    const AddParams params{unfused.data(), bias.data(), residual.data(), kRows, kOut};
    ASSERT_EQ(device_->ops->add(device_->context, params), KernelStatus::kOk);
    EXPECT_EQ(unfused, fused) << traits.name;
  }
}

TEST_P(SharedScale, RefusesWhatItCannotDo) {
  ActivationTensor out(*device_, Precision::kFp8, 1, 256);
  const std::vector<float> in(256, 1.0F);
  float scale = 1.0F;
  Activation shares = out.activation;
  shares.scaling = InputScaling::kGiven;
  EXPECT_EQ(device_->ops->quantize(device_->context, {in.data(), 256, &shares, 1}), KernelStatus::kInvalidArgument);
  shares.shared_scale = &scale;
  shares.scale_block = kScaleBlock;
  EXPECT_EQ(device_->ops->quantize(device_->context, {in.data(), 256, &shares, 1}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(device_->ops->add(device_->context, {nullptr, nullptr, nullptr, 1, 1}), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(SharedScale);

}  // namespace
}  // namespace dunlin::kernels
