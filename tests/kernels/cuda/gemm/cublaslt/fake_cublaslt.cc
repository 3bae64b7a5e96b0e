// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/gemm/cublaslt/fake_cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels::cuda {

struct MatmulDesc {
  int32_t compute_type;
  int32_t scale_type;
  std::map<int32_t, std::vector<unsigned char>> attributes;
  uint32_t alignments[4];  // that its algorithms were proposed for

  template <typename T>
  T Get(int32_t attribute, T otherwise) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end() || found->second.size() != sizeof(T)) return otherwise;
    std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
};
struct MatrixLayout {
  int32_t type;
  uint64_t rows;
  uint64_t cols;
  int64_t ld;
};
struct MatmulPreference {
  uint64_t workspace_bytes;
  uint32_t reduction_mask;
  uint32_t alignments[4];  // of A, B, C and D
};

namespace {

constexpr CublasStatus kSuccess = 0;
constexpr CublasStatus kInvalid = 7;
constexpr CublasStatus kNotSupported = 15;

FakeCublasLt* State() {
  static FakeCublasLt state;
  return &state;
}

template <typename T>
CublasStatus New(T** object, T value) {
  *object = new T(std::move(value));
  ++State()->objects;
  return kSuccess;
}
template <typename T>
CublasStatus Delete(T* object) {
  delete object;
  --State()->objects;
  return kSuccess;
}

bool Aligned(const void* pointer, uint32_t bytes = 16) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

bool HasGelu(int32_t epilogue) {
  return epilogue == kEpilogueGelu || epilogue == kEpilogueGeluBias;
}
bool HasBias(int32_t epilogue) {
  return epilogue == kEpilogueBias || epilogue == kEpilogueGeluBias;
}

// As the library's epilogue. Source: Hendrycks & Gimpel 2016, the tanh approximation.
double Activated(int32_t epilogue, double x) {
  if (!HasGelu(epilogue)) return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

void Store(void* data, int32_t type, uint64_t at, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == kCudaR32F) static_cast<float*>(data)[at] = rounded;
  if (type == kCudaR16F) static_cast<uint16_t*>(data)[at] = FloatToFp16(rounded);
  if (type == kCudaR16BF) static_cast<uint16_t*>(data)[at] = FloatToBf16(rounded);
}

double Element(const void* data, int32_t type, uint64_t at) {
  switch (type) {
    case kCudaR32F:
      return static_cast<const float*>(data)[at];
    case kCudaR16F:
      return Fp16ToFloat(static_cast<const uint16_t*>(data)[at]);
    case kCudaR16BF:
      return Bf16ToFloat(static_cast<const uint16_t*>(data)[at]);
    default:
      return E4M3ToFloat(static_cast<const uint8_t*>(data)[at]);
  }
}

// cuBLASLt's documented constraints on FP8 GEMMs and shapes; empty when the GEMM is allowed.
std::string ReasonAgainst(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& d) {
  if (desc.compute_type != kCublasCompute32F || desc.scale_type != kCudaR32F) return "compute type";
  if (desc.Get<int32_t>(kDescTransA, 0) != kCublasOpT) return "A is not transposed";
  const bool narrow = d.type == a.type && (d.type == kCudaR16F || d.type == kCudaR16BF);
  if (a.type != b.type || !(d.type == kCudaR32F || narrow)) return "types";
  if (a.rows != b.rows || a.cols != d.rows || b.cols != d.cols) return "shapes";
  if (a.ld < static_cast<int64_t>(a.rows) || b.ld < static_cast<int64_t>(b.rows) || d.ld < static_cast<int64_t>(d.rows))
    return "leading dimensions";
  const auto epilogue = desc.Get<int32_t>(kDescEpilogue, kEpilogueDefault);
  const bool bias = HasBias(epilogue);
  if (bias && desc.Get<int32_t>(kDescBiasDataType, -1) != d.type) return "bias type";
  if (bias && !Aligned(desc.Get<const void*>(kDescBiasPointer, nullptr))) return "bias alignment";
  if (HasGelu(epilogue) && State()->no_activation) return "activation";
  if (a.type != kCudaR8FE4M3) return "";
  if (bias) return "FP8 into FP32 has no FP32 bias";
  if (a.rows % 16 != 0 || a.cols % 16 != 0 || a.ld % 16 != 0 || b.ld % 16 != 0) return "FP8 shapes";
  if (d.rows * 4 % 16 != 0 || d.ld * 4 % 16 != 0) return "FP8 output alignment";
  const auto outer = kScaleOuterVec32F;
  if (desc.Get<int32_t>(kDescAScaleMode, 0) != outer || desc.Get<int32_t>(kDescBScaleMode, 0) != outer) return "scales";
  if (desc.Get<const float*>(kDescAScalePointer, nullptr) == nullptr) return "scale pointers";
  return "";
}

CublasStatus Heuristic(CublasLtContext*, MatmulDesc* desc, MatrixLayout* a, MatrixLayout* b, MatrixLayout* c,
                       MatrixLayout* d, MatmulPreference* preference, int32_t requested, MatmulHeuristicResult* results,
                       int32_t* returned) {
  ++State()->heuristics;
  State()->refusal = ReasonAgainst(*desc, *a, *b, *d);
  if (c != d) State()->refusal = "C and D differ";
  if (State()->split_is_refused && preference->reduction_mask != 0) State()->refusal = "split-K is not excluded";
  if (preference->workspace_bytes == 0) State()->refusal = "no workspace";
  if (!State()->refusal.empty()) return kNotSupported;
  std::memcpy(desc->alignments, preference->alignments, sizeof(desc->alignments));
  std::vector<uint64_t> proposed;
  for (int i = 0; i < State()->candidates; ++i) proposed.push_back(static_cast<uint64_t>(100 + i));
  if (const auto found = State()->proposals.find(b->cols); found != State()->proposals.end()) proposed = found->second;
  *returned = std::min(static_cast<int32_t>(proposed.size()), requested);
  for (int32_t i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].algo.data[0] = proposed[static_cast<size_t>(i)];
  }
  return kSuccess;
}

