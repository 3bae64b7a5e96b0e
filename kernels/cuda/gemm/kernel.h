// SPDX-License-Identifier: Apache-2.0
// A GEMM kernel of the CUDA device as a row: weights, phases and devices that it takes, and how it is prepared and
// launched. What a fusion may assume, preparation and launches read the row that FindGemmKernel returns. Host code.
//
// A row's phase selects its kernel, and the weight's shape the division of K; neither depends on the number of rows, so
// a row's bits do not depend on the other rows.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/gemm.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

enum class GemmPhase : uint8_t { kPrefill, kDecode };

// A weight as kernels tell them apart. kFp8Blocks: one scale per row and kScaleBlock codes; kCodes: integer codes.
enum class GemmOperand : uint8_t { kFp32, kBf16, kFp16, kFp8, kFp8Blocks, kCodes };
GemmOperand OperandOf(const PackedWeight& weight);

struct GemmKernel {
  unsigned operands;  // bits of GemmOperand
  unsigned phases;    // bits of GemmPhase
  int32_t sm_min;     // compute capabilities, both inclusive: 90 is 9.0
  int32_t sm_max;
  bool fuses_activation;  // GemmParams::next, where TakesActivation allows it
  // Of the tile kernel. null: cuBLASLt computes the rows, those of integer codes expanded to BF16 first.
  int (*prepare)();                         // once, when the device is opened; a cudaError_t
  void (*launch)(const TileCall&, Stream);  // enqueues one kernel and reads no device memory
};

// All rows; no call is taken by two of them.
std::span<const GemmKernel> GemmKernels();

// Null: products do not take the weight on this device.
const GemmKernel* FindGemmKernel(int sm_version, const PackedWeight& weight, GemmPhase phase);

}  // namespace dunlin::kernels::cuda
