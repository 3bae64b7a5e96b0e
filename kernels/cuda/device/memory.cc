// SPDX-License-Identifier: Apache-2.0
// Device memory, copies and events. Copies are ordered in the stream. Whether cudaMemcpyAsync has finished with host
// memory that is not pinned when it returns is not promised, so such a copy waits for the stream.
// Source: CUDA runtime API, "API synchronization behavior".
#include <cstring>

#include "kernels/cuda/device/launchers.h"

namespace dunlin::kernels::cuda {

namespace {

bool IsPinned(const void* host) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, host) == cudaSuccess) return attributes.type == cudaMemoryTypeHost;
  (void)cudaGetLastError();  // a pointer that the runtime does not know is no device failure
  return false;
}

// host: the end of the copy that is in host memory.
KernelStatus Copy(DeviceContext* context, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                  const void* host) {
  if (context->failed) return KernelStatus::kDeviceError;
  if (bytes == 0) return KernelStatus::kOk;
  if (to == nullptr || from == nullptr) return KernelStatus::kInvalidArgument;
  const KernelStatus status = Checked(context, cudaMemcpyAsync(to, from, bytes, kind, context->stream));
  return status != KernelStatus::kOk || IsPinned(host) ? status : Synchronize(context);
}

}  // namespace

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
  return Copy(context, device, host, bytes, cudaMemcpyHostToDevice, host);
}

KernelStatus CopyToHost(DeviceContext* context, void* host, const void* device, size_t bytes) {
  return Copy(context, host, device, bytes, cudaMemcpyDeviceToHost, host);
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