CublasStatus Check(CublasLtContext*, MatmulDesc*, MatrixLayout*, MatrixLayout* b, MatrixLayout*, MatrixLayout*,
                   const MatmulAlgo* algo, MatmulHeuristicResult*) {
  const bool bad = algo->data[0] < static_cast<uint64_t>(100 + State()->bad_candidates);
  return bad && b->cols == 1 ? kNotSupported : kSuccess;
}

CublasStatus Matmul(CublasLtContext*, MatmulDesc* desc, const void* alpha, const void* a, MatrixLayout* a_layout,
                    const void* b, MatrixLayout* b_layout, const void* beta, const void* c, MatrixLayout* c_layout,
                    void* d, MatrixLayout* d_layout, const MatmulAlgo* algo, void* workspace, size_t workspace_bytes,
                    void*) {
  FakeCublasLt& state = *State();
  if (state.matmul_fails) return kInvalid;
  state.refusal = ReasonAgainst(*desc, *a_layout, *b_layout, *d_layout);
  const bool fp8 = a_layout->type == kCudaR8FE4M3;
  if (fp8 && (!Aligned(a) || !Aligned(b) || !Aligned(d) || !Aligned(c))) state.refusal = "FP8 pointers";
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (!Aligned(operands[i], desc->alignments[i])) state.refusal = "less aligned than the algorithm needs";
  }
  if (workspace == nullptr || workspace_bytes == 0) state.refusal = "no workspace";
  if (!state.refusal.empty()) return kInvalid;
  state.algorithms.push_back(algo->data[0]);
  state.rows = d_layout->cols;
  state.fast_accumulation = desc->Get<int8_t>(kDescFastAccum, 0) != 0;
  const auto epilogue = desc->Get<int32_t>(kDescEpilogue, 0);
  const void* bias = HasBias(epilogue) ? desc->Get<const void*>(kDescBiasPointer, nullptr) : nullptr;
  const auto* a_scales = fp8 ? desc->Get<const float*>(kDescAScalePointer, nullptr) : nullptr;
  const auto* b_scales = fp8 ? desc->Get<const float*>(kDescBScalePointer, nullptr) : nullptr;
  for (uint64_t j = 0; j < d_layout->cols; ++j) {
    for (uint64_t i = 0; i < d_layout->rows; ++i) {
      double sum = 0.0;
      for (uint64_t k = 0; k < a_layout->rows; ++k) {
        sum += Element(a, a_layout->type, i * static_cast<uint64_t>(a_layout->ld) + k) *
               Element(b, b_layout->type, j * static_cast<uint64_t>(b_layout->ld) + k);
      }
      if (fp8) sum *= static_cast<double>(a_scales[i]) * b_scales[j];
      sum *= *static_cast<const float*>(alpha);
      const float scale_c = *static_cast<const float*>(beta);
      const uint64_t at = j * static_cast<uint64_t>(d_layout->ld) + i;
      if (scale_c != 0.0F) sum += scale_c * Element(c, c_layout->type, at);
      if (bias != nullptr) sum += Element(bias, d_layout->type, i);
      Store(d, d_layout->type, at, Activated(epilogue, sum));
    }
  }
  return kSuccess;
}

}  // namespace

