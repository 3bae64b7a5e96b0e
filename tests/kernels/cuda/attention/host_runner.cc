// SPDX-License-Identifier: Apache-2.0
// The CUDA device's attention on the host: paged_attention.h with the launchers of host_launchers.cc.
// The workspace starts as NaN and ends with a guard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/math/math.h"
#include "kernels/cuda/attention/paged_attention.h"
#include "kernels/cuda/attention/support.h"
#include "tests/kernels/attention/attention_runner.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::testing {
namespace {

// An A100's shape, and one whose blocks have less shared memory (compute capability 8.6, 8.9 and 12.0).
constexpr cuda::DeviceShape kLarge{132, 163 * 1024, 80};
constexpr cuda::DeviceShape kSmall{132, 99 * 1024, 86};
constexpr cuda::DeviceShape kHopperOfRunner{132, 227 * 1024, 90};

// The product's own path, from validation to its launchers. kWhole: without memory for parts, where that is all that
// kernels have memory for.
void RunPaged(PagedAttentionParams params, const cuda::DeviceShape& device, size_t workspace_bytes, Division division) {
  const auto run = [&](size_t bytes) {
    PoisonedMemory workspace(bytes);
    params.workspace = workspace.data();
    params.workspace_bytes = bytes;
    const KernelStatus status = cuda::RunPagedAttention(device, params, nullptr);
    EXPECT_TRUE(workspace.Intact()) << "wrote past the workspace";
    return status;
  };
  if (division == Division::kWhole && run(0) == KernelStatus::kOk) return;
  ASSERT_EQ(run(workspace_bytes), KernelStatus::kOk);
}

class HostRunner : public AttentionRunner {
 public:
  explicit HostRunner(const cuda::DeviceShape& device) : device_(device) {}
  bool Takes(AttentionBackend backend, const AttentionTraits& traits) const override {
    return cuda::SupportsAttentionOn(device_, backend, traits, nullptr);
  }
  const PageFormat& pages() const override { return kCudaPages; }
  std::vector<float> Paged(const PagedBatch& batch, AttentionBackend backend, Division division) const override {
    std::vector<float> out = PagedOn(device_, batch, backend, division);
    if (device_.sm_version == kLarge.sm_version && backend == AttentionBackend::kFlash &&
        batch.Plan().traits.head_dim > 128 &&
        cuda::SupportsAttentionOn(kSmall, backend, batch.Plan().traits, nullptr)) {
      EXPECT_EQ(PagedOn(kSmall, batch, backend, division), out) << "one stage gives other bits than two";
    }
    return out;
  }
  std::vector<float> Dense(const DenseProblem& problem, AttentionBackend backend) const override {
    PoisonedMemory out(problem.out_bytes());
    const DenseAttentionParams params = problem.Params(backend, out.data());
    const cuda::AttentionCall call = cuda::CallOf(params);
    const cuda::AttentionKernel& kernel = *cuda::FindKernel(cuda::AttentionKernels(), device_, backend,
                                                            cuda::AttentionPhase::kPrefill, TraitsOf(params), &call);
    PoisonedMemory workspace(kernel.plan.dense_workspace(kernel.geometry, call, device_));
    EXPECT_EQ(cuda::RunAttentionCall(device_, kernel, call, workspace.data(), workspace.size(), nullptr),
              KernelStatus::kOk);
    EXPECT_TRUE(workspace.Intact()) << "wrote past the workspace";
    EXPECT_TRUE(out.Intact());
    return Widen(params.dtype, out.data(), out.size());
  }
  std::vector<DType> RoundingsOf(AttentionBackend backend, DType dtype, int32_t /*head_dim*/) const override {
    return CudaRoundingsOf(backend, dtype);
  }
  size_t grid_cases() const override { return 0; }
  bool runs_costly_lengths() const override { return false; }

 private:
  static std::vector<float> PagedOn(const cuda::DeviceShape& device, const PagedBatch& batch, AttentionBackend backend,
                                    Division division) {
    std::vector<float> out(batch.out_floats(), NAN);
    const PagedAttentionPlan plan = batch.Plan();
    size_t bytes = cuda::PagedWorkspaceBytes(device, backend, plan);
    if (backend == AttentionBackend::kMath) {  // two workers, to save time
      bytes = std::min(bytes, sizeof(float) * 2 * static_cast<size_t>(cuda::MathScoreFloats(plan.max_kv_tokens)));
    }
    RunPaged(batch.Params(backend, out.data()), device, bytes, division);
    return out;
  }

  const cuda::DeviceShape device_;
};

// What the rows of compute capability 9.0 take; the rest is as on others.
bool OnHopper(AttentionBackend backend, DType dtype) {
  return backend != AttentionBackend::kMath && dtype != DType::kF32;
}

}  // namespace

void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan) {
  RunPagedOnHost(params, plan, kLarge);
}
void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan,
                    const cuda::DeviceShape& device) {
  RunPaged(params, device, cuda::PagedWorkspaceBytes(device, params.backend, plan), Division::kAsPlanned);
}

const AttentionRunner& Hopper() {
  static const HostRunner runner(kHopperOfRunner);
  return runner;
}

const std::vector<RunnerRow>& Runners() {
  static const auto* runners =
      new std::vector<RunnerRow>{{"host",
                                  [](std::string*) -> const AttentionRunner* {
                                    static const HostRunner runner(kLarge);
                                    return &runner;
                                  }},
                                 {"sm90", [](std::string*) -> const AttentionRunner* { return &Hopper(); }, OnHopper}};
  return *runners;
}

}  // namespace dunlin::kernels::testing
