// The context of an open CUDA device: one device, one stream that every operation is enqueued on, the memory that
// launches need beside their operands. Thread rule: any thread; operations of several launches hold `turn`.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/api/memory_count.h"
#include "kernels/api/status.h"
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/cuda/gemm_plan.h"

namespace dunlin::kernels {

struct DeviceContext {
  int sm_version = 0;  // 90 for compute capability 9.0
  size_t l2_bytes = 0;
  cudaStream_t stream = nullptr;
  dunlin::kernels::cuda::CublasLt cublas{};
  dunlin::kernels::cuda::CublasLtContext* cublas_handle = nullptr;
  std::unique_ptr<dunlin::kernels::cuda::GemmPlans> plans;
  std::unique_ptr<dunlin::kernels::cuda::AlgorithmStore> algorithms;
  std::unique_ptr<dunlin::kernels::cuda::ProductClock> clock;  // while algorithms are chosen by time

  // Device memory, taken when the device is opened.
  void* gemm_workspace = nullptr;  // kGemmWorkspaceBytes
  void* staging = nullptr;         // kStagingBytes: weights on their way into their layout, FP8 products on theirs
  uint32_t* current = nullptr;     // magnitude bits over the rows of a call with InputScaling::kCurrent
  void* bias = nullptr;            // [kActivatedColumnsMax] FP32: a bias in the type of an activated product

  MemoryCount memory;

  std::mutex turn;                  // guards staging, current and bias from their first launch to their last
  std::atomic<bool> failed{false};  // an earlier call failed: nothing the device says can be trusted any more
};

}  // namespace dunlin::kernels

namespace dunlin::kernels::cuda {

inline constexpr size_t kStagingBytes = size_t{64} << 20;

// Notes a failure, for good.
inline KernelStatus Checked(DeviceContext* context, cudaError_t result) {
  if (result != cudaSuccess) context->failed = true;
  return context->failed ? KernelStatus::kDeviceError : KernelStatus::kOk;
}

// Of the launch before it.
inline KernelStatus Launched(DeviceContext* context) {
  return Checked(context, cudaGetLastError());
}

}  // namespace dunlin::kernels::cuda
