// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/cublaslt/cublaslt_library.h"

#include <dlfcn.h>

#include "kernels/cuda/gemm/cublaslt/cublaslt_search.h"

namespace dunlin::kernels::cuda {
namespace {

template <typename Function>
void Find(void* library, const char* name, Function* function, std::string* error) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && error->empty()) *error = std::string("the cuBLASLt library has no ") + name;
}

// Fills the table; *error stays empty when the library is usable.
void FindFunctions(void* library, CublasLt* cublas, std::string* error) {
  Find(library, "cublasLtGetVersion", &cublas->GetVersion, error);
  Find(library, "cublasLtCreate", &cublas->Create, error);
  Find(library, "cublasLtDestroy", &cublas->Destroy, error);
  Find(library, "cublasLtMatmulDescCreate", &cublas->MatmulDescCreate, error);
  Find(library, "cublasLtMatmulDescDestroy", &cublas->MatmulDescDestroy, error);
  Find(library, "cublasLtMatmulDescSetAttribute", &cublas->MatmulDescSetAttribute, error);
  Find(library, "cublasLtMatrixLayoutCreate", &cublas->MatrixLayoutCreate, error);
  Find(library, "cublasLtMatrixLayoutDestroy", &cublas->MatrixLayoutDestroy, error);
  Find(library, "cublasLtMatrixLayoutSetAttribute", &cublas->MatrixLayoutSetAttribute, error);
  Find(library, "cublasLtMatmulPreferenceCreate", &cublas->MatmulPreferenceCreate, error);
  Find(library, "cublasLtMatmulPreferenceDestroy", &cublas->MatmulPreferenceDestroy, error);
  Find(library, "cublasLtMatmulPreferenceSetAttribute", &cublas->MatmulPreferenceSetAttribute, error);
  Find(library, "cublasLtMatmulAlgoGetHeuristic", &cublas->MatmulAlgoGetHeuristic, error);
  Find(library, "cublasLtMatmulAlgoCheck", &cublas->MatmulAlgoCheck, error);
  Find(library, "cublasLtMatmul", &cublas->Matmul, error);
  if (!error->empty()) return;
  const size_t version = cublas->GetVersion();
  if (version >= kCublasVersionMin) return;
  *error = "cuBLASLt has version " + std::to_string(version) + "; it needs " + std::to_string(kCublasVersionMin) +
           " or later";
}

}  // namespace

bool LoadCublasLt(const std::string& setting, CublasLt* cublas, std::string* error) {
  error->clear();
  for (const std::string& candidate : CublasCandidates(setting)) {
    std::string reason;
    void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reason = std::string("cuBLASLt cannot be loaded: ") + dlerror();
    } else {
      FindFunctions(library, cublas, &reason);
      if (reason.empty()) return true;
      dlclose(library);
    }
    *error += (error->empty() ? "" : "; ") + reason;
  }
  if (error->empty()) *error = "there is no cuBLASLt (libcublasLt.so.13 or .12) in " + setting;
  if (setting.empty()) *error += "; install cuBLAS, or say where it is in compute.cublas_library";
  return false;
}

std::string PathOf(const CublasLt& cublas) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(cublas.GetVersion), &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace dunlin::kernels::cuda
