// SPDX-License-Identifier: Apache-2.0
// A thread's view of its block on compute capability 9.0: what the warp-specialised kernels are written in. Kernels
// take it as a template parameter `Block`; tests pass one of the same members that runs on the host, with every thread
// of the block, asynchronous copies and products that complete late, and memory that starts as NaN
// (tests/kernels/cuda/sm90/host_block.h). Device code alone. Compiled for sm_90a.
//
// Shared memory is addressed by uint32_t, in bytes, never by pointers. `map` is a __grid_constant__ parameter.
// Kernels must not contain trap or assert: ptxas 13.0 then ignores setmaxnreg when it allocates registers.
// Source: PTX ISA, mbarrier, cp.async.bulk, wgmma, setmaxnreg, griddepcontrol.
#pragma once

#include "kernels/cuda/sm90/descriptor.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/wgmma.h"

#ifdef __CUDACC__

namespace dunlin::kernels::cuda {

struct DeviceBlock {
  // Of this launch.
  DUNLIN_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  DUNLIN_DEVICE int64_t index() const { return blockIdx.x; }
  DUNLIN_DEVICE int64_t count() const { return gridDim.x; }
  // The start of dynamic shared memory, 16-byte aligned, rounded up to kSwizzleAlignment; a launch asks for that much
  // more. Kept in a register instead of being computed again.
  DUNLIN_DEVICE uint32_t SharedBase() const {
    extern __shared__ __align__(16) unsigned char dunlin_shared[];
    const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(dunlin_shared));
    uint32_t base;
    asm volatile("mov.u32 %0, %1;" : "=r"(base) : "r"((start + kSwizzleAlignment - 1) & ~(kSwizzleAlignment - 1)));
    return base;
  }

  // --- Threads. All threads of the block; of the calling warp; `threads` threads, whole warps, that name barrier `id`
  // (1 to 15; 0 is SyncBlock's), where ArriveNamed does not wait.
  DUNLIN_DEVICE void SyncBlock() const { __syncthreads(); }
  DUNLIN_DEVICE void SyncWarp() const { __syncwarp(); }
  DUNLIN_DEVICE void SyncNamed(int id, int threads) const {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
  }
  DUNLIN_DEVICE void ArriveNamed(int id, int threads) const {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
  }
  // The value of lane ^ mask; all lanes of the warp call it.
  template <typename T>
  DUNLIN_DEVICE T ShuffleXor(T value, int mask) const {
    return __shfl_xor_sync(~0U, value, mask);
  }
  // Registers of a thread from here on, called by all warps of a warpgroup: a multiple of 8 from 24 to 240. The sum
  // over the block's threads must not exceed what it was launched with.
  template <int kRegisters>
  DUNLIN_DEVICE void RaiseRegisters() const {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
  }
  template <int kRegisters>
  DUNLIN_DEVICE void LowerRegisters() const {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
  }

  // The same value, which the compiler takes for another one: what follows from it is computed again instead of kept in
  // registers.
  DUNLIN_DEVICE int Again(int value) const {
    asm volatile("" : "+r"(value));
    return value;
  }
  DUNLIN_DEVICE uint32_t Again(uint32_t value) const {
    asm volatile("" : "+r"(value));
    return value;
  }

