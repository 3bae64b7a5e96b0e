// SPDX-License-Identifier: Apache-2.0
// What the CPU kernel tests share: an opened variant, tensors that own their memory, and operands rounded by the scalar
// functions of kernels/api/float_formats.h, for references in FP64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/group_rounding.h"
#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::testing_cpu {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::unique_ptr<Device> Open(const std::string& variant, int threads = 2) {
  std::string error;
  auto device = OpenDevice(DeviceKind::kCpu, {threads, variant}, &error);
  EXPECT_NE(device, nullptr) << error;
  return device;
}

// [rows, in_features] times a weight [out_features, in_features].
struct GemmShape {
  int32_t rows;
  int32_t out_features;
  int32_t in_features;
};

// Row-major [rows, columns] of normal numbers.
inline std::vector<float> RandomMatrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (float& value : values) value = normal(generator);
  return values;
}

// Device memory that starts as 0xFF bytes: NaN in every format.
class PoisonedMemory {
 public:
  PoisonedMemory(Device& device, size_t bytes) : device_(device), bytes_(bytes) {
    data_ = device.ops->allocate(device.context, bytes);
    std::memset(data_, 0xFF, bytes);
  }
  ~PoisonedMemory() { device_.ops->release(device_.context, data_, bytes_); }
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Device& device_;
  size_t bytes_;
  void* data_;
};

struct WeightTensor {
  WeightTensor(Device& device, WeightFormat format, int64_t out_features, int64_t in_features, int32_t scale_block = 0)
      : memory(device, device.ops->packed_weight_bytes(format, out_features, in_features, scale_block)),
        weight{memory.data(), Traits(format).compute, out_features, in_features, scale_block, false, format} {}
  WeightTensor(Device& device, Precision precision, int64_t out_features, int64_t in_features, int32_t scale_block = 0)
      : WeightTensor(device, Traits(precision).format, out_features, in_features, scale_block) {}
  PoisonedMemory memory;
  PackedWeight weight;
};

struct ActivationTensor {
  ActivationTensor(Device& device, Precision precision, int32_t rows, int32_t columns, int32_t scale_block = 0)
      : memory(device, device.ops->activation_bytes(ComputeOf(precision), rows, columns)),
        activation{memory.data(), ComputeOf(precision), rows, columns, scale_block} {}
  PoisonedMemory memory;
  Activation activation;
};

// Packs a row-major FP32 matrix whole.
inline std::unique_ptr<WeightTensor> Pack(Device& device, Precision precision, const std::vector<float>& values,
                                          int64_t out_features, int64_t in_features) {
  auto tensor = std::make_unique<WeightTensor>(device, precision, out_features, in_features);
  const PackWeightParams params{&tensor->weight, values.data(), DType::kF32, in_features, 1, 0, out_features};
  EXPECT_EQ(device.ops->pack_weight(device.context, params), KernelStatus::kOk);
  return tensor;
}

inline std::unique_ptr<ActivationTensor> Quantized(Device& device, Precision precision,
                                                   const std::vector<float>& values, int32_t rows, int32_t columns,
                                                   int32_t scale_block = 0) {
  auto tensor = std::make_unique<ActivationTensor>(device, precision, rows, columns, scale_block);
  const QuantizeParams params{values.data(), columns, &tensor->activation, rows};
  EXPECT_EQ(device.ops->quantize(device.context, params), KernelStatus::kOk);
  return tensor;
}

// A weight row of a grouped format, rounded as it is stored.
inline std::vector<double> RoundedGroups(Precision precision, const float* row, int64_t n) {
  std::vector<double> rounded;
  for (int64_t first = 0; first < n; first += kWeightGroup) {
    float values[kWeightGroup] = {};
    int8_t codes[kWeightGroup];
    std::copy(row + first, row + std::min<int64_t>(n, first + kWeightGroup), values);
    const bool int4 = precision == Precision::kInt4;
    const uint16_t word = int4 ? RoundGroupToInt4(values, codes) : RoundGroupToInt8(values, codes);
    const int32_t zero_point = int4 ? ZeroPointOfWord(word) : 0;
    for (int64_t i = 0; i < std::min<int64_t>(n - first, kWeightGroup); ++i) {
      rounded.push_back(static_cast<double>(codes[i] - zero_point) * ScaleOfWord(word));
    }
  }
  return rounded;
}

