// SPDX-License-Identifier: Apache-2.0
// The driver encodes tensor maps; cudart finds its function, so that nothing is linked against libcuda.
#include "kernels/cuda/sm90/tensor_map.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

namespace dunlin::kernels::cuda {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));

using Encode = decltype(&cuTensorMapEncodeTiled);
constexpr unsigned kEncodeVersion = 12000;  // the first driver that has it

CUtensorMapDataType TypeOf(TensorElement element) {
  switch (element) {
    case TensorElement::kByte:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case TensorElement::kFp16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case TensorElement::kBf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TensorElement::kFp32:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

// Null: the driver has none.
Encode FindEncode() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, kEncodeVersion, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(entry) : nullptr;
}

}  // namespace

int EncodeTensorMap(const TensorShape& shape, TensorMap* map) {
  static const Encode encode = FindEncode();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint32_t element_strides[kTensorRanks] = {1, 1, 1, 1, 1};
  cuuint64_t dims[kTensorRanks];
  cuuint64_t strides[kTensorRanks - 1];
  for (int i = 0; i < kTensorRanks; ++i) dims[i] = shape.dims[i];
  for (int i = 0; i + 1 < kTensorRanks; ++i) strides[i] = shape.strides[i];
  CUtensorMap encoded;
  const CUresult result =
      encode(&encoded, TypeOf(shape.element), static_cast<cuuint32_t>(shape.rank), const_cast<void*>(shape.data), dims,
             strides, shape.box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
             shape.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return cudaErrorInvalidValue;
  std::memcpy(map->bytes, &encoded, sizeof(encoded));
  return cudaSuccess;
}

}  // namespace dunlin::kernels::cuda
