// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm_plan.h"

#include <limits>
#include <string>

#include "kernels/cuda/layout.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr CublasStatus kSuccess = 0;
constexpr int32_t kCandidates = 16;

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

int32_t OutTypeOf(const GemmForm& form) {
  return form.activation.has_value() ? TypeOf(form.precision) : kCudaR32F;
}

int32_t EpilogueOf(const GemmForm& form) {
  if (!form.activation.has_value()) return form.bias ? kEpilogueBias : kEpilogueDefault;
  if (*form.activation == ActivationKind::kRelu) return form.bias ? kEpilogueReluBias : kEpilogueRelu;
  return form.bias ? kEpilogueGeluBias : kEpilogueGelu;
}

int32_t PlannedRows(const GemmForm& form) {
  return form.rows == 0 ? kPlanRows : form.rows;
}

// The smallest number of rows that the plan is used for.
int32_t LeastRows(const GemmForm& form) {
  return form.rows / 2 + 1;
}

}  // namespace

GemmPlans::~GemmPlans() {
  for (int i = 0; i < num_plans_; ++i) Destroy(&plans_[i]);
}

void GemmPlans::Tune(ProductClock* clock, AlgorithmStore* store) {
  const std::lock_guard<std::mutex> lock(turn_);
  clock_ = clock;
  store_ = store;
}

bool GemmPlans::Has(const GemmForm& form) {
  const std::lock_guard<std::mutex> lock(turn_);
  const Plan* plan = Find(form);
  return plan != nullptr && !plan->candidates.empty();
}

KernelStatus GemmPlans::Run(const GemmForm& form, const GemmOperands& operands, void* stream) {
  const std::lock_guard<std::mutex> lock(turn_);
  Plan* plan = Find(form);
  if (plan == nullptr || plan->candidates.empty()) return KernelStatus::kUnsupported;
  if (!plan->chosen) Choose(plan, operands, stream);
  return Launch(*plan, plan->algo, operands, stream);
}

GemmPlans::Plan* GemmPlans::Find(const GemmForm& form) {
  for (int i = 0; i < num_plans_; ++i) {
    if (plans_[i].form == form) return &plans_[i];
  }
  if (num_plans_ == kMaxPlans) return nullptr;
  Plan* plan = &plans_[num_plans_++];
  plan->form = form;
  if (Describe(plan)) FindCandidates(plan);
  if (plan->candidates.empty()) Destroy(plan);
  return plan;
}