FakeCublasLt& FakeCublasLtState() {
  return *State();
}

const CublasLt& FakeCublasLtTable() {
  static const CublasLt table = {
      .GetVersion = [] { return kCublasVersionMin; },
      .Create = [](CublasLtContext**) { return kSuccess; },
      .Destroy = [](CublasLtContext*) { return kSuccess; },
      .MatmulDescCreate =
          [](MatmulDesc** desc, int32_t compute_type, int32_t scale_type) {
            return New(desc, MatmulDesc{compute_type, scale_type, {}, {}});
          },
      .MatmulDescDestroy = [](MatmulDesc* desc) { return Delete(desc); },
      .MatmulDescSetAttribute =
          [](MatmulDesc* desc, int32_t attribute, const void* value, size_t bytes) {
            const auto* from = static_cast<const unsigned char*>(value);
            desc->attributes[attribute].assign(from, from + bytes);
            return kSuccess;
          },
      .MatrixLayoutCreate =
          [](MatrixLayout** layout, int32_t type, uint64_t rows, uint64_t cols, int64_t ld) {
            return New(layout, MatrixLayout{type, rows, cols, ld});
          },
      .MatrixLayoutDestroy = [](MatrixLayout* layout) { return Delete(layout); },
      .MatrixLayoutSetAttribute =
          [](MatrixLayout* layout, int32_t attribute, const void* value, size_t bytes) {
            if (attribute != kLayoutCols || bytes != sizeof(layout->cols)) return kInvalid;
            std::memcpy(&layout->cols, value, bytes);
            return kSuccess;
          },
      .MatmulPreferenceCreate =
          [](MatmulPreference** preference) {
            return New(preference, MatmulPreference{0, 7, {256, 256, 256, 256}});
          },
      .MatmulPreferenceDestroy = [](MatmulPreference* preference) { return Delete(preference); },
      .MatmulPreferenceSetAttribute =
          [](MatmulPreference* preference, int32_t attribute, const void* value, size_t bytes) {
            if (attribute == kPrefMaxWorkspaceBytes && bytes == sizeof(preference->workspace_bytes)) {
              std::memcpy(&preference->workspace_bytes, value, bytes);
            } else if (attribute == kPrefReductionSchemeMask && bytes == sizeof(preference->reduction_mask)) {
              std::memcpy(&preference->reduction_mask, value, bytes);
            } else if (attribute >= kPrefMinAlignmentA && attribute <= kPrefMinAlignmentD && bytes == 4) {
              std::memcpy(&preference->alignments[attribute - kPrefMinAlignmentA], value, bytes);
            } else {
              return kInvalid;
            }
            return kSuccess;
          },
      .MatmulAlgoGetHeuristic = Heuristic,
      .MatmulAlgoCheck = Check,
      .Matmul = Matmul,
  };
  return table;
}

}  // namespace dunlin::kernels::cuda
