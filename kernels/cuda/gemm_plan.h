// Products as cuBLASLt calls, one plan a form. The algorithm of a plan is chosen once in the life of the object, at its
// first product: cuBLASLt's first proposal, or, while algorithms are tuned, the quickest. A form without rows
// (GemmForm::rows) uses it for every number of them, without split-K: so a row's sum has one order whatever rows are
// beside it. Host code alone: nothing here reads device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/api/status.h"
#include "kernels/cuda/algorithm_store.h"
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/cuda/gemm_form.h"
#include "kernels/cuda/product_clock.h"

namespace dunlin::kernels::cuda {

// Rows that proposals are asked for: a prefill chunk. One is good enough for decode, whose products wait for memory.
inline constexpr int32_t kPlanRows = 256;
inline constexpr size_t kGemmWorkspaceBytes = size_t{32} << 20;  // what cuBLASLt's FP8 kernels ask on sm_90
inline constexpr int kMaxPlans = 1024;  // five shapes a model and precision, two forms each, many models; or by rows

// Operands of one call, device memory.
struct GemmOperands {
  const void* weight;
  const void* in;
  const float* weight_scales;  // FP8: a scale a row of the weight, and of the input
  const float* in_scales;
  const void* bias;       // form.bias; of D's type
  const float* residual;  // form.residual; rows out_stride apart
  void* out;              // FP32, or, with form.activation, the precision's type
  int32_t num_rows;       // >= 1
};

// Plans and the handle behind them. Thread rule: any thread; calls take turns, as the stream does.
class GemmPlans {
 public:
  // cublas and workspace (device, kGemmWorkspaceBytes) outlive the object.
  GemmPlans(const CublasLt* cublas, CublasLtContext* handle, void* workspace)
      : cublas_(cublas), handle_(handle), workspace_(workspace) {}
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  // From now on an algorithm that is not chosen yet is the store's, or the quickest by the clock, which the store then
  // gets to know; nulls end it. Without a file only forms with rows are timed: others would have other bits in the next
  // process. Products then compute nothing of use: each is run many times, and adds its residual as often.
  void Tune(ProductClock* clock, AlgorithmStore* store);

  // Whether cuBLASLt has an algorithm for the form.
  bool Has(const GemmForm& form);

  // Enqueues the product on a stream. kUnsupported when cuBLASLt has no algorithm for the form, or kMaxPlans forms are
  // in use; kDeviceError when a call fails. The first call of a form plans it: host memory only.
  KernelStatus Run(const GemmForm& form, const GemmOperands& operands, void* stream);

  int num_plans() const { return num_plans_; }

 private:
  struct Plan {
    GemmForm form;
    MatmulDesc* desc = nullptr;
    MatrixLayout* weight = nullptr;
    MatrixLayout* in = nullptr;
    MatrixLayout* out = nullptr;
    std::vector<MatmulAlgo> candidates;  // cuBLASLt's, best first; none: it does not take the form
    bool chosen = false;
    MatmulAlgo algo{};
  };

  // Null: there are kMaxPlans others.
  Plan* Find(const GemmForm& form);
  bool Describe(Plan* plan);
  void FindCandidates(Plan* plan);
  void Choose(Plan* plan, const GemmOperands& operands, void* stream);
  void ChooseByTime(Plan* plan, const GemmOperands& operands, void* stream);
  bool Works(const Plan& plan, const MatmulAlgo& algo, int32_t rows);
  void Destroy(Plan* plan);
  KernelStatus Launch(const Plan& plan, const MatmulAlgo& algo, const GemmOperands& operands, void* stream);

  const CublasLt* const cublas_;
  CublasLtContext* const handle_;
  void* const workspace_;
  std::mutex turn_;  // guards all below: a launch sets its pointers and rows in a plan
  ProductClock* clock_ = nullptr;
  AlgorithmStore* store_ = nullptr;
  Plan plans_[kMaxPlans];
  int num_plans_ = 0;
};

}  // namespace dunlin::kernels::cuda
