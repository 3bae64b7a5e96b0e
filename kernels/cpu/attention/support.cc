// What each backend takes on the CPU, and why not, in PyTorch's kind of sentences.
#include <limits>
#include <string>

#include "kernels/cpu/attention/attention.h"

namespace dunlin::kernels::cpu {
namespace {

// One row per backend, by the enumerator. FLASH keeps a block's O, 48 rows x head_dim x 4 bytes, near a tile in the
// caches, and takes no matrix beside Q, K and V, as PyTorch's does not; the other two take any dim and any matrix.
// What no row names (window, softcap, ALiBi, causal, both alignments, dims of K and V apart) all three take.
struct Capability {
  AttentionBackend backend;
  int32_t max_head_dim;
  bool bias;
  bool mask;
};
constexpr int32_t kAnyDim = std::numeric_limits<int32_t>::max();
constexpr Capability kCapabilities[kNumAttentionBackends] = {
    {AttentionBackend::kMath, kAnyDim, true, true},
    {AttentionBackend::kFlash, 256, false, false},
    {AttentionBackend::kEfficient, kAnyDim, true, true},
};

// Collects the reasons; builds a sentence only where somebody reads it.
class Refusals {
 public:
  Refusals(AttentionBackend backend, std::vector<std::string>* reasons) : backend_(backend), reasons_(reasons) {}

  template <typename Sentence>
  void If(bool unmet, const Sentence& sentence) {
    if (!unmet) return;
    supported_ = false;
    if (reasons_ != nullptr) reasons_->push_back(std::string(Name(backend_)) + " on cpu " + sentence());
  }
  bool supported() const { return supported_; }

 private:
  AttentionBackend backend_;
  std::vector<std::string>* reasons_;
  bool supported_ = true;
};

// What this backend does not take.
void AddLimits(const Capability& capability, const AttentionTraits& traits, Refusals* refuse) {
  const auto dim_reason = [&](const char* name, int32_t dim) {
    return std::string("supports ") + name + " up to " + std::to_string(capability.max_head_dim) + "; " + name +
           " is " + std::to_string(dim);
  };
  refuse->If(traits.head_dim > capability.max_head_dim, [&] { return dim_reason("head_dim", traits.head_dim); });
  refuse->If(traits.v_head_dim > capability.max_head_dim, [&] { return dim_reason("v_head_dim", traits.v_head_dim); });
  refuse->If(traits.bias && !capability.bias, [] {
    return std::string("does not support a bias (a non-null floating-point attn_mask); math and efficient do");
  });
  refuse->If(traits.mask && !capability.mask, [] {
    return std::string("does not support a mask (a non-null boolean attn_mask); math and efficient do");
  });
}

// What no backend takes: refused alike by all three.
void AddShapeRules(const AttentionTraits& traits, Refusals* refuse) {
  refuse->If(traits.head_dim < 1,
             [&] { return "needs a head_dim of at least 1; head_dim is " + std::to_string(traits.head_dim); });
  refuse->If(traits.v_head_dim < 0, [&] {
    return "needs a v_head_dim of at least 0 (0 is head_dim); v_head_dim is " + std::to_string(traits.v_head_dim);
  });
  const bool has_heads = traits.num_heads >= 1 && traits.num_kv_heads >= 1;
  const auto counts = [&] {
    return "; num_heads is " + std::to_string(traits.num_heads) + ", num_kv_heads is " +
           std::to_string(traits.num_kv_heads);
  };
  refuse->If(!has_heads, [&] { return "needs at least one query head and one KV head" + counts(); });
  refuse->If(has_heads && traits.num_heads % traits.num_kv_heads != 0,
             [&] { return "needs num_heads to be a multiple of num_kv_heads" + counts(); });
}

void AddScoreRules(const AttentionTraits& traits, Refusals* refuse) {
  refuse->If(traits.window < 0, [&] {
    return "needs a window of at least 0 keys (0 is none); window is " + std::to_string(traits.window);
  });
  refuse->If(traits.window > 0 && !traits.causal, [&] {
    return "supports a window only with a causal mask; window is " + std::to_string(traits.window) +
           ", causal is false";
  });
  refuse->If(!(traits.softcap >= 0.0F && traits.softcap <= std::numeric_limits<float>::max()), [&] {
    return "needs a finite softcap of at least 0 (0 is none); softcap is " + std::to_string(traits.softcap);
  });
  refuse->If(traits.mask && traits.causal,
             [] { return std::string("does not support an explicit mask together with causal; set one of them"); });
  refuse->If(traits.dropout_probability != 0.0F, [&] {
    return "does not support dropout, which is for training; dropout_probability is " +
           std::to_string(traits.dropout_probability) + ", it must be 0";
  });
}

}  // namespace

bool SupportsAttention(const DeviceContext* /*context*/, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  Refusals refuse(backend, reasons);
  AddShapeRules(traits, &refuse);
  AddLimits(kCapabilities[static_cast<size_t>(backend)], traits, &refuse);
  AddScoreRules(traits, &refuse);
  return refuse.supported();
}

}  // namespace dunlin::kernels::cpu
