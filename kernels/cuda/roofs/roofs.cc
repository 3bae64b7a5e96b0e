// SPDX-License-Identifier: Apache-2.0
// The peak rates of a GPU: dedicated loops, a large GEMM by the fastest of cuBLASLt's algorithms, memory read and
// copied.
#include <algorithm>

#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/stopwatch.h"
#include "kernels/cuda/roofs/large_product.h"
#include "kernels/cuda/roofs/roof_loops.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr double kRunSeconds = 5e-3;
constexpr int64_t kTrialRounds = 256;
constexpr int64_t kRoundsMax = int64_t{1} << 24;

// The rate of a loop, each run taking about kRunSeconds.
template <typename Enqueue>
double LoopRate(DeviceContext* context, Stopwatch* watch, int32_t runs, double round_flops, const Enqueue& enqueue) {
  const auto run = [&](int64_t rounds) {
    return [&enqueue, context, rounds] {
      enqueue(rounds);
      return Launched(context);
    };
  };
  const double trial = watch->BestSeconds(2, run(kTrialRounds));
  const double wanted = static_cast<double>(kTrialRounds) * kRunSeconds / trial;
  const int64_t rounds = std::clamp(static_cast<int64_t>(wanted), int64_t{1}, kRoundsMax);
  return static_cast<double>(rounds) * round_flops / watch->BestSeconds(runs, run(rounds));
}

// Bytes per second of a loop that reads the memory.
double ReadRate(DeviceContext* context, Stopwatch* watch, const RoofPlace& place, const RoofParams& params) {
  const double seconds = watch->BestSeconds(params.runs + 1, [&] {
    EnqueueRead(place, params.memory, params.memory_bytes);
    return Launched(context);
  });
  return static_cast<double>(params.memory_bytes) / seconds;
}

// Bytes per second, read and written, of the driver's copy of one half of the memory into the other.
double CopyRate(DeviceContext* context, Stopwatch* watch, const RoofParams& params) {
  const size_t half = params.memory_bytes / 2;
  auto* const memory = static_cast<unsigned char*>(params.memory);
  const double seconds = watch->BestSeconds(params.runs + 1, [&] {
    return Checked(context, cudaMemcpyAsync(memory + half, memory, half, cudaMemcpyDeviceToDevice, context->stream));
  });
  return 2.0 * static_cast<double>(half) / seconds;
}

void Set(Roofs* roofs, Peak peak, double loop, double library) {
  const PeakRate own{loop, "mma_sync"};
  const PeakRate product{library, "library_gemm"};
  roofs->own[static_cast<int>(peak)] = own;
  roofs->fastest[static_cast<int>(peak)] = loop < library ? product : own;
}

}  // namespace

KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params) {
  if (params.out == nullptr || params.memory == nullptr || params.memory_bytes < 16 || params.runs < 1) {
    return KernelStatus::kInvalidArgument;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  int multiprocessors = 0;
  const KernelStatus status =
      Checked(context, cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  if (status != KernelStatus::kOk) return status;
  void* const sink = Allocate(context, sizeof(float));
  if (sink == nullptr) return KernelStatus::kOutOfMemory;
  Stopwatch watch(context);
  const RoofPlace place{context->stream, multiprocessors, static_cast<float*>(sink)};
  const auto mma_rate = [&](DType dtype) {
    return LoopRate(context, &watch, params.runs, MmaRoundFlops(multiprocessors),
                    [&](int64_t rounds) { EnqueueMmaRounds(place, dtype, rounds); });
  };
  Roofs roofs;
  const PeakRate fma{LoopRate(context, &watch, params.runs, FmaRoundFlops(multiprocessors),
                              [&](int64_t rounds) { EnqueueFmaRounds(place, rounds); }),
                     "fma"};
  roofs.fastest[static_cast<int>(Peak::kFp32)] = roofs.own[static_cast<int>(Peak::kFp32)] = fma;
  const double bf16 = mma_rate(DType::kBF16);
  Set(&roofs, Peak::kBf16, bf16, LargeProductRate(context, &watch, Precision::kBf16, params.runs));
  Set(&roofs, Peak::kFp16, mma_rate(DType::kF16), LargeProductRate(context, &watch, Precision::kFp16, params.runs));
  // Our kernels multiply FP8 codes widened to 16 bits, at the rate of BF16.
  const double fp8 = LargeProductRate(context, &watch, Precision::kFp8, params.runs);
  if (fp8 > 0.0) Set(&roofs, Peak::kFp8, bf16, fp8);
  roofs.dram_read_bytes = std::max(ReadRate(context, &watch, place, params), CopyRate(context, &watch, params));
  roofs.num_threads = multiprocessors;
  Release(context, sink, sizeof(float));
  if (context->failed) return KernelStatus::kDeviceError;
  *params.out = roofs;
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cuda