// A row as a precision stores it, by the scalar functions: as a weight (FP16 rounds) or as an activation (FP16 does
// not).
inline std::vector<double> RoundedRow(Precision precision, const float* row, int64_t n, bool is_weight) {
  if (is_weight && Traits(Traits(precision).format).group != 0) return RoundedGroups(precision, row, n);
  float largest = 0.0F;
  for (int64_t i = 0; i < n; ++i) largest = std::fmax(largest, std::fabs(row[i]));
  const float scale = largest == 0.0F ? 1.0F : largest / kE4M3Max;
  std::vector<double> rounded(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    double& value = rounded[static_cast<size_t>(i)];
    switch (ComputeOf(precision)) {
      case Precision::kFp32:
        value = row[i];
        break;
      case Precision::kBf16:
        value = Bf16ToFloat(FloatToBf16(row[i]));
        break;
      case Precision::kFp16:
        value = is_weight ? Fp16ToFloat(FloatToFp16(row[i])) : row[i];
        break;
      case Precision::kFp8:
        value = static_cast<double>(E4M3ToFloat(FloatToE4M3(row[i] * (1.0F / scale)))) * scale;
        break;
      default:  // none computes in another
        break;
    }
  }
  return rounded;
}

// A stored activation row, dequantised.
inline std::vector<double> StoredRow(const Device& device, const Activation& activation, int64_t row) {
  const std::byte* data = cpu::ActivationRow(activation, row);
  const bool reduced = activation.precision == Precision::kBf16 || activation.precision == Precision::kFp8;
  const bool halves = reduced && cpu::ContextOf(device.context).kernels.bf16_row_bytes == 2;
  const bool scaled = activation.precision == Precision::kFp8;
  std::vector<double> values;
  for (int64_t i = 0; i < activation.columns; ++i) {
    float value = 0;
    if (halves) {
      uint16_t bits = 0;
      std::memcpy(&bits, data + i * 2, sizeof(bits));
      value = Bf16ToFloat(bits);
    } else {
      std::memcpy(&value, data + i * 4, sizeof(value));
    }
    const int64_t block = activation.scale_block == 0 ? 0 : i / activation.scale_block;
    values.push_back(scaled ? static_cast<double>(value) * cpu::ActivationScales(activation, row)[block] : value);
  }
  return values;
}

inline std::vector<float> RunGemm(Device& device, const Activation& in, const PackedWeight& weight, int32_t rows,
                                  const float* bias = nullptr, const float* residual = nullptr) {
  std::vector<float> out(static_cast<size_t>(rows * weight.out_features), kNaN);
  const GemmParams params{&in, &weight, bias, residual, out.data(), weight.out_features, rows};
  EXPECT_EQ(device.ops->gemm(device.context, params), KernelStatus::kOk);
  return out;
}

// One test run per available CPU variant.
class CpuVariants : public ::testing::TestWithParam<std::string> {
 protected:
  CpuVariants() : device_(Open(GetParam())) {}
  const std::unique_ptr<Device> device_;
};

inline std::string VariantName(const ::testing::TestParamInfo<std::string>& variant) {
  return variant.param;
}

#define DUNLIN_FOR_EVERY_CPU_VARIANT(Suite) \
  INSTANTIATE_TEST_SUITE_P(Variants, Suite, ::testing::ValuesIn(::dunlin::kernels::AvailableCpuVariants()), VariantName)

}  // namespace dunlin::kernels::testing_cpu
