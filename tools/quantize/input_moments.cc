// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/input_moments.h"

#include <utility>

namespace dunlin::engine {

using kernels::KernelStatus;

void InputMoments::Block::Release() {
  if (memory_ != nullptr) device_->ops->release(device_->context, memory_, bytes_);
  memory_ = nullptr;
}

void* InputMoments::Block::Get(size_t bytes) {
  if (bytes <= bytes_ && memory_ != nullptr) return memory_;
  Release();
  bytes_ = bytes;
  memory_ = device_->ops->allocate(device_->context, bytes);
  return memory_;
}

InputMoments::InputMoments(kernels::Device* device, const std::map<int32_t, int64_t>& columns)
    : device_(device), packed_(device), activation_(device) {
  for (const auto& [input, width] : columns) {
    sums_[input].resize(static_cast<size_t>(width) * static_cast<size_t>(width));
  }
}

// X^T X is the product of the input X^T [columns, rows] with the weight X^T, whose in_features are the rows.
KernelStatus InputMoments::OnInput(int32_t input, const float* rows, int32_t num_rows, int32_t columns) {
  const auto found = sums_.find(input);
  if (found == sums_.end() || num_rows == 0) return KernelStatus::kOk;
  const kernels::DeviceOps& ops = *device_->ops;
  kernels::PackedWeight weight{.out_features = columns, .in_features = num_rows};
  weight.data = packed_.Get(ops.packed_weight_bytes(weight.format, columns, num_rows, 0));
  kernels::Activation in{.capacity_rows = columns, .columns = num_rows};
  in.data = activation_.Get(ops.activation_bytes(in.precision, columns, num_rows));
  if (weight.data == nullptr || in.data == nullptr) return KernelStatus::kOutOfMemory;
  const kernels::PackWeightParams pack{.weight = &weight,
                                       .source = rows,
                                       .source_dtype = kernels::DType::kF32,
                                       .row_stride = 1,
                                       .column_stride = columns,
                                       .row_begin = 0,
                                       .num_rows = columns};
  if (const KernelStatus status = ops.pack_weight(device_->context, pack); status != KernelStatus::kOk) return status;
  std::vector<float> transposed(static_cast<size_t>(columns) * static_cast<size_t>(num_rows));
  for (int64_t k = 0; k < columns; ++k) {
    float* out = transposed.data() + k * num_rows;
    for (int64_t t = 0; t < num_rows; ++t) out[t] = rows[t * columns + k];
  }
  const kernels::QuantizeParams quantize{
      .in = transposed.data(), .in_stride = num_rows, .out = &in, .num_rows = columns};
  if (const KernelStatus status = ops.quantize(device_->context, quantize); status != KernelStatus::kOk) return status;
  kernels::GemmParams product{};
  product.in = &in;
  product.weight = &weight;
  product.out = found->second.data();
  product.residual = product.out;
  product.out_stride = columns;
  product.num_rows = columns;
  return ops.gemm(device_->context, product);
}

std::vector<float> InputMoments::Take(int32_t input) {
  const auto found = sums_.find(input);
  std::vector<float> moments = std::move(found->second);
  sums_.erase(found);
  return moments;
}

}  // namespace dunlin::engine
