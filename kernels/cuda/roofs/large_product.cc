// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/roofs/large_product.h"

#include <vector>

#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/owned_memory.h"
#include "kernels/cuda/device/stopwatch.h"
#include "kernels/cuda/gemm/cublaslt/cold_clock.h"

namespace dunlin::kernels::cuda {
namespace {

// 0.55 TFLOP per GEMM: milliseconds on an A100, and 0.4 GB.
constexpr int32_t kRows = 8192;
constexpr int32_t kOutFeatures = 8192;
constexpr int32_t kInFeatures = 4096;
constexpr int32_t kSlabRows = 1024;  // of random values, repeated
constexpr int kProducts = 5;         // per run

// Values in [-1, 1): GEMMs of zeros draw less power and therefore run at higher clocks.
std::vector<float> Slab() {
  std::vector<float> values(size_t{kSlabRows} * kInFeatures);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;  // Source: Numerical Recipes, "quick and dirty" generators
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
  }
  return values;
}

// Weight, input rows and output of one large GEMM.
class Product {
 public:
  Product(DeviceContext* context, Precision precision)
      : context_(context),
        weight_memory_(context, PackedWeightBytes(Traits(precision).format, kOutFeatures, kInFeatures, 0)),
        in_memory_(context, ActivationBytes(precision, kRows, kInFeatures)),
        out_(context, size_t{kRows} * kOutFeatures * sizeof(float)),
        weight_{weight_memory_.data(), precision, kOutFeatures, kInFeatures, 0},
        in_{.data = in_memory_.data(), .precision = precision, .capacity_rows = kRows, .columns = kInFeatures} {}

  // Not kOk when the device does not support the precision or lacks memory.
  KernelStatus Fill(const std::vector<float>& slab) {
    if (weight_memory_.data() == nullptr || in_memory_.data() == nullptr || out_.data() == nullptr) {
      return KernelStatus::kUnsupported;
    }
    KernelStatus status = KernelStatus::kOk;
    for (int64_t row = 0; status == KernelStatus::kOk && row < kOutFeatures; row += kSlabRows) {
      status = PackWeight(context_, {&weight_, slab.data(), DType::kF32, kInFeatures, 1, row, kSlabRows});
    }
    // The output buffer holds the FP32 input until it is quantised.
    static_assert(kInFeatures <= kOutFeatures);
    for (size_t row = 0; status == KernelStatus::kOk && row < kRows; row += kSlabRows) {
      status = CopyToDevice(context_, out_.floats() + row * kInFeatures, slab.data(), slab.size() * sizeof(float));
    }
    if (status != KernelStatus::kOk) return status;
    return Quantize(context_, {out_.floats(), kInFeatures, &in_, kRows});
  }

  KernelStatus Enqueue() {
    GemmParams params{&in_, &weight_, nullptr, nullptr, out_.floats(), kOutFeatures, kRows};
    params.deterministic = false;
    return Gemm(context_, params);
  }

  // Has the first GEMM choose among all of the library's algorithms by time, unless the context is tuning already.
  KernelStatus Tune() {
    if (context_->clock != nullptr) return Enqueue();
    ColdClock clock(context_);
    AlgorithmStore store("", "");
    context_->plans->Tune(&clock, &store);
    const KernelStatus status = Enqueue();
    context_->plans->Tune(nullptr, nullptr);
    return status;
  }

 private:
  DeviceContext* const context_;
  const OwnedMemory weight_memory_;
  const OwnedMemory in_memory_;
  const OwnedMemory out_;
  PackedWeight weight_;
  Activation in_;
};

}  // namespace

double LargeProductRate(DeviceContext* context, Stopwatch* watch, Precision precision, int32_t runs) {
  Product product(context, precision);
  if (product.Fill(Slab()) != KernelStatus::kOk || product.Tune() != KernelStatus::kOk) return 0.0;
  const auto enqueue = [&] {
    KernelStatus status = KernelStatus::kOk;
    for (int i = 0; status == KernelStatus::kOk && i < kProducts; ++i) status = product.Enqueue();
    return status;
  };
  const double seconds = watch->BestSeconds(runs + 1, enqueue);
  return 2.0 * kRows * kOutFeatures * kInFeatures * kProducts / seconds;
}

}  // namespace dunlin::kernels::cuda
