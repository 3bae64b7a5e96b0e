// Which backend can serve which model on the CPU, in PyTorch's kind of sentences.
#include <limits>
#include <string>

#include "kernels/cpu/attention/attention.h"

namespace dunlin::kernels::cpu {
namespace {

// FLASH keeps a block's O, 48 rows x head_dim x 4 bytes, in the L1 cache beside a tile; EFFICIENT and MATH take any
// dim.
constexpr int32_t kFlashMaxHeadDim = 256;

}  // namespace

// Asked on every launch too: a supported call builds no string.
bool SupportsAttention(const DeviceContext* /*context*/, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  bool supported = true;
  const auto refuse = [&](const std::string& reason) {
    supported = false;
    if (reasons != nullptr) reasons->push_back(std::string(Name(backend)) + " on cpu " + reason);
  };
  if (traits.dtype != DType::kF32 && traits.dtype != DType::kF16 && traits.dtype != DType::kBF16) {
    refuse(std::string("supports the KV dtypes fp32, fp16 and bf16; the KV dtype is ") + Name(traits.dtype));
  }
  if (traits.head_dim < 1) {
    refuse("needs a head_dim of at least 1; head_dim is " + std::to_string(traits.head_dim));
  }
  if (backend == AttentionBackend::kFlash && traits.head_dim > kFlashMaxHeadDim) {
    refuse("supports head_dim up to " + std::to_string(kFlashMaxHeadDim) + "; head_dim is " +
           std::to_string(traits.head_dim));
  }
  if (traits.num_heads < 1 || traits.num_kv_heads < 1) {
    refuse("needs at least one query head and one KV head; num_heads is " + std::to_string(traits.num_heads) +
           ", num_kv_heads is " + std::to_string(traits.num_kv_heads));
  } else if (traits.num_heads % traits.num_kv_heads != 0) {
    refuse("needs num_heads to be a multiple of num_kv_heads; num_heads is " + std::to_string(traits.num_heads) +
           ", num_kv_heads is " + std::to_string(traits.num_kv_heads));
  }
  if (traits.window < 0) {
    refuse("needs a window of at least 0 keys (0 is none); window is " + std::to_string(traits.window));
  } else if (traits.window > 0 && !traits.causal) {
    refuse("supports a window only with a causal mask; window is " + std::to_string(traits.window) +
           ", causal is false");
  }
  if (!(traits.softcap >= 0.0F && traits.softcap <= std::numeric_limits<float>::max())) {
    refuse("needs a finite softcap of at least 0 (0 is none); softcap is " + std::to_string(traits.softcap));
  }
  return supported;
}

}  // namespace dunlin::kernels::cpu
