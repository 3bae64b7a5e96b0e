#include "kernels/cuda/cublaslt_library.h"

#include <dlfcn.h>

namespace dunlin::kernels::cuda {
namespace {

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

void* Open(const std::string& path, std::string* error) {
  if (!path.empty()) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) *error = std::string("cuBLASLt cannot be loaded: ") + dlerror();
    return library;
  }
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  *error =
      "cuBLASLt is not found (libcublasLt.so.13 or .12); install cuBLAS, or name the file in compute.cublas_library";
  return nullptr;
}

template <typename Function>
void Find(void* library, const char* name, Function* function, std::string* error) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && error->empty()) *error = std::string("the cuBLASLt library has no ") + name;
}

}  // namespace

bool LoadCublasLt(const std::string& path, CublasLt* cublas, std::string* error) {
  error->clear();
  void* library = Open(path, error);
  if (library == nullptr) return false;
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
  if (!error->empty()) return false;
  const size_t version = cublas->GetVersion();
  if (version >= kCublasVersionMin) return true;
  *error = "cuBLASLt has version " + std::to_string(version) + "; it needs " + std::to_string(kCublasVersionMin) +
           " or later";
  return false;
}

}  // namespace dunlin::kernels::cuda
