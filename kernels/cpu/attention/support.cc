// What each backend takes on the CPU, and why not, in PyTorch's kind of sentences.
#include "kernels/api/attention_rules.h"
#include "kernels/cpu/attention/attention.h"

namespace dunlin::kernels::cpu {
namespace {

// One row per backend, by the enumerator. FLASH keeps a block's O, its rows x head_dim x 4 bytes, near a tile in the
// caches, and takes no matrix beside Q, K and V, as PyTorch's does not; the other two take any dim and any matrix.
// What no row names (window, softcap, ALiBi, causal, both alignments, dims of K and V apart) all three take.
struct Capability {
  AttentionBackend backend;
  AttentionLimits limits;
};
constexpr Capability kCapabilities[kNumAttentionBackends] = {
    {AttentionBackend::kMath, {kAnyHeadDim, true, true}},
    {AttentionBackend::kFlash, {256, false, false}},
    {AttentionBackend::kEfficient, {kAnyHeadDim, true, true}},
};

}  // namespace

bool SupportsAttention(const DeviceContext* /*context*/, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  AttentionRefusals refuse(backend, "cpu", reasons);
  AddShapeRules(traits, &refuse);
  AddLimits(kCapabilities[static_cast<size_t>(backend)].limits, traits, &refuse);
  AddScoreRules(traits, &refuse);
  return refuse.supported();
}

}  // namespace dunlin::kernels::cpu
