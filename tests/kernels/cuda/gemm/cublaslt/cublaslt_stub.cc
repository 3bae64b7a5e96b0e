// SPDX-License-Identifier: Apache-2.0
// A library with cuBLASLt's symbols and version DUNLIN_STUB_VERSION that does nothing, for tests of the search.
#include <cstddef>

#define DUNLIN_STUB(name) \
  extern "C" int name() { \
    return 0;             \
  }

extern "C" size_t cublasLtGetVersion() {
  return DUNLIN_STUB_VERSION;
}
DUNLIN_STUB(cublasLtCreate)
DUNLIN_STUB(cublasLtDestroy)
DUNLIN_STUB(cublasLtMatmulDescCreate)
DUNLIN_STUB(cublasLtMatmulDescDestroy)
DUNLIN_STUB(cublasLtMatmulDescSetAttribute)
DUNLIN_STUB(cublasLtMatrixLayoutCreate)
DUNLIN_STUB(cublasLtMatrixLayoutDestroy)
DUNLIN_STUB(cublasLtMatrixLayoutSetAttribute)
DUNLIN_STUB(cublasLtMatmulPreferenceCreate)
DUNLIN_STUB(cublasLtMatmulPreferenceDestroy)
DUNLIN_STUB(cublasLtMatmulPreferenceSetAttribute)
DUNLIN_STUB(cublasLtMatmulAlgoGetHeuristic)
DUNLIN_STUB(cublasLtMatmulAlgoCheck)
DUNLIN_STUB(cublasLtMatmul)
