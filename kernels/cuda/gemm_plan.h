// A linear layer's product as cuBLASLt calls: D^T = A^T B with the weight as A, so that out [M, N], row-major, is D,
// column-major, and M is any number. One plan a weight shape and form of the sum; its algorithm is chosen once, for
// kPlanRows rows, without split-K, and used for every M. So a row's sum has one order whatever rows are beside it.
// Host code alone: nothing here reads device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "kernels/api/gemm.h"
#include "kernels/api/status.h"
#include "kernels/cuda/cublaslt_api.h"

namespace dunlin::kernels::cuda {

// Rows that algorithms are chosen for: a prefill chunk. One is good enough for decode, whose products wait for memory.
inline constexpr int32_t kPlanRows = 256;
inline constexpr size_t kGemmWorkspaceBytes = size_t{32} << 20;  // what cuBLASLt's FP8 kernels ask on sm_90
inline constexpr int kMaxPlans = 256;  // five shapes a model and precision, two forms each, many models

// How a product is computed.
struct GemmForm {
  Precision precision;
  int64_t out_features;  // as the weight has them
  int64_t in_features;
  int64_t out_stride;  // of D; a multiple of 4 in FP8
  bool bias;           // in the epilogue; never in FP8, and where it stands on 16 bytes
  bool residual;       // beta = 1
  bool operator==(const GemmForm&) const = default;
};

// FP8 writes whole groups of 16 outputs at addresses of 16 bytes, and its scales stand on 16 bytes. Where `out` has no
// room or another stride, or the rows begin between such addresses, the product goes to a staging area of PaddedRows(N)
// floats a row and a kernel copies it.
inline constexpr int64_t kScaleRows = 4;  // rows whose scales share 16 bytes
bool NeedsStaging(const GemmParams& params, int64_t first_row);

// The form of a call. What it leaves out, bias or residual, is added afterwards.
GemmForm FormOf(const GemmParams& params, bool staged);

// Operands of one call, device memory.
struct GemmOperands {
  const void* weight;
  const void* in;
  const float* weight_scales;  // FP8: a scale a row of the weight, and of the input
  const float* in_scales;
  const float* bias;      // form.bias
  const float* residual;  // form.residual; rows out_stride apart
  float* out;
  int32_t num_rows;  // >= 1
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
    MatmulAlgo algo{};
  };

  Plan* Find(const GemmForm& form);
  bool Describe(Plan* plan);
  bool ChooseAlgorithm(Plan* plan);
  bool Works(const Plan& plan, const MatmulAlgo& algo, uint64_t rows);
  void Destroy(Plan* plan);
  KernelStatus Launch(const Plan& plan, const GemmOperands& operands, void* stream);

  const CublasLt* const cublas_;
  CublasLtContext* const handle_;
  void* const workspace_;
  std::mutex turn_;  // guards the plans: a launch sets its pointers and rows in them
  Plan plans_[kMaxPlans];
  int num_plans_ = 0;
};

}  // namespace dunlin::kernels::cuda
