// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/cublaslt/gemm_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "kernels/cuda/device/layout.h"

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
    default:  // no product has another
      break;
  }
  return kCudaR32F;
}

int32_t OutTypeOf(const GemmForm& form) {
  return form.gelu ? TypeOf(form.precision) : kCudaR32F;
}

int32_t EpilogueOf(const GemmForm& form) {
  if (form.gelu) return form.bias ? kEpilogueGeluBias : kEpilogueGelu;
  return form.bias ? kEpilogueBias : kEpilogueDefault;
}

std::vector<int32_t> PlannedRows(const GemmForm& form) {
  if (form.rows != 0) return {form.rows};
  return {std::begin(kPlanRows), std::end(kPlanRows)};
}

// The smallest number of rows that the plan is used for.
int32_t LeastRows(const GemmForm& form) {
  return form.rows / 2 + 1;
}

// The planned numbers of rows that operands of num_rows rows can be timed with.
std::vector<int32_t> TimedRows(const GemmForm& form, int32_t num_rows) {
  if (form.rows != 0) return {num_rows};
  std::vector<int32_t> rows = PlannedRows(form);
  rows.erase(std::upper_bound(rows.begin(), rows.end(), num_rows), rows.end());
  return rows;
}

// Proposals of several heuristic calls, with a point for every place in a list of kCandidates.
class Ranking {
 public:
  void Add(const MatmulAlgo& algo, int32_t place) {
    auto row = std::find_if(rows_.begin(), rows_.end(),
                            [&](const Row& other) { return std::memcmp(&other.algo, &algo, sizeof(algo)) == 0; });
    if (row == rows_.end()) row = rows_.insert(row, {algo, 0});
    row->points += kCandidates - place;
  }
  // Best first; equals in the order in which they were added.
  std::vector<MatmulAlgo> Sorted() {
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.points > b.points; });
    std::vector<MatmulAlgo> algos;
    for (const Row& row : rows_) algos.push_back(row.algo);
    return algos;
  }

 private:
  struct Row {
    MatmulAlgo algo;
    int32_t points;
  };
  std::vector<Row> rows_;
};

// The index of the candidate that is fastest over all numbers of rows, each as important: the least product of its
// times. times: [candidate][rows]; infinity for a failure. Empty when each candidate failed.
std::optional<size_t> Fastest(const std::vector<std::vector<double>>& times) {
  std::optional<size_t> fastest;
  double least = std::numeric_limits<double>::infinity();
  for (size_t candidate = 0; candidate < times.size(); ++candidate) {
    double logarithms = 0.0;
    for (const double seconds : times[candidate]) logarithms += std::log(seconds);
    if (!(logarithms < least)) continue;
    least = logarithms;
    fastest = candidate;
  }
  return fastest;
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
  const auto rows = static_cast<uint64_t>(PlannedRows(form).back());
  const int32_t scale_mode = kScaleOuterVec32F;
  const int8_t fast = form.fast_accumulation ? 1 : 0;
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

MatmulPreference* GemmPlans::NewPreference(const GemmForm& form) {
  MatmulPreference* preference = nullptr;
  if (cublas_->MatmulPreferenceCreate(&preference) != kSuccess) return nullptr;
  bool done = true;
  const auto set = [&](int32_t attribute, const auto& value) {
    done = done && cublas_->MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)) == kSuccess;
  };
  constexpr uint32_t kOperandAlignment = 16;  // of a row of a weight or an input (layout.h)
  set(kPrefMaxWorkspaceBytes, kGemmWorkspaceBytes);
  // 0 is CUBLASLT_REDUCTION_SCHEME_NONE: a single pass over K.
  set(kPrefReductionSchemeMask, form.rows == 0 ? uint32_t{0} : kReductionSchemesAll);
  set(kPrefMinAlignmentA, kOperandAlignment);
  set(kPrefMinAlignmentB, kOperandAlignment);
  set(kPrefMinAlignmentC, form.alignment);
  set(kPrefMinAlignmentD, form.alignment);
  if (done) return preference;
  cublas_->MatmulPreferenceDestroy(preference);
  return nullptr;
}

bool GemmPlans::SetRows(const Plan& plan, int32_t rows) {
  const auto columns = static_cast<uint64_t>(rows);
  return cublas_->MatrixLayoutSetAttribute(plan.in, kLayoutCols, &columns, sizeof(columns)) == kSuccess &&
         cublas_->MatrixLayoutSetAttribute(plan.out, kLayoutCols, &columns, sizeof(columns)) == kSuccess;
}

void GemmPlans::FindCandidates(Plan* plan) {
  MatmulPreference* preference = NewPreference(plan->form);
  if (preference == nullptr) return;
  Ranking ranking;
  for (const int32_t rows : PlannedRows(plan->form)) {
    MatmulHeuristicResult results[kCandidates];
    int32_t found = 0;
    if (!SetRows(*plan, rows) ||
        cublas_->MatmulAlgoGetHeuristic(handle_, plan->desc, plan->weight, plan->in, plan->out, plan->out, preference,
                                        kCandidates, results, &found) != kSuccess) {
      continue;
    }
    for (int32_t i = 0; i < found; ++i) {
      if (results[i].state == kSuccess) ranking.Add(results[i].algo, i);
    }
  }
  cublas_->MatmulPreferenceDestroy(preference);
  for (const MatmulAlgo& algo : ranking.Sorted()) {
    if (plan->candidates.size() < size_t{kCandidates} && Works(*plan, algo)) plan->candidates.push_back(algo);
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
  if (known != nullptr && Works(*plan, *known)) {
    plan->algo = *known;
    return;
  }
  std::vector<std::vector<double>> times;
  for (const MatmulAlgo& algo : plan->candidates) {
    std::vector<double>& row = times.emplace_back();
    for (const int32_t rows : TimedRows(plan->form, operands.num_rows)) {
      GemmOperands part = operands;
      part.num_rows = rows;
      row.push_back(clock_->ColdSeconds([&] { return Launch(*plan, algo, part, stream); }));
    }
  }
  const std::optional<size_t> fastest = Fastest(times);
  if (!fastest.has_value()) return;
  plan->algo = plan->candidates[*fastest];
  store_->Add(product, plan->algo);
}

bool GemmPlans::Works(const Plan& plan, const MatmulAlgo& algo) {
  std::vector<int32_t> row_counts = PlannedRows(plan.form);
  row_counts.push_back(LeastRows(plan.form));
  return std::all_of(row_counts.begin(), row_counts.end(), [&](int32_t rows) {
    MatmulHeuristicResult result{};
    return SetRows(plan, rows) &&
           cublas_->MatmulAlgoCheck(handle_, plan.desc, plan.weight, plan.in, plan.out, plan.out, &algo, &result) ==
               kSuccess &&
           result.workspace_bytes <= kGemmWorkspaceBytes;
  });
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
  bool done = SetRows(plan, operands.num_rows);
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
