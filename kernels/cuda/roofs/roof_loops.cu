// SPDX-License-Identifier: Apache-2.0
// Contract: roof_loops.h.
#include "kernels/api/dtype.h"
#include "kernels/cuda/block/tensor_core.h"
#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/roofs/roof_loops.h"

namespace dunlin::kernels::cuda {
namespace {

// 2,048 threads per SM, 64 warps, for four schedulers of 32 lanes with a latency of 4: enough independent chains.
constexpr int kFmaBlocks = 4;
constexpr int kFmaChains = 8;
constexpr int kFmaUnrolled = 32;  // makes the loop overhead about one instruction in fifty
// 16 warps per SM: four per tensor core, with eight independent products.
constexpr int kMmaBlocks = 4;
constexpr int kMmaProducts = 8;
constexpr int kMmaUnrolled = 4;
constexpr double kMmaFlops = 2.0 * 16 * 8 * 16;
constexpr int kReadBlocks = 8;
constexpr int kReadsAtOnce = 4;  // issued before the first is used

// The compiler cannot prove that no sum equals `never`, so it keeps the computation.
struct Sink {
  float* out;
  float never = -1.0F;
  __device__ void Take(float sum) const {
    if (sum == never) *out = sum;
  }
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) FmaRounds(int64_t rounds, float factor, Sink sink) {
  float values[kFmaChains];
  for (int i = 0; i < kFmaChains; ++i) values[i] = static_cast<float>(threadIdx.x + i);
  DUNLIN_NO_UNROLL
  for (int64_t round = 0; round < rounds; ++round) {
    DUNLIN_UNROLL
    for (int i = 0; i < kFmaUnrolled * kFmaChains; ++i) {
      values[i % kFmaChains] = __fmaf_rn(values[i % kFmaChains], factor, 1.0F);
    }
  }
  float sum = 0.0F;
  for (int i = 0; i < kFmaChains; ++i) sum += values[i];
  sink.Take(sum);
}

// A value in (-1, 1): products of zeros draw less power and therefore run at higher clocks.
__device__ float Scattered(uint32_t index) {
  const uint32_t bits = (index + 1) * 0x9E3779B9U;
  return static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31F;
}

template <typename Format>
__global__ void __launch_bounds__(kBlockThreads, kMmaBlocks) MmaRounds(int64_t rounds, Sink sink) {
  Frag<uint32_t, 4> a;
  Frag<uint32_t, 4> b;
  Frag<float, 4 * kMmaProducts> c;
  const uint32_t first = threadIdx.x * 16;
  for (int i = 0; i < 4; ++i) {
    a.values[0][i] = PackPair<Format>(Scattered(first + 2 * i), Scattered(first + 2 * i + 1));
    b.values[0][i] = PackPair<Format>(Scattered(first + 2 * i + 8), Scattered(first + 2 * i + 9));
  }
  c.Fill(0.0F);
  DUNLIN_NO_UNROLL
  for (int64_t round = 0; round < rounds; ++round) {
    DUNLIN_UNROLL
    for (int i = 0; i < kMmaUnrolled * kMmaProducts; ++i) {
      MultiplyAdd<Format>(&c, i % kMmaProducts, a, b, i % 2 * 2);
    }
  }
  float largest = 0.0F;
  for (int i = 0; i < 4 * kMmaProducts; ++i) largest = fmaxf(largest, fabsf(c.values[0][i]));
  sink.Take(largest);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) ReadMemory(const uint4* memory, int64_t count, Sink sink) {
  uint32_t sum = 0;
  const int64_t stride = int64_t{gridDim.x} * kRowThreads;
  int64_t i = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  const auto take = [&sum](const uint4& part) { sum |= part.x | part.y | part.z | part.w; };
  for (; i + (kReadsAtOnce - 1) * stride < count; i += kReadsAtOnce * stride) {
    uint4 parts[kReadsAtOnce];
    DUNLIN_UNROLL
    for (int read = 0; read < kReadsAtOnce; ++read) parts[read] = __ldcs(memory + i + read * stride);
    DUNLIN_UNROLL
    for (int read = 0; read < kReadsAtOnce; ++read) take(parts[read]);
  }
  for (; i < count; i += stride) take(__ldcs(memory + i));
  sink.Take(static_cast<float>(sum));
}

unsigned BlocksOf(const RoofPlace& place, int per_multiprocessor) {
  return static_cast<unsigned>(place.multiprocessors * per_multiprocessor);
}

}  // namespace

void EnqueueFmaRounds(const RoofPlace& place, int64_t rounds) {
  FmaRounds<<<BlocksOf(place, kFmaBlocks), kRowThreads, 0, place.stream>>>(rounds, 0.5F, Sink{place.sink});
}

double FmaRoundFlops(int multiprocessors) {
  return 2.0 * kFmaUnrolled * kFmaChains * kRowThreads * kFmaBlocks * multiprocessors;
}

void EnqueueMmaRounds(const RoofPlace& place, DType dtype, int64_t rounds) {
  const unsigned blocks = BlocksOf(place, kMmaBlocks);
  if (dtype == DType::kBF16) {
    MmaRounds<Bf16Format><<<blocks, kBlockThreads, 0, place.stream>>>(rounds, Sink{place.sink});
  } else {
    MmaRounds<Fp16Format><<<blocks, kBlockThreads, 0, place.stream>>>(rounds, Sink{place.sink});
  }
}

double MmaRoundFlops(int multiprocessors) {
  return kMmaFlops * kMmaUnrolled * kMmaProducts * kBlockWarps * kMmaBlocks * multiprocessors;
}

void EnqueueRead(const RoofPlace& place, const void* memory, size_t bytes) {
  ReadMemory<<<BlocksOf(place, kReadBlocks), kRowThreads, 0, place.stream>>>(
      static_cast<const uint4*>(memory), static_cast<int64_t>(bytes / sizeof(uint4)), Sink{place.sink});
}

}  // namespace dunlin::kernels::cuda
