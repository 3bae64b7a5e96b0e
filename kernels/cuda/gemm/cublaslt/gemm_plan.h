// SPDX-License-Identifier: Apache-2.0
// GEMMs as cuBLASLt calls, one plan per form. A plan's algorithm is chosen once, at its first GEMM: the best by
// cuBLASLt's heuristics or, while tuning, by time. A form without rows (GemmForm::rows) uses it for any number of rows,
// without split-K, so the order of a row's sum does not depend on the other rows; it is therefore chosen over all of
// kPlanRows. Host code: nothing here reads device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/api/status.h"
#include "kernels/cuda/gemm/cublaslt/algorithm_store.h"
#include "kernels/cuda/gemm/cublaslt/cublaslt_api.h"
#include "kernels/cuda/gemm/cublaslt/gemm_form.h"
#include "kernels/cuda/gemm/cublaslt/product_clock.h"

namespace dunlin::kernels::cuda {

// The numbers of rows that an algorithm for any number of them is chosen for.
inline constexpr int32_t kPlanRows[] = {1, 8, 64, 512, 4096};
inline constexpr size_t kGemmWorkspaceBytes = size_t{32} << 20;  // what cuBLASLt's FP8 kernels need on sm_90
inline constexpr int kMaxPlans =
    1024;  // five shapes per model and precision, two forms each, for many models; or by rows

// Operands of one call, in device memory.
struct GemmOperands {
  const void* weight;
  const void* in;
  const float* weight_scales;  // FP8: one scale per row of the weight
  const float* in_scales;
  const void* bias;       // form.bias; same dtype as D
  const float* residual;  // form.residual; rows out_stride apart
  void* out;              // FP32; with form.gelu the precision's dtype
  int32_t num_rows;       // >= 1
};

// Plans and the cuBLASLt handle. Thread rule: any thread; calls are serialised, as the stream serialises them.
class GemmPlans {
 public:
  // cublas and workspace (device memory, kGemmWorkspaceBytes) outlive the object.
  GemmPlans(const CublasLt* cublas, CublasLtContext* handle, void* workspace)
      : cublas_(cublas), handle_(handle), workspace_(workspace) {}
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  // Starts tuning: from now on an algorithm not yet chosen is the store's, or the fastest by the clock, which is then
  // added to the store. Nulls end it. Without a file only forms with rows are timed: others would have other bits in
  // the next process. Results are meaningless while tuning: each GEMM runs many times, adding its residual each time.
  void Tune(ProductClock* clock, AlgorithmStore* store);

  // Whether cuBLASLt has an algorithm for the form.
  bool Has(const GemmForm& form);

  // Enqueues the GEMM on a stream. kUnsupported when cuBLASLt has no algorithm for the form or kMaxPlans forms are in
  // use; kDeviceError when a call fails. The first call of a form plans it, which allocates host memory only.
  KernelStatus Run(const GemmForm& form, const GemmOperands& operands, void* stream);

  int num_plans() const { return num_plans_; }

 private:
  struct Plan {
    GemmForm form;
    MatmulDesc* desc = nullptr;
    MatrixLayout* weight = nullptr;
    MatrixLayout* in = nullptr;
    MatrixLayout* out = nullptr;
    std::vector<MatmulAlgo> candidates;  // cuBLASLt's, best first; empty: the form is unsupported
    bool chosen = false;
    MatmulAlgo algo{};
  };

  // Null: kMaxPlans plans exist.
  Plan* Find(const GemmForm& form);
  bool Describe(Plan* plan);
  // Null when the library refuses.
  MatmulPreference* NewPreference(const GemmForm& form);
  bool SetRows(const Plan& plan, int32_t rows);
  void FindCandidates(Plan* plan);
  void Choose(Plan* plan, const GemmOperands& operands, void* stream);
  void ChooseByTime(Plan* plan, const GemmOperands& operands, void* stream);
  // Of the numbers of rows that the plan is used for: the least, and those that it is chosen for.
  bool Works(const Plan& plan, const MatmulAlgo& algo);
  void Destroy(Plan* plan);
  KernelStatus Launch(const Plan& plan, const MatmulAlgo& algo, const GemmOperands& operands, void* stream);

  const CublasLt* const cublas_;
  CublasLtContext* const handle_;
  void* const workspace_;
  std::mutex turn_;  // guards all below: a launch sets pointers and row counts in the plan's descriptors
  ProductClock* clock_ = nullptr;
  AlgorithmStore* store_ = nullptr;
  Plan plans_[kMaxPlans];
  int num_plans_ = 0;
};

}  // namespace dunlin::kernels::cuda
