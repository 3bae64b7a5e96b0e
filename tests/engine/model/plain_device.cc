// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/plain_device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

using kernels::DeviceContext;
using kernels::KernelStatus;

PlainDeviceState* State(DeviceContext* context) {
  return reinterpret_cast<PlainDeviceState*>(context);
}

void* Allocate(DeviceContext* context, size_t bytes) {
  PlainDeviceState* state = State(context);
  std::atomic_ref held(state->bytes_held);  // adapters come and go on several threads
  if (bytes > state->bytes_limit - held) return nullptr;
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (memory == nullptr) return nullptr;
  held += bytes;
  return std::memset(memory, 0, bytes);
}

void Release(DeviceContext* context, void* memory, size_t bytes) {
  std::atomic_ref(State(context)->bytes_held) -= bytes;
  std::free(memory);
}

KernelStatus Copy(DeviceContext*, void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return KernelStatus::kOk;
}

size_t PackedBytes(kernels::WeightFormat, int64_t out_features, int64_t in_features, int32_t) {
  return static_cast<size_t>(out_features * in_features) * sizeof(float);
}

float Load(const kernels::PackWeightParams& params, int64_t index) {
  if (params.source_dtype == kernels::DType::kF32) return static_cast<const float*>(params.source)[index];
  if (params.source_dtype == kernels::DType::kF8E4M3) {
    return kernels::E4M3ToFloat(static_cast<const uint8_t*>(params.source)[index]);
  }
  const uint16_t bits = static_cast<const uint16_t*>(params.source)[index];
  return params.source_dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
}

float ScaleOf(const kernels::PackWeightParams& params, int64_t row, int64_t k) {
  if (params.source_scales == nullptr) return 1.0F;
  const int64_t block = params.source_scale_block == 0 ? 0 : k / params.source_scale_block;
  return params
      .source_scales[row * kernels::ScalesPerRow(params.source_scale_block, params.weight->in_features) + block];
}

KernelStatus Pack(DeviceContext* context, const kernels::PackWeightParams& params) {
  PlainDeviceState* state = State(context);
  if (state->on_pack != nullptr) state->on_pack(state->on_pack_argument);
  ++state->num_packs;
  if (state->packs_until_failure >= 0 && state->packs_until_failure-- == 0) return KernelStatus::kDeviceError;
  const kernels::PackedWeight& weight = *params.weight;
  if (params.row_begin < 0 || params.row_begin + params.num_rows > weight.out_features) {
    return KernelStatus::kInvalidArgument;
  }
  for (int64_t n = 0; n < params.num_rows; ++n) {
    for (int64_t k = 0; k < weight.in_features; ++k) {
      static_cast<float*>(weight.data)[(params.row_begin + n) * weight.in_features + k] =
          Load(params, n * params.row_stride + k * params.column_stride) * ScaleOf(params, n, k);
    }
  }
  return KernelStatus::kOk;
}

constexpr kernels::DeviceOps MakeOps() {
  kernels::DeviceOps ops{};
  ops.kind = kernels::DeviceKind::kCpu;
  ops.prefill_matches_decode = [](const DeviceContext*, kernels::Precision, bool) { return false; };
  ops.supports_model = [](const kernels::ModelTraits&, std::vector<std::string>*) { return true; };
  ops.allocate = &Allocate;
  ops.release = &Release;
  ops.copy_to_device = &Copy;
  ops.copy_to_host = &Copy;
  ops.synchronize = [](DeviceContext*) { return KernelStatus::kOk; };
  ops.allocate_host = [](DeviceContext*, size_t bytes) { return std::calloc(1, bytes); };
  ops.release_host = [](DeviceContext*, void* memory, size_t) { std::free(memory); };
  ops.memory = [](const DeviceContext*) { return kernels::DeviceMemory{}; };
  ops.packed_weight_bytes = &PackedBytes;
  ops.pack_weight = &Pack;
  return ops;
}
constexpr kernels::DeviceOps kOps = MakeOps();

}  // namespace

std::unique_ptr<kernels::Device> MakePlainDevice(PlainDeviceState* state) {
  auto device = std::make_unique<kernels::Device>();
  device->ops = &kOps;
  device->context = reinterpret_cast<DeviceContext*>(state);
  device->description = "plain";
  return device;
}

float ElementOf(const kernels::PackedWeight& weight, int64_t row, int64_t column) {
  return static_cast<const float*>(weight.data)[row * weight.in_features + column];
}

}  // namespace dunlin::engine
