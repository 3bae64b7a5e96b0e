// SPDX-License-Identifier: Apache-2.0
// The kernels of linked ranks, by peer memory and by the host's. They let no kernel after them begin early: blocks that
// wait for their end would take the place of what a rank on the same device has to run before it comes.
#include "kernels/cuda/ops/launch_after.cuh"
#include "kernels/cuda/ranks/links.h"
#include "kernels/cuda/ranks/stage_columns.h"

namespace dunlin::kernels::cuda {
namespace {

// Memory that several devices share, by system-wide releases and acquires: the count of blocks, too, since each of them
// has stored to other devices.
struct DeviceSystem {
  __device__ void Store(float* to, float value) const { *to = value; }
  __device__ void Store(uint32_t* to, uint32_t value) const { *to = value; }
  template <typename T>
  __device__ void StoreHere(T* to, const T& value) const {
    Store(to, value);
  }
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
  // Of what has been acquired, from where it lies now: no cache of this device has it.
  __device__ float Load(const float* from) const {
    float value;
    asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ Float4 Load(const Float4* from) const {
    Float4 value;
    asm volatile("ld.relaxed.sys.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.values[0]), "=f"(value.values[1]), "=f"(value.values[2]), "=f"(value.values[3])
                 : "l"(from)
                 : "memory");
    return value;
  }
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) ShareRankColumns(const __grid_constant__ ShareCall call) {
  WaitForPreceding();
  ShareBlock(BlockLanes(), DeviceSystem(), call, blockIdx.x, gridDim.x);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) StageRankColumns(const __grid_constant__ StageCall call) {
  WaitForPreceding();
  StageBlock(BlockLanes(), DeviceSystem(), call, blockIdx.x, gridDim.x);
}

void ShareByPeers(DeviceContext* context, const LinkedRanks& links, const ShareColumnsParams& params) {
  ShareCall call = ShareCallOf(params, links.num_ranks);
  for (int32_t rank = 0; rank < links.num_ranks; ++rank) call.signals[rank] = &links.own[rank]->signals;
  call.counts = &links.own[params.rank]->counts;
  call.stop = links.stop;
  LaunchAfter(context, ShareRankColumns, ShareBlocks(call, context->shape.multiprocessors), call);
}

void ShareByHost(DeviceContext* context, const LinkedRanks& links, const ShareColumnsParams& params) {
  ForEachStage(params, links.num_ranks, kStageFloats, [&](StageCall& call, int32_t rows) {
    for (int32_t rank = 0; rank < links.num_ranks; ++rank) {
      HostRank& host = links.host[rank];
      call.share.signals[rank] = &host.signals;
      for (int turn = 0; turn < 2; ++turn) call.stages[rank][turn] = {&host.notes[turn], host.columns[turn]};
    }
    call.share.counts = &links.own[params.rank]->counts;
    call.share.stop = links.stop;
    call.taken = links.own[params.rank]->taken;
    LaunchAfter(context, StageRankColumns, StageBlocks(params, rows, context->shape.multiprocessors), call);
  });
}

}  // namespace

KernelStatus ShareColumns(DeviceContext* context, const ShareColumnsParams& params) {
  if (params.links == nullptr) return KernelStatus::kInvalidArgument;
  const LinkedRanks& links = *reinterpret_cast<const LinkedRanks*>(params.links);
  if (!IsValid(params, links.num_ranks)) return KernelStatus::kInvalidArgument;
  if (links.host != nullptr && !FitsStage(params, kStageFloats)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  links.host == nullptr ? ShareByPeers(context, links, params) : ShareByHost(context, links, params);
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
