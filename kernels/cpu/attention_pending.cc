// Stands in for the attention entries while kernels/cpu/attention/ is being written; goes with its first full build.
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/rotary.h"

#define DUNLIN_PENDING __attribute__((weak))

namespace dunlin::kernels::cpu {

DUNLIN_PENDING bool SupportsAttention(const DeviceContext*, AttentionBackend, const AttentionTraits&,
                                      std::vector<std::string>* reasons) {
  if (reasons != nullptr) reasons->emplace_back("attention is not built into this binary");
  return false;
}
DUNLIN_PENDING size_t PagedAttentionWorkspace(const DeviceContext*, AttentionBackend, const PagedAttentionPlan&) { return 0; }
DUNLIN_PENDING KernelStatus PagedAttention(DeviceContext*, const PagedAttentionParams&) { return KernelStatus::kUnsupported; }
DUNLIN_PENDING size_t DenseAttentionWorkspace(const DeviceContext*, const DenseAttentionParams&) { return 0; }
DUNLIN_PENDING KernelStatus DenseAttention(DeviceContext*, const DenseAttentionParams&) { return KernelStatus::kUnsupported; }
DUNLIN_PENDING KernelStatus RotaryTable(DeviceContext*, const RotaryTableParams&) { return KernelStatus::kUnsupported; }
DUNLIN_PENDING KernelStatus RotateAndStoreKv(DeviceContext*, const RotateAndStoreKvParams&) { return KernelStatus::kUnsupported; }

}  // namespace dunlin::kernels::cpu
