// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what TMA knows of a matrix in device memory. Host code makes one per matrix and launch; a kernel takes
// it as a __grid_constant__ parameter. Source: CUDA driver API, cuTensorMapEncodeTiled.
#pragma once

#include <cstdint>

namespace dunlin::kernels::cuda {

enum class TensorElement : uint8_t { kByte, kFp16, kBf16, kFp32 };
constexpr uint32_t BytesOf(TensorElement element) {
  return element == TensorElement::kByte ? 1 : element == TensorElement::kFp32 ? 4 : 2;
}

inline constexpr int kTensorRanks = 5;

// Dimensions innermost first. Elements of a box outside of the tensor are loaded as zeros and not stored, and a load
// counts them in its bytes.
struct TensorShape {
  const void* data;  // device memory, 16-byte aligned
  TensorElement element;
  bool swizzled;                       // the 128-byte swizzle; box[0] is then at most 128 bytes
  int32_t rank;                        // 1 to 5
  uint64_t dims[kTensorRanks];         // elements, 1 to 2^32
  uint64_t strides[kTensorRanks - 1];  // bytes from one index of dimensions 1, 2, .. to the next; multiples of 16
  uint32_t box[kTensorRanks];          // elements, 1 to 256; box[0] is a multiple of 16 bytes
};

// A matrix [rows, columns] whose rows are stride bytes apart, read in boxes of box_rows rows by 128 bytes, swizzled.
constexpr TensorShape MatrixShape(const void* data, TensorElement element, uint64_t rows, uint64_t columns,
                                  uint64_t stride, uint32_t box_rows) {
  return {data, element, true, 2, {columns, rows}, {stride}, {128 / BytesOf(element), box_rows}};
}

// The driver's 128 bytes; CUtensorMap has this alignment from CUDA 13 on, 64 before.
struct alignas(128) TensorMap {
  unsigned char bytes[128];
};

// 0, or a cudaError_t: the driver has no such function, or refuses the shape. Thread-safe.
int EncodeTensorMap(const TensorShape& shape, TensorMap* map);

}  // namespace dunlin::kernels::cuda
