#include "kernels/cuda/gemm_plan.h"

#include "kernels/cuda/layout.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr CublasStatus kSuccess = 0;
constexpr int32_t kCandidates = 8;

int32_t TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return kCudaR32F;
    case Precision::kBf16:
      return kCudaR16BF;
    case Precision::kFp16:
      return kCudaR16F;
    case Precision::kFp8:
      return kCudaR8FE4M3;
  }
  return kCudaR32F;
}

bool Aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

bool NeedsStaging(const GemmParams& params, int64_t first_row) {
  if (params.weight->precision != Precision::kFp8) return false;
  if (first_row % kScaleRows != 0) return true;
  const bool whole = params.weight->out_features % kMatrixMultiple == 0 && params.out_stride % 4 == 0;
  return !whole || !Aligned(params.out) || !Aligned(params.residual);
}

GemmForm FormOf(const GemmParams& params, bool staged) {
  const PackedWeight& weight = *params.weight;
  return {.precision = weight.precision,
          .out_features = weight.out_features,
          .in_features = weight.in_features,
          .out_stride = staged ? PaddedRows(weight.out_features) : params.out_stride,
          .bias = params.bias != nullptr && weight.precision != Precision::kFp8 && Aligned(params.bias),
          .residual = params.residual != nullptr && !staged};
}

GemmPlans::~GemmPlans() {
  for (int i = 0; i < num_plans_; ++i) Destroy(&plans_[i]);
}

KernelStatus GemmPlans::Run(const GemmForm& form, const GemmOperands& operands, void* stream) {
  const std::lock_guard<std::mutex> lock(turn_);
  const Plan* plan = Find(form);
  return plan == nullptr ? KernelStatus::kUnsupported : Launch(*plan, operands, stream);
}

GemmPlans::Plan* GemmPlans::Find(const GemmForm& form) {
  for (int i = 0; i < num_plans_; ++i) {
    if (plans_[i].form == form) return &plans_[i];
  }
  if (num_plans_ == kMaxPlans) return nullptr;
  Plan* plan = &plans_[num_plans_];
  plan->form = form;
  if (!Describe(plan) || !ChooseAlgorithm(plan)) {
    Destroy(plan);
    return nullptr;
  }
  ++num_plans_;
  return plan;
}

// Column-major, as cuBLAS sees them: weight [K, N] (transposed into N x K), input [K, M], out [N, M].
bool GemmPlans::Describe(Plan* plan) {
  const GemmForm& form = plan->form;
  const bool fp8 = form.precision == Precision::kFp8;
  const int32_t type = TypeOf(form.precision);
  const int64_t depth = PaddedDepth(form.in_features);
  const int64_t outputs = fp8 ? PaddedRows(form.out_features) : form.out_features;
  const int32_t transposed = kCublasOpT;
  const int32_t epilogue = form.bias ? kEpilogueBias : kEpilogueDefault;
  const int32_t bias_type = kCudaR32F;
  const int32_t scale_mode = kScaleOuterVec32F;
  const int8_t fast = 1;
  bool done =
      cublas_->MatmulDescCreate(&plan->desc, kCublasCompute32F, kCudaR32F) == kSuccess &&
      cublas_->MatrixLayoutCreate(&plan->weight, type, static_cast<uint64_t>(depth), static_cast<uint64_t>(outputs),
                                  depth) == kSuccess &&
      cublas_->MatrixLayoutCreate(&plan->in, type, static_cast<uint64_t>(depth), kPlanRows, depth) == kSuccess &&
      cublas_->MatrixLayoutCreate(&plan->out, kCudaR32F, static_cast<uint64_t>(outputs), kPlanRows, form.out_stride) ==
          kSuccess;
  const auto set = [&](int32_t attribute, const auto& value) {
    done = done && cublas_->MatmulDescSetAttribute(plan->desc, attribute, &value, sizeof(value)) == kSuccess;
  };
  set(kDescTransA, transposed);
  set(kDescEpilogue, epilogue);
  // Pointers are looked at for their alignment while an algorithm is chosen; each launch sets its own.
  if (form.bias) {
    set(kDescBiasDataType, bias_type);
    set(kDescBiasPointer, workspace_);
  }
  if (fp8) {
    set(kDescAScalePointer, workspace_);
    set(kDescBScalePointer, workspace_);
    set(kDescAScaleMode, scale_mode);
    set(kDescBScaleMode, scale_mode);
    set(kDescFastAccum, fast);
  }
  return done;
}

