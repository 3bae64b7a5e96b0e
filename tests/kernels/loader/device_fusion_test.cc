// SPDX-License-Identifier: Apache-2.0
// A device's fused operations against the CPU's separate ones, and tuning, which must not change results without a
// file.
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/loader/device_products.h"

namespace dunlin::kernels {
namespace {

class DeviceFusionTest : public DeviceTest {};

// Values that FP16 and BF16 hold exactly: 8 significant bits. Devices may round the inputs of FP16 products to FP16,
// the CPU does not: with 70 of them that is 0.0017 RMS, far more than the roundings that the test is about.
std::vector<float> RandomOf8Bits(int64_t count, uint32_t seed) {
  std::vector<float> values = Random(count, seed);
  for (float& value : values) {
    int exponent = 0;
    const float fraction = std::frexp(value, &exponent);
    value = std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  }
  return values;
}

// How far a fused result may be from the separate one, element [row, column]. Inputs and weights are the same numbers
// on both sides, so that what differs before the activation is the order of FP32 additions (70 products of unit
// variance: partial sums stay below 4 sqrt(70) = 34, 70 roundings to 2^-24 of it, four standard deviations: 4e-5) and,
// where the epilogue of a library adds it in the output's dtype, one rounding of the bias. Either is multiplied by the
// activation's slope: tanh-GELU's is at most 1.13, at sqrt(2); the other kinds are not fused with a rounded bias. Then
// each side rounds its result once.
double FusedBound(Precision precision, double rounded_bias, double value) {
  constexpr double kSums = 1e-4;
  constexpr double kSteepestGelu = 1.13;
  return kSums + kSteepestGelu * StepOf(precision) * std::fabs(rounded_bias) + 2 * StepOf(precision) * std::fabs(value);
}

// Fused activations: decode and prefill rows, with and without a bias.
TEST_P(DeviceFusionTest, FusedActivationsMatchSeparateOnes) {
  constexpr int32_t kRows = 21;
  constexpr int32_t kOuts = 48;
  constexpr int32_t kIns = 70;
  const std::vector<float> weights = Random(kOuts * kIns, 1);
  const std::vector<float> in = RandomOf8Bits(kRows * kIns, 2);
  const std::vector<float> bias = Random(kOuts, 3);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    for (const ActivationKind kind :
         {ActivationKind::kGeluTanh, ActivationKind::kGeluErf, ActivationKind::kRelu, ActivationKind::kSilu,
          ActivationKind::kReluSquared, ActivationKind::kClampedSwish}) {
      for (const bool with_bias : {false, true}) {
        std::vector<float> results[2];
        bool fused = false;
        for (Device* device : {cpu_.get(), device_.get()}) {
          const Weight weight(*device, precision, weights, kOuts, kIns);
          Input input(*device, precision, kRows, kIns);
          const Array<float> in_rows(*device, in);
          ASSERT_EQ(device->ops->quantize(device->context, {in_rows.data(), kIns, &input.activation, kRows}),
                    KernelStatus::kOk);
          const Array<float> biases(*device, bias);
          Input next(*device, precision, kRows, kOuts);
          GemmParams params{};
          params.in = &input.activation;
          params.weight = &weight.packed;
          params.bias = with_bias ? biases.data() : nullptr;
          params.num_rows = kRows;
          params.decode_rows = 5;
          params.next = &next.activation;
          params.activation = kind;
          if (device == device_.get() && device->ops->gemm_fuses(device->context, params)) {
            fused = true;
            ASSERT_EQ(device->ops->gemm(device->context, params), KernelStatus::kOk);
          } else {
            const Array<float> rows(*device, Multiply(*device, input.activation, weight.packed, kRows, params.bias));
            ASSERT_EQ(device->ops->activate(device->context, {kind, false, rows.data(), &next.activation, kRows}),
                      KernelStatus::kOk);
          }
          results[device == device_.get() ? 1 : 0] = Values(*device, next.activation, kRows);
        }
        const bool rounds_bias = fused && with_bias && kind == ActivationKind::kGeluTanh;
        for (size_t i = 0; i < results[0].size(); ++i) {
          const double rounded_bias = rounds_bias ? bias[i % kOuts] : 0.0;
          ASSERT_NEAR(results[1][i], results[0][i], FusedBound(precision, rounded_bias, results[0][i]))
              << Name(precision) << " kind " << static_cast<int>(kind) << " element " << i;
        }
      }
    }
  }
}

TEST_P(DeviceFusionTest, NormsAddTheirResidualAsTheCpuDoes) {
  constexpr int32_t kRows = 3;
  constexpr int32_t kColumns = 70;
  const std::vector<float> in = Random(kRows * kColumns, 1);
  const std::vector<float> weight = Random(kColumns, 2);
  const std::vector<float> residual = Random(kRows * kColumns, 3);
  std::vector<float> results[2];
  for (Device* device : {cpu_.get(), device_.get()}) {
    const Array<float> in_rows(*device, in);
    const Array<float> weights(*device, weight);
    const Array<float> rows(*device, residual);
    Activation width{.columns = kColumns};
    NormParams params{NormKind::kRmsNorm, in_rows.data(), nullptr, weights.data(), nullptr, 1e-6F, &width, kRows};
    params.rows_out = rows.data();
    params.residual = rows.data();
    ASSERT_EQ(device->ops->norm(device->context, params), KernelStatus::kOk);
    results[device == device_.get() ? 1 : 0] = rows.Read();
  }
  ExpectNear(results[1], results[0], 2e-5, 2e-6, "norm");
}

// Algorithms without a file are not timed: a GEMM during tuning, and the next one, have the same bits as before.
TEST_P(DeviceFusionTest, TuningWithoutAFileChangesNoBit) {
  const Weight weight(*device_, Precision::kBf16, Random(64 * 48, 1), 64, 48);
  Input input(*device_, Precision::kBf16, 40, 48);
  const Array<float> in_rows(*device_, Random(40 * 48, 2));
  ASSERT_EQ(device_->ops->quantize(device_->context, {in_rows.data(), 48, &input.activation, 40}), KernelStatus::kOk);
  std::string notice;
  const bool on = device_->ops->set_tuning(device_->context, true, &notice);
  const std::vector<float> between = Multiply(*device_, input.activation, weight.packed, 40);
  EXPECT_FALSE(on && device_->ops->set_tuning(device_->context, false, &notice));
  EXPECT_EQ(Multiply(*device_, input.activation, weight.packed, 40), between);
  EXPECT_EQ(notice, "");
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceFusionTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceFusionTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
