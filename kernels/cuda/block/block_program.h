// SPDX-License-Identifier: Apache-2.0
// Thread block programs that also run on the host. A program is a sequence of phases: `ForThreads`, `ForWarps` and,
// within a warp, `ForLanes` run their body once per thread, warp or lane; `SyncBlock` separates phases that communicate
// through shared memory. On the device each thread runs its own share and holds its own registers; the host runs all
// shares in turn, and a Frag or PerWarp holds those of all. Tests thus run what the device runs, tile by tile. All
// block programs have four warps; a kernel of another shape has its own vocabulary and says its geometry in its row.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

inline constexpr int kWarpLanes = 32;
inline constexpr int kBlockWarps = 4;
inline constexpr int kBlockThreads = kBlockWarps * kWarpLanes;

#ifdef __CUDA_ARCH__
inline constexpr int kHeldLanes = 1;
inline constexpr int kHeldWarps = 1;
#else
inline constexpr int kHeldLanes = kWarpLanes;
inline constexpr int kHeldWarps = kBlockWarps;
#endif

// kCount registers of each lane of a warp.
template <typename T, int kCount>
struct Frag {
  T values[kHeldLanes][kCount];

  DUNLIN_HD T& at(int lane, int i) { return values[kHeldLanes == 1 ? 0 : lane][i]; }
  DUNLIN_HD const T& at(int lane, int i) const { return values[kHeldLanes == 1 ? 0 : lane][i]; }
  DUNLIN_HD void Fill(T value) {
    DUNLIN_UNROLL
    for (int lane = 0; lane < kHeldLanes; ++lane) {
      DUNLIN_UNROLL
      for (int i = 0; i < kCount; ++i) values[lane][i] = value;
    }
  }
};

template <typename T>
struct PerWarp {
  T held[kHeldWarps];
  DUNLIN_HD T& operator[](int warp) { return held[kHeldWarps == 1 ? 0 : warp]; }
};

template <typename Body>
DUNLIN_HD void ForLanes(const Body& body) {
#ifdef __CUDA_ARCH__
  body(static_cast<int>(threadIdx.x) % kWarpLanes);
#else
  for (int lane = 0; lane < kWarpLanes; ++lane) body(lane);
#endif
}

template <typename Body>
DUNLIN_HD void ForWarps(const Body& body) {
#ifdef __CUDA_ARCH__
  body(static_cast<int>(threadIdx.x) / kWarpLanes);
#else
  for (int warp = 0; warp < kBlockWarps; ++warp) body(warp);
#endif
}

template <typename Body>
DUNLIN_HD void ForThreads(const Body& body) {
#ifdef __CUDA_ARCH__
  body(static_cast<int>(threadIdx.x));
#else
  for (int thread = 0; thread < kBlockThreads; ++thread) body(thread);
#endif
}

DUNLIN_HD inline void SyncBlock() {
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
}
DUNLIN_HD inline void SyncWarp() {
#ifdef __CUDA_ARCH__
  __syncwarp();
#endif
}

// Reduces register i over each quad of lanes, which share rows of a product. All four get the same bits.
template <int kCount, typename Merge>
DUNLIN_HD void ReduceQuads(Frag<float, kCount>* values, const Merge& merge) {
#ifdef __CUDA_ARCH__
  DUNLIN_UNROLL
  for (int i = 0; i < kCount; ++i) {
    float& value = values->values[0][i];
    value = merge(value, __shfl_xor_sync(~0U, value, 1));
    value = merge(value, __shfl_xor_sync(~0U, value, 2));
  }
#else
  for (const int distance : {1, 2}) {
    const Frag<float, kCount> before = *values;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      for (int i = 0; i < kCount; ++i) values->at(lane, i) = merge(before.at(lane, i), before.at(lane ^ distance, i));
    }
  }
#endif
}

// Copies 16 bytes from global to shared memory, or writes zeros; on the device asynchronous until WaitForCopies and
// SyncBlock.
DUNLIN_HD inline void CopyPiece(unsigned char* shared, const unsigned char* global, bool present) {
#ifdef __CUDA_ARCH__
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(present ? 16 : 0));
#else
  for (int i = 0; i < 16; ++i) shared[i] = present ? global[i] : 0;
#endif
}
// The same for 4 bytes.
DUNLIN_HD inline void CopyWord(float* shared, const float* global, bool present) {
#ifdef __CUDA_ARCH__
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(present ? 4 : 0));
#else
  *shared = present ? *global : 0.0F;
#endif
}
DUNLIN_HD inline void CommitCopies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;");
#endif
}
// Waits until at most kPending of the groups committed last are in flight.
template <int kPending>
DUNLIN_HD void WaitForCopies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace dunlin::kernels::cuda