// The first candidate that also takes a single row.
bool GemmPlans::ChooseAlgorithm(Plan* plan) {
  MatmulPreference* preference = nullptr;
  if (cublas_->MatmulPreferenceCreate(&preference) != kSuccess) return false;
  const size_t workspace = kGemmWorkspaceBytes;
  const uint32_t no_reduction = 0;  // CUBLASLT_REDUCTION_SCHEME_NONE: one sequence over K
  MatmulHeuristicResult results[kCandidates];
  int32_t found = 0;
  const bool asked = cublas_->MatmulPreferenceSetAttribute(preference, kPrefMaxWorkspaceBytes, &workspace,
                                                           sizeof(workspace)) == kSuccess &&
                     cublas_->MatmulPreferenceSetAttribute(preference, kPrefReductionSchemeMask, &no_reduction,
                                                           sizeof(no_reduction)) == kSuccess &&
                     cublas_->MatmulAlgoGetHeuristic(handle_, plan->desc, plan->weight, plan->in, plan->out, plan->out,
                                                     preference, kCandidates, results, &found) == kSuccess;
  cublas_->MatmulPreferenceDestroy(preference);
  for (int32_t i = 0; asked && i < found; ++i) {
    if (results[i].state != kSuccess || !Works(*plan, results[i].algo, 1)) continue;
    plan->algo = results[i].algo;
    return true;
  }
  return false;
}

bool GemmPlans::Works(const Plan& plan, const MatmulAlgo& algo, uint64_t rows) {
  MatmulHeuristicResult result{};
  return cublas_->MatrixLayoutSetAttribute(plan.in, kLayoutCols, &rows, sizeof(rows)) == kSuccess &&
         cublas_->MatrixLayoutSetAttribute(plan.out, kLayoutCols, &rows, sizeof(rows)) == kSuccess &&
         cublas_->MatmulAlgoCheck(handle_, plan.desc, plan.weight, plan.in, plan.out, plan.out, &algo, &result) ==
             kSuccess &&
         result.workspace_bytes <= kGemmWorkspaceBytes;
}

void GemmPlans::Destroy(Plan* plan) {
  if (plan->desc != nullptr) cublas_->MatmulDescDestroy(plan->desc);
  for (MatrixLayout* layout : {plan->weight, plan->in, plan->out}) {
    if (layout != nullptr) cublas_->MatrixLayoutDestroy(layout);
  }
  *plan = Plan{};
}

KernelStatus GemmPlans::Launch(const Plan& plan, const GemmOperands& operands, void* stream) {
  const auto rows = static_cast<uint64_t>(operands.num_rows);
  bool done = cublas_->MatrixLayoutSetAttribute(plan.in, kLayoutCols, &rows, sizeof(rows)) == kSuccess &&
              cublas_->MatrixLayoutSetAttribute(plan.out, kLayoutCols, &rows, sizeof(rows)) == kSuccess;
  const auto set = [&](int32_t attribute, const void* pointer) {
    done = done && cublas_->MatmulDescSetAttribute(plan.desc, attribute, &pointer, sizeof(pointer)) == kSuccess;
  };
  if (plan.form.bias) set(kDescBiasPointer, operands.bias);
  if (plan.form.precision == Precision::kFp8) {
    set(kDescAScalePointer, operands.weight_scales);
    set(kDescBScalePointer, operands.in_scales);
  }
  const float alpha = 1.0F;
  const float beta = plan.form.residual ? 1.0F : 0.0F;
  const void* c = plan.form.residual ? operands.residual : operands.out;
  done = done && cublas_->Matmul(handle_, plan.desc, &alpha, operands.weight, plan.weight, operands.in, plan.in, &beta,
                                 c, plan.out, operands.out, plan.out, &plan.algo, workspace_, kGemmWorkspaceBytes,
                                 stream) == kSuccess;
  return done ? KernelStatus::kOk : KernelStatus::kDeviceError;
}

}  // namespace dunlin::kernels::cuda
