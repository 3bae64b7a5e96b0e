// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/tensor_dtype.h"

namespace dunlin::engine {
namespace {

using kernels::DType;

constexpr TensorDType kTensorDTypes[] = {
    {"F32", 32, DType::kF32},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"F64", 64, {}},
    {"F8_E4M3", 8, DType::kF8E4M3},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"F4", 4, {}},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"U16", 16, {}},
    {"I16", 16, {}},
    {"U32", 32, {}},
    {"I32", 32, {}},
    {"U64", 64, {}},
    {"I64", 64, {}},
    {"C64", 64, {}},
};

}  // namespace

const TensorDType* FindTensorDType(std::string_view name) {
  for (const TensorDType& row : kTensorDTypes) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const TensorDType& TensorDTypeOf(DType dtype) {
  for (const TensorDType& row : kTensorDTypes) {
    if (row.loadable == dtype) return row;
  }
  return kTensorDTypes[0];
}

}  // namespace dunlin::engine
