// Memory of the device, and the way to it and back. Copies take their turn in the stream; those from host memory that
// is not pinned have read it when they return, those to such memory have written it. Source: CUDA runtime API, "API
// synchronization behavior".
#include "kernels/cuda/launchers.h"

namespace dunlin::kernels::cuda {

void* Allocate(DeviceContext* context, size_t bytes) {
  if (bytes == 0 || context->failed) return nullptr;
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    (void)cudaGetLastError();  // having no memory left is no failure of the device
    return nullptr;
  }
  if (Checked(context, cudaMemsetAsync(memory, 0, bytes, context->stream)) == KernelStatus::kOk) return memory;
  (void)cudaFree(memory);
  return nullptr;
}

void Release(DeviceContext* context, void* memory, size_t /*bytes*/) {
  if (memory != nullptr && !context->failed) (void)Checked(context, cudaFree(memory));
}

KernelStatus CopyToDevice(DeviceContext* context, void* device, const void* host, size_t bytes) {
  if (context->failed) return KernelStatus::kDeviceError;
  if (bytes == 0) return KernelStatus::kOk;
  if (device == nullptr || host == nullptr) return KernelStatus::kInvalidArgument;
  return Checked(context, cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, context->stream));
}

KernelStatus CopyToHost(DeviceContext* context, void* host, const void* device, size_t bytes) {
  if (context->failed) return KernelStatus::kDeviceError;
  if (bytes == 0) return KernelStatus::kOk;
  if (device == nullptr || host == nullptr) return KernelStatus::kInvalidArgument;
  return Checked(context, cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, context->stream));
}

KernelStatus Synchronize(DeviceContext* context) {
  if (context->failed) return KernelStatus::kDeviceError;
  return Checked(context, cudaStreamSynchronize(context->stream));
}

}  // namespace dunlin::kernels::cuda