  // --- Programmatic dependent launch. Memory that the preceding kernel of the stream writes, or reads before this one
  // overwrites it, may only be touched after WaitForPreceding. Both have no effect in an ordinary launch.
  DUNLIN_DEVICE void WaitForPreceding() const { asm volatile("griddepcontrol.wait;" ::: "memory"); }
  DUNLIN_DEVICE void LaunchDependents() const { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

  // --- mbarriers: 8 bytes of shared memory, 8-byte aligned. A phase completes when `arrivals` arrivals were made and
  // as many bytes arrived as were expected. One thread initialises, calls FenceBarrierInit, and SyncBlock follows.
  DUNLIN_DEVICE void InitBarrier(uint32_t barrier, uint32_t arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
  }
  DUNLIN_DEVICE void FenceBarrierInit() const {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    FenceAsync();
  }
  DUNLIN_DEVICE void Arrive(uint32_t barrier) const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  }
  // Arrives, and the phase expects `bytes` more; before the copies that bring them.
  DUNLIN_DEVICE void ArriveExpecting(uint32_t barrier, uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  }
  // Waits for the completion of the phase of this parity: 0 for the first, 1 for the second, 0 for the third. Of a new
  // barrier parity 1 counts as complete. After kWaitSeconds the kernel ends with an error of the device.
  DUNLIN_DEVICE void Wait(uint32_t barrier, uint32_t parity) const {
    if (IsComplete(barrier, parity)) return;
    const uint32_t start = Seconds();
    uint32_t tries = 0;
    while (!IsComplete(barrier, parity)) {
      if (++tries % 1024 == 0 && Seconds() - start > kWaitSeconds) StopKernel();
    }
  }

