// SPDX-License-Identifier: Apache-2.0
// How matrices lie in shared memory for TMA and wgmma, and the 64-bit descriptors by which wgmma finds them.
// Source: PTX ISA, "Matrix descriptor format" and "Shared memory matrix layout" of wgmma; tensor map swizzle modes.
//
// Addresses are byte addresses in shared memory. A swizzled matrix starts at a multiple of kSwizzleAlignment.
// - K-major, swizzled (WgmmaRows): a row of the matrix is 128 bytes of K, rows follow each other. One instruction
//   reads 32 bytes of K; the next 32 are at the address + 32, and the descriptor of a step is DescriptorStep further.
// - MN-major, swizzled (WgmmaColumns), for 16-bit operands and the transposed form: a row of 128 bytes holds 64
//   elements of M or N for one k.
// - K-major, not swizzled (WgmmaCores): core matrices of 8 rows by 16 bytes, each 128 bytes in one piece.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

inline constexpr uint32_t kSwizzleRowBytes = 128;
inline constexpr uint32_t kSwizzleAlignment = 1024;  // eight rows
inline constexpr uint32_t kWgmmaStepBytes = 32;      // of K that an instruction reads: 16 two-byte elements or 32 codes
inline constexpr uint64_t kDescriptorStep = kWgmmaStepBytes / 16;

// Where the 128-byte swizzle places a byte whose linear address is `address`: 16-byte piece p of row r of each eight
// becomes piece p ^ r.
DUNLIN_HD constexpr uint32_t Swizzled(uint32_t address) {
  return address ^ (address >> 3 & 0x70U);
}

// leading, stride: byte distances whose meaning depends on the layout; multiples of 16 below 2^18.
DUNLIN_HD constexpr uint64_t WgmmaDescriptor(uint32_t address, uint32_t leading, uint32_t stride, bool swizzled) {
  const uint32_t low = (address >> 4 & 0x3FFFU) | leading >> 4 << 16;
  const uint32_t high = stride >> 4 | (swizzled ? 1U << 30 : 0U);
  return uint64_t{high} << 32 | low;
}
DUNLIN_HD constexpr uint64_t WgmmaRows(uint32_t address) {
  return WgmmaDescriptor(address, 16, 8 * kSwizzleRowBytes, true);
}
// leading: between groups of 64 of M or N; stride: between groups of 8 of K.
DUNLIN_HD constexpr uint64_t WgmmaColumns(uint32_t address, uint32_t leading, uint32_t stride) {
  return WgmmaDescriptor(address, leading, stride, true);
}
// leading: between the two 16-byte pieces of K; stride: between groups of 8 rows.
DUNLIN_HD constexpr uint64_t WgmmaCores(uint32_t address, uint32_t leading, uint32_t stride) {
  return WgmmaDescriptor(address, leading, stride, false);
}

// Element i of a thread's share of a product of 64 rows: thread 0 to 127 of the warpgroup.
struct WgmmaSlot {
  DUNLIN_HD static constexpr int Row(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
  DUNLIN_HD static constexpr int Column(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }
};

}  // namespace dunlin::kernels::cuda