// Column-major, as cuBLAS has it: weight [K, N] (transposed to N x K), input [K, M], out [N, M].
bool GemmPlans::Describe(Plan* plan) {
  const GemmForm& form = plan->form;
  const bool fp8 = form.precision == Precision::kFp8;
  const int32_t type = TypeOf(form.precision);
  const int64_t depth = PaddedDepth(form.in_features);
  const int64_t outputs = fp8 ? PaddedRows(form.out_features) : form.out_features;
  const int32_t transposed = kCublasOpT;
  const int32_t epilogue = EpilogueOf(form);
  const int32_t out_type = OutTypeOf(form);
  const auto rows = static_cast<uint64_t>(PlannedRows(form));
  const int32_t scale_mode = kScaleOuterVec32F;
  const int8_t fast = 1;
  bool done = cublas_->MatmulDescCreate(&plan->desc, kCublasCompute32F, kCudaR32F) == kSuccess &&
              cublas_->MatrixLayoutCreate(&plan->weight, type, static_cast<uint64_t>(depth),
                                          static_cast<uint64_t>(outputs), depth) == kSuccess &&
              cublas_->MatrixLayoutCreate(&plan->in, type, static_cast<uint64_t>(depth), rows, depth) == kSuccess &&
              cublas_->MatrixLayoutCreate(&plan->out, out_type, static_cast<uint64_t>(outputs), rows,
                                          form.out_stride) == kSuccess;
  const auto set = [&](int32_t attribute, const auto& value) {
    done = done && cublas_->MatmulDescSetAttribute(plan->desc, attribute, &value, sizeof(value)) == kSuccess;
  };
  set(kDescTransA, transposed);
  set(kDescEpilogue, epilogue);
  // Heuristics inspect the alignment of pointers; each launch sets its own.
  if (form.bias) {
    set(kDescBiasDataType, out_type);
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

void GemmPlans::FindCandidates(Plan* plan) {
  MatmulPreference* preference = nullptr;
  if (cublas_->MatmulPreferenceCreate(&preference) != kSuccess) return;
  const size_t workspace = kGemmWorkspaceBytes;
  // 0 is CUBLASLT_REDUCTION_SCHEME_NONE: a single pass over K.
  const uint32_t reductions = plan->form.rows == 0 ? 0 : kReductionSchemesAll;
  MatmulHeuristicResult results[kCandidates];
  int32_t found = 0;
  const bool asked = cublas_->MatmulPreferenceSetAttribute(preference, kPrefMaxWorkspaceBytes, &workspace,
                                                           sizeof(workspace)) == kSuccess &&
                     cublas_->MatmulPreferenceSetAttribute(preference, kPrefReductionSchemeMask, &reductions,
                                                           sizeof(reductions)) == kSuccess &&
                     cublas_->MatmulAlgoGetHeuristic(handle_, plan->desc, plan->weight, plan->in, plan->out, plan->out,
                                                     preference, kCandidates, results, &found) == kSuccess;
  cublas_->MatmulPreferenceDestroy(preference);
  for (int32_t i = 0; asked && i < found; ++i) {
    if (results[i].state == kSuccess && Works(*plan, results[i].algo, LeastRows(plan->form))) {
      plan->candidates.push_back(results[i].algo);
    }
  }
}

void GemmPlans::Choose(Plan* plan, const GemmOperands& operands, void* stream) {
  plan->chosen = true;
  plan->algo = plan->candidates.front();
  if (clock_ != nullptr && (store_->on_disk() || plan->form.rows != 0)) ChooseByTime(plan, operands, stream);
}

void GemmPlans::ChooseByTime(Plan* plan, const GemmOperands& operands, void* stream) {
  const std::string product = NameOf(plan->form, operands.num_rows);
  const MatmulAlgo* known = store_->Find(product);
  if (known != nullptr && Works(*plan, *known, LeastRows(plan->form)) &&
      Works(*plan, *known, PlannedRows(plan->form))) {
    plan->algo = *known;
    return;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const MatmulAlgo& algo : plan->candidates) {
    const double seconds = clock_->ColdSeconds([&] { return Launch(*plan, algo, operands, stream); });
    if (!(seconds < least)) continue;
    least = seconds;
    plan->algo = algo;
  }
  if (least < std::numeric_limits<double>::infinity()) store_->Add(product, plan->algo);
}

bool GemmPlans::Works(const Plan& plan, const MatmulAlgo& algo, int32_t rows) {
  const auto columns = static_cast<uint64_t>(rows);
  MatmulHeuristicResult result{};
  return cublas_->MatrixLayoutSetAttribute(plan.in, kLayoutCols, &columns, sizeof(columns)) == kSuccess &&
         cublas_->MatrixLayoutSetAttribute(plan.out, kLayoutCols, &columns, sizeof(columns)) == kSuccess &&
         cublas_->MatmulAlgoCheck(handle_, plan.desc, plan.weight, plan.in, plan.out, plan.out, &algo, &result) ==
             kSuccess &&
         result.workspace_bytes <= kGemmWorkspaceBytes;
}

void GemmPlans::Destroy(Plan* plan) {
  if (plan->desc != nullptr) cublas_->MatmulDescDestroy(plan->desc);
  for (MatrixLayout* layout : {plan->weight, plan->in, plan->out}) {
    if (layout != nullptr) cublas_->MatrixLayoutDestroy(layout);
  }
  plan->desc = nullptr;
  plan->weight = plan->in = plan->out = nullptr;
}

KernelStatus GemmPlans::Launch(const Plan& plan, const MatmulAlgo& algo, const GemmOperands& operands, void* stream) {
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
  done = done &&
         cublas_->Matmul(handle_, plan.desc, &alpha, operands.weight, plan.weight, operands.in, plan.in, &beta, c,
                         plan.out, operands.out, plan.out, &algo, workspace_, kGemmWorkspaceBytes, stream) == kSuccess;
  return done ? KernelStatus::kOk : KernelStatus::kDeviceError;
}

}  // namespace dunlin::kernels::cuda
