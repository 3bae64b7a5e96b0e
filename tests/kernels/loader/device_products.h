// SPDX-License-Identifier: Apache-2.0
// Weights, inputs and GEMMs of a device through its table, for tests that compare it with the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/loader/device_fixture.h"

namespace dunlin::kernels {

inline constexpr Precision kAllPrecisions[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8};

using Bytes = std::vector<unsigned char>;

// In two parts, as fused matrices are packed.
inline void PackInto(Device& device, const PackedWeight& packed, const std::vector<float>& values) {
  for (const bool second : {false, true}) {
    const int64_t cut = packed.out_features / 3;
    PackedWeight weight = packed;
    const PackWeightParams params{&weight,
                                  values.data() + (second ? cut * packed.in_features : 0),
                                  DType::kF32,
                                  packed.in_features,
                                  1,
                                  second ? cut : 0,
                                  second ? packed.out_features - cut : cut};
    EXPECT_EQ(device.ops->pack_weight(device.context, params), KernelStatus::kOk);
  }
}

struct Weight {
  Weight(Device& device, Precision precision, const std::vector<float>& values, int64_t out_features,
         int64_t in_features)
      : memory(device, Bytes(device.ops->packed_weight_bytes(Traits(precision).format, out_features, in_features, 0))),
        packed{memory.data(), precision, out_features, in_features, 0} {
    PackInto(device, packed, values);
  }
  Array<unsigned char> memory;
  PackedWeight packed;
};

struct Input {
  Input(Device& device, Precision precision, int32_t rows, int32_t columns)
      : memory(device, Bytes(device.ops->activation_bytes(precision, rows, columns))),
        activation{memory.data(), precision, rows, columns} {}
  Array<unsigned char> memory;
  Activation activation;
};

inline std::vector<float> Multiply(Device& device, const Activation& in, const PackedWeight& weight, int32_t rows,
                                   const float* bias = nullptr, const std::vector<float>* residual = nullptr,
                                   bool decodes = false) {
  const auto count = static_cast<size_t>(rows * weight.out_features);
  const Array<float> out(device, residual == nullptr ? std::vector<float>(count) : *residual);
  const GemmParams params{.in = &in,
                          .weight = &weight,
                          .bias = bias,
                          .residual = residual == nullptr ? nullptr : out.data(),
                          .out = out.data(),
                          .out_stride = weight.out_features,
                          .num_rows = rows,
                          .decode_rows = decodes ? rows : 0};
  EXPECT_EQ(device.ops->gemm(device.context, params), KernelStatus::kOk);
  return out.Read();
}

// The values of an activation, read by a GEMM with the identity.
inline std::vector<float> Values(Device& device, const Activation& in, int32_t rows) {
  std::vector<float> identity(static_cast<size_t>(in.columns) * static_cast<size_t>(in.columns));
  for (int32_t i = 0; i < in.columns; ++i)
    identity[static_cast<size_t>(i) * static_cast<size_t>(in.columns + 1)] = 1.0F;
  const Weight weight(device, in.precision, identity, in.columns, in.columns);
  return Multiply(device, in, weight.packed, rows);
}

// Half a step of a precision's inputs, relative to the value.
inline double StepOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 1e-6;
    case Precision::kBf16:
      return 1.0 / 256;
    case Precision::kFp16:
      return 1.0 / 2048;
    case Precision::kFp8:
      return 1.0 / 16;
    default:  // no input has another
      break;
  }
  return 0.0;
}

inline void ExpectNear(const std::vector<float>& values, const std::vector<float>& expected, double absolute,
                       double relative, const char* what) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], absolute + relative * std::fabs(expected[i])) << what << " element " << i;
  }
}

}  // namespace dunlin::kernels
