// SPDX-License-Identifier: Apache-2.0
// What each backend supports on the CPU; refusal reasons follow PyTorch's.
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/backends.h"

namespace dunlin::kernels::cpu {
bool SupportsAttention(const DeviceContext* /*context*/, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  AttentionRefusals refuse(backend, "cpu", reasons);
  AddShapeRules(traits, &refuse);
  AddLimits(BackendLimits(), backend, traits, &refuse);
  AddScoreRules(traits, &refuse);
  return refuse.supported();
}

}  // namespace dunlin::kernels::cpu
