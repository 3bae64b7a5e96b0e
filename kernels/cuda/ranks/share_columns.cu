// SPDX-License-Identifier: Apache-2.0
// The one kernel of linked ranks. It lets no kernel after it begin early: blocks that wait for its end would take the
// place of what a rank on the same device has to run before it comes.
#include "kernels/cuda/ops/launch_after.cuh"
#include "kernels/cuda/ranks/links.h"
#include "kernels/cuda/ranks/share_columns.h"

namespace dunlin::kernels::cuda {
namespace {

// Memory that several devices share, by system-wide releases and acquires: the count of blocks, too, since each of them
// has stored to other devices.
struct DeviceSystem {
  __device__ void Store(float* to, float value) const { *to = value; }
  // The compiler would make four stores of it, which cross the link one by one.
  __device__ void Store(Float4* to, const Float4& value) const {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.values[0]), "f"(value.values[1]),
                 "f"(value.values[2]), "f"(value.values[3])
                 : "memory");
  }
  __device__ uint32_t CountBlock(uint32_t* counter) const {
    uint32_t before;
    asm volatile("atom.add.acq_rel.sys.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
  }
  __device__ void Publish(uint32_t* to, uint32_t value) const {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  __device__ uint32_t Acquire(const uint32_t* from) const {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ uint32_t Look(const uint32_t* from) const {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) ShareRankColumns(const __grid_constant__ ShareCall call) {
  WaitForPreceding();
  ShareBlock(BlockLanes(), DeviceSystem(), call, blockIdx.x, gridDim.x);
}

}  // namespace

KernelStatus ShareColumns(DeviceContext* context, const ShareColumnsParams& params) {
  if (params.links == nullptr) return KernelStatus::kInvalidArgument;
  const LinkedRanks& links = *reinterpret_cast<const LinkedRanks*>(params.links);
  if (!IsValid(params, links.num_ranks)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  ShareCall call = ShareCallOf(params, links.num_ranks);
  std::copy_n(links.signals, links.num_ranks, call.signals);
  call.stop = links.stop;
  LaunchAfter(context, ShareRankColumns, ShareBlocks(call, context->shape.multiprocessors), call);
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