  // --- TMA. One thread calls. `to` is aligned as the map says: to kSwizzleAlignment if swizzled, else to 128 bytes.
  // Coordinates are elements, innermost first. Loads complete their bytes, those outside of the tensor included, at
  // `barrier`; kStreamed: evicted from L2 first.
  DUNLIN_DEVICE void PrefetchMap(const TensorMap& map) const {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
  }
  template <bool kStreamed = false>
  DUNLIN_DEVICE void LoadBox(uint32_t to, const TensorMap& map, uint32_t barrier, int32_t x, int32_t y) const {
    if constexpr (kStreamed) {
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
          "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
          "l"(&map), "r"(barrier), "r"(x), "r"(y), "l"(EvictFirst())
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
              "r"(to),
          "l"(&map), "r"(barrier), "r"(x), "r"(y)
          : "memory");
    }
  }
  template <bool kStreamed = false>
  DUNLIN_DEVICE void LoadBox(uint32_t to, const TensorMap& map, uint32_t barrier, int32_t x, int32_t y,
                             int32_t z) const {
    if constexpr (kStreamed) {
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
          "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
          "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(EvictFirst())
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
          "[%2];" ::"r"(to),
          "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
          : "memory");
    }
  }
  DUNLIN_DEVICE void LoadBox(uint32_t to, const TensorMap& map, uint32_t barrier, int32_t x, int32_t y, int32_t z,
                             int32_t w) const {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
        "[%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
  }
  template <bool kStreamed = false>
  DUNLIN_DEVICE void LoadBox(uint32_t to, const TensorMap& map, uint32_t barrier, int32_t x, int32_t y, int32_t z,
                             int32_t w, int32_t v) const {
    if constexpr (kStreamed) {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
          "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
          "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "l"(EvictFirst())
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
          "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
          : "memory");
    }
  }
  // `bytes` in one piece; all three multiples of 16.
  DUNLIN_DEVICE void LoadBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) const {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
  }
  // Stores: what threads wrote to shared memory is seen after FenceAsync by each of them and a barrier. WaitForStores
  // waits until at most kPending of the groups that this thread committed last have still to be read from shared memory
  // (kRead), or written; none may be unread when the block ends.
  DUNLIN_DEVICE void StoreBox(const TensorMap& map, uint32_t from, int32_t x, int32_t y) const {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(from),
                 "r"(x), "r"(y)
                 : "memory");
  }
  DUNLIN_DEVICE void CommitStores() const { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
  template <int kPending, bool kRead>
  DUNLIN_DEVICE void WaitForStores() const {
    if constexpr (kRead) {
      asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
    } else {
      asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
    }
  }
  // The caller's writes to shared memory so far are seen by TMA and by wgmma.
  DUNLIN_DEVICE void FenceAsync() const { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

  // --- wgmma: all 128 threads of a warpgroup. FenceProducts comes before the first product after sums, or registers of
  // A, were read or written by other instructions; these are untouched from a product until a WaitForProducts that
  // covers its group. WaitForProducts leaves at most kPending of the groups committed last in flight.
  DUNLIN_DEVICE void FenceProducts() const { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  DUNLIN_DEVICE void CommitProducts() const { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  template <int kPending>
  DUNLIN_DEVICE void WaitForProducts() const {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  }
  template <typename Format, int kN, bool kTransposed = false>
  DUNLIN_DEVICE void Multiply(float (&sums)[kN / 2], uint64_t a, uint64_t b, bool add) const {
    Wgmma<Format, kN>::template SharedA<kTransposed>(sums, a, b, add);
  }
  template <typename Format, int kN, bool kTransposed = false>
  DUNLIN_DEVICE void Multiply(float (&sums)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool add) const {
    Wgmma<Format, kN>::template RegisterA<kTransposed>(sums, a, b, add);
  }

  // --- Shared memory. 16-byte aligned pieces; values of their own alignment; and stmatrix: lane l gives the address of
  // row l % 8 of matrix l / 8, and holds elements (l / 4, 2 (l % 4)) and the next of matrix m in values[m].
  DUNLIN_DEVICE void LoadPiece(uint32_t (&to)[4], uint32_t from) const {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  }
  // Memory of the device that this thread alone reads and writes, 16-byte aligned; in the order of the calls.
  DUNLIN_DEVICE void LoadMemory(float (&to)[4], const float* from) const {
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "l"(from)
                 : "memory");
  }
  DUNLIN_DEVICE void StoreMemory(float* to, const float (&from)[4]) const {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(from[0]), "f"(from[1]), "f"(from[2]),
                 "f"(from[3])
                 : "memory");
  }
  DUNLIN_DEVICE uint32_t LoadWord(uint32_t from) const {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
    return value;
  }
  // 8-byte aligned.
  DUNLIN_DEVICE void LoadWords(uint32_t (&to)[2], uint32_t from) const {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
  }
  DUNLIN_DEVICE uint16_t LoadHalf(uint32_t from) const {
    uint16_t value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(from) : "memory");
    return value;
  }
  DUNLIN_DEVICE uint8_t LoadByte(uint32_t from) const {
    uint32_t value;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
    return static_cast<uint8_t>(value);
  }
  DUNLIN_DEVICE float LoadFloat(uint32_t from) const {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
  }
  // 8-byte aligned.
  DUNLIN_DEVICE void LoadFloats(float (&to)[2], uint32_t from) const {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(from) : "memory");
  }
  DUNLIN_DEVICE void StoreWord(uint32_t to, uint32_t value) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
  }
  DUNLIN_DEVICE void StorePiece(uint32_t to, const uint32_t (&from)[4]) const {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]),
                 "r"(from[3])
                 : "memory");
  }
  DUNLIN_DEVICE void StoreMatrices(uint32_t row, const uint32_t (&values)[4]) const {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(values[0]),
                 "r"(values[1]), "r"(values[2]), "r"(values[3])
                 : "memory");
  }

 private:
  static constexpr uint32_t kWaitSeconds = 10;

  static DUNLIN_DEVICE bool IsComplete(uint32_t barrier, uint32_t parity) {
    uint32_t complete;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
                 : "=r"(complete)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return complete != 0;
  }
  // Units of 2^30 ns.
  static DUNLIN_DEVICE uint32_t Seconds() {
    uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return static_cast<uint32_t>(nanoseconds >> 30);
  }
  // Stores where nothing is mapped, which ends the kernel as a trap would.
  static DUNLIN_DEVICE void StopKernel() {
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(uint64_t{64}), "r"(0));
  }
  static DUNLIN_DEVICE uint64_t EvictFirst() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
  }
};

}  // namespace dunlin::kernels::cuda

#endif  // __CUDACC__
