// SPDX-License-Identifier: Apache-2.0
// Device lanes: the threads of a warp or of a block. A sum's order depends only on the number of lanes, and every lane
// gets the same bits.
#pragma once

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

inline constexpr int kWarp = 32;
// One block per row: 256 threads of four floats each cover a row of 1,024 in one pass. Four blocks per SM leave 64
// registers per thread; without the bound the compiler targets eight blocks, 32 registers, and spills.
inline constexpr int kRowThreads = 256;
inline constexpr int kRowBlocks = 4;

// From here on a kernel that follows by programmatic dependent launch (sm90/launch.cuh) may begin, where there is room;
// it waits before it reads what this one writes. No effect on other devices, and where none follows.
__device__ inline void LaunchDependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// All lanes of the warp must call.
struct WarpLanes {
  DUNLIN_HD int32_t index() const {
#ifdef __CUDA_ARCH__
    return static_cast<int32_t>(threadIdx.x) % kWarp;
#else
    return 0;
#endif
  }
  DUNLIN_HD int32_t count() const {
    return kWarp;
  }
  DUNLIN_HD float Sum(float value) const {
#ifdef __CUDA_ARCH__
    for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(~0U, value, distance);
#endif
    return value;
  }
  DUNLIN_HD double Sum(double value) const {
#ifdef __CUDA_ARCH__
    for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(~0U, value, distance);
#endif
    return value;
  }
  DUNLIN_HD uint32_t Max(uint32_t value) const {
#ifdef __CUDA_ARCH__
    return __reduce_max_sync(~0U, value);
#else
    return value;
#endif
  }
  DUNLIN_HD uint64_t Max(uint64_t value) const {
#ifdef __CUDA_ARCH__
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const uint64_t other = __shfl_xor_sync(~0U, static_cast<unsigned long long>(value), distance);
      if (other > value) value = other;
    }
#endif
    return value;
  }
  DUNLIN_HD float Largest(float value) const {
#ifdef __CUDA_ARCH__
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value = fmaxf(value, __shfl_xor_sync(~0U, value, distance));
    }
#endif
    return value;
  }
  DUNLIN_HD void Sync() const {
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
  }
};

// All threads of the block must call.
template <int kThreads>
struct LanesOfBlock {
  DUNLIN_HD int32_t index() const {
#ifdef __CUDA_ARCH__
    return static_cast<int32_t>(threadIdx.x);
#else
    return 0;
#endif
  }
  DUNLIN_HD int32_t count() const {
    return kThreads;
  }
  DUNLIN_HD float Sum(float value) const {
    return Combine(WarpLanes().Sum(value), [](float a, float b) { return a + b; });
  }
  DUNLIN_HD uint32_t Max(uint32_t value) const {
    return Combine(WarpLanes().Max(value), [](uint32_t a, uint32_t b) { return a > b ? a : b; });
  }
  DUNLIN_HD uint64_t Max(uint64_t value) const {
    return Combine(WarpLanes().Max(value), [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  }
  // Several sums at once, at most one per warp: each warp reduces its own values, then one warp reduces those of all
  // warps.
  template <int kCount>
  DUNLIN_HD void Sums(double (*values)[kCount]) const {
#ifdef __CUDA_ARCH__
    constexpr int kWarps = kThreads / kWarp;
    static_assert(kCount <= kWarps && kWarps <= kWarp, "a warp for each sum, a lane for each warp");
    __shared__ double parts[kCount][kWarps];
    __shared__ double sums[kCount];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    for (int i = 0; i < kCount; ++i) (*values)[i] = WarpLanes().Sum((*values)[i]);
    __syncthreads();  // the previous sums have been read
    for (int i = 0; i < kCount; ++i) {
      if (lane == 0) parts[i][warp] = (*values)[i];
    }
    __syncthreads();
    if (warp < kCount) {
      const double sum = WarpLanes().Sum(lane < kWarps ? parts[warp][lane] : 0.0);
      if (lane == 0) sums[warp] = sum;
    }
    __syncthreads();
    for (int i = 0; i < kCount; ++i) (*values)[i] = sums[i];
#else
    (void)values;
#endif
  }
  DUNLIN_HD void Sync() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
  DUNLIN_HD void BeginPass() const {}
  DUNLIN_HD void Count(uint32_t* at) const {
#ifdef __CUDA_ARCH__
    uint32_t value = 1;
    if (AddsFor(at, &value)) atomicAdd(at, value);
#else
    (void)at;
#endif
  }
  DUNLIN_HD uint32_t Take(uint32_t* at, uint32_t value) const {
#ifdef __CUDA_ARCH__
    return atomicAdd(at, value);
#else
    (void)at;
    return value;
#endif
  }
  // value < 2^27. The number of carries depends only on the sum, not on the order.
  DUNLIN_HD void AddWide(uint32_t* low, uint32_t* high, uint32_t value) const {
#ifdef __CUDA_ARCH__
    if (!AddsFor(low, &value)) return;
    if (atomicAdd(low, value) > ~value) atomicAdd(high, 1U);
#else
    (void)low, (void)high, (void)value;
#endif
  }
  DUNLIN_HD int32_t num_parts() const {
    return kRowThreads / kWarp;
  }
  DUNLIN_HD int32_t part_index() const {
    return index() / kWarp;
  }
  DUNLIN_HD WarpLanes Part() const {
    return {};
  }

 private:
  // Whether this lane adds to the counter: where all active lanes of the warp name the same one, the lowest adds for
  // all. A row of equal logits would otherwise queue at one address.
  DUNLIN_HD static bool AddsFor(const uint32_t* at, uint32_t* value) {
#ifdef __CUDA_ARCH__
    const unsigned active = __activemask();
    int same = 0;
    __match_all_sync(active, static_cast<unsigned>(__cvta_generic_to_shared(at)), &same);
    if (same == 0) return true;
    *value = __reduce_add_sync(active, *value);
    return static_cast<int>(threadIdx.x) % kWarp == __ffs(static_cast<int>(active)) - 1;
#else
    (void)at, (void)value;
    return true;
#endif
  }
  // Combines one value per warp, in the order of the warps.
  template <typename T, typename Merge>
  DUNLIN_HD T Combine(T value, const Merge& merge) const {
#ifdef __CUDA_ARCH__
    __shared__ T warps[kThreads / kWarp];
    __syncthreads();  // the previous combination's values have been read
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warps[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = merge(value, warps[warp]);
#else
    (void)merge;
#endif
    return value;
  }
};

using BlockLanes = LanesOfBlock<kRowThreads>;

}  // namespace dunlin::kernels::cuda
