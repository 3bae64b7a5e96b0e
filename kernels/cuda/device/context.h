// SPDX-License-Identifier: Apache-2.0
// The context of an open CUDA device: one device, one stream that every operation is enqueued on unless it is recorded
// in a graph, and the memory that launches need besides their operands. Thread rule: any thread; operations of several
// launches hold `turn`.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/api/status.h"
#include "kernels/cuda/device/device_shape.h"
#include "kernels/cuda/device/graph_recorder.h"
#include "kernels/cuda/gemm/cublaslt/cublaslt_api.h"
#include "kernels/cuda/gemm/cublaslt/gemm_plan.h"
#include "kernels/cuda/gemm/tile_choices.h"
#include "kernels/shared/memory_count.h"

namespace dunlin::kernels::cuda {

struct DeviceContext {
  int32_t device = 0;  // its number
  DeviceShape shape{};
  size_t l2_bytes = 0;
  uint32_t left_out_gemms = 0;  // bits by index of rows of gemm/kernel_table.cc that are not used
  OperationStream stream;
  CublasLt cublas{};
  CublasLtContext* cublas_handle = nullptr;
  std::unique_ptr<GemmPlans> plans;
  std::unique_ptr<AlgorithmStore> algorithms;
  std::unique_ptr<ProductClock> clock;  // set while tuning
  TileChoices tiles;

  // Device memory, allocated when the device is opened.
  void* gemm_workspace = nullptr;  // kGemmWorkspaceBytes
  void* staging = nullptr;         // kStagingBytes: unpacked weights, staged GEMM outputs
  uint32_t* current = nullptr;     // InputScaling::kCurrent: bits of the largest magnitude over a call's rows
  void* bias = nullptr;            // [kActivatedColumnsMax] FP32: the bias of a fused activation, converted

  MemoryCount memory;

  std::mutex turn;                  // guards staging, current and bias over all launches of an operation
  std::atomic<bool> failed{false};  // an earlier call failed; the device's results can no longer be trusted
};

inline constexpr size_t kStagingBytes = size_t{64} << 20;

// Records a failure permanently; what cannot be part of a graph ends the recording alone.
inline KernelStatus Failed(DeviceContext* context) {
  if (!context->stream.recorder.recording()) context->failed = true;
  return KernelStatus::kDeviceError;
}

inline KernelStatus Checked(DeviceContext* context, cudaError_t result) {
  if (result != cudaSuccess) return Failed(context);
  return context->failed ? KernelStatus::kDeviceError : KernelStatus::kOk;
}

// The status of the preceding launch.
inline KernelStatus Launched(DeviceContext* context) {
  return Checked(context, cudaGetLastError());
}

}  // namespace dunlin::kernels::cuda
