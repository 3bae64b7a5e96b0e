// SPDX-License-Identifier: Apache-2.0
// Device memory, copies and events. Copies are ordered in the stream; those from or to host memory that is not pinned
// have finished with it when they return. Source: CUDA runtime API, "API synchronization behavior".
#include <cstring>

#include "kernels/cuda/launchers.h"

namespace dunlin::kernels::cuda {

void* Allocate(DeviceContext* context, size_t bytes) {
  if (bytes == 0 || context->failed) return nullptr;
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    (void)cudaGetLastError();  // running out of memory is not a device failure
    return nullptr;
  }
  if (Checked(context, cudaMemsetAsync(memory, 0, bytes, context->stream)) == KernelStatus::kOk) {
    context->memory.Take(bytes);
    return memory;
  }
  (void)cudaFree(memory);
  return nullptr;
}

void Release(DeviceContext* context, void* memory, size_t bytes) {
  if (memory == nullptr) return;
  context->memory.Give(bytes);
  if (!context->failed) (void)Checked(context, cudaFree(memory));
}

// Pinned (page-locked), so that copies are asynchronous; the driver aligns to pages.
void* AllocateHost(DeviceContext* context, size_t bytes) {
  if (bytes == 0 || context->failed) return nullptr;
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  context->memory.TakeHost();
  return std::memset(memory, 0, bytes);
}

void ReleaseHost(DeviceContext* context, void* memory, size_t /*bytes*/) {
  if (memory != nullptr && !context->failed) (void)Checked(context, cudaFreeHost(memory));
}

DeviceMemory Memory(const DeviceContext* context) {
  return context->memory.Read();
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

// Blocking sync: the engine's thread sleeps while it waits, because a step takes milliseconds and the host has other
// work. Timing is disabled, because it would cost a device write per event.
DeviceEvent* CreateEvent(DeviceContext* context) {
  if (context->failed) return nullptr;
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<DeviceEvent*>(event);
}

void DestroyEvent(DeviceContext* context, DeviceEvent* event) {
  if (event != nullptr && !context->failed) {
    (void)Checked(context, cudaEventDestroy(reinterpret_cast<cudaEvent_t>(event)));
  }
}

KernelStatus RecordEvent(DeviceContext* context, DeviceEvent* event) {
  if (context->failed) return KernelStatus::kDeviceError;
  return Checked(context, cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), context->stream));
}

KernelStatus WaitEvent(DeviceContext* context, DeviceEvent* event) {
  if (context->failed) return KernelStatus::kDeviceError;
  return Checked(context, cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(event)));
}

}  // namespace dunlin::kernels::cuda
