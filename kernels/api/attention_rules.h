// What no attention backend of any device takes, refused alike by all of them, and the collecting of reasons.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "kernels/api/attention.h"

namespace dunlin::kernels {

// Collects the reasons; builds a sentence only where somebody reads it.
class AttentionRefusals {
 public:
  // device: its name; reasons may be null.
  AttentionRefusals(AttentionBackend backend, const char* device, std::vector<std::string>* reasons)
      : backend_(backend), device_(device), reasons_(reasons) {}

  template <typename Sentence>
  void If(bool unmet, const Sentence& sentence) {
    if (!unmet) return;
    supported_ = false;
    if (reasons_ != nullptr) reasons_->push_back(std::string(Name(backend_)) + " on " + device_ + " " + sentence());
  }
  bool supported() const { return supported_; }

 private:
  AttentionBackend backend_;
  const char* device_;
  std::vector<std::string>* reasons_;
  bool supported_ = true;
};

// Heads and dims that make no sense.
inline void AddShapeRules(const AttentionTraits& traits, AttentionRefusals* refuse) {
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

// A backend's own limits.
struct AttentionLimits {
  int32_t max_head_dim;
  bool bias;
  bool mask;
};
inline constexpr int32_t kAnyHeadDim = std::numeric_limits<int32_t>::max();

inline void AddLimits(const AttentionLimits& limits, const AttentionTraits& traits, AttentionRefusals* refuse) {
  const auto dim_reason = [&](const char* name, int32_t dim) {
    return std::string("supports ") + name + " up to " + std::to_string(limits.max_head_dim) + "; " + name + " is " +
           std::to_string(dim);
  };
  refuse->If(traits.head_dim > limits.max_head_dim, [&] { return dim_reason("head_dim", traits.head_dim); });
  refuse->If(traits.v_head_dim > limits.max_head_dim, [&] { return dim_reason("v_head_dim", traits.v_head_dim); });
  refuse->If(traits.bias && !limits.bias, [] {
    return std::string("does not support a bias (a non-null floating-point attn_mask); math and efficient do");
  });
  refuse->If(traits.mask && !limits.mask, [] {
    return std::string("does not support a mask (a non-null boolean attn_mask); math and efficient do");
  });
}

// Windows, soft caps and masks that contradict each other, and what is for training.
inline void AddScoreRules(const AttentionTraits& traits, AttentionRefusals* refuse) {
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

// The traits of a call, to put to supports_attention.
inline AttentionTraits TraitsOf(const PagedAttentionParams& params) {
  return {.dtype = params.layout.dtype,
          .head_dim = params.layout.shape.head_dim,
          .num_heads = params.num_heads,
          .num_kv_heads = params.layout.shape.num_kv_heads,
          .window = params.window,
          .softcap = params.softcap,
          .causal = params.causal};
}
inline AttentionTraits TraitsOf(const DenseAttentionParams& params) {
  return {.dtype = params.dtype,
          .head_dim = params.head_dim,
          .num_heads = params.num_heads,
          .num_kv_heads = params.num_kv_heads,
          .window = params.window,
          .softcap = params.softcap,
          .causal = params.causal,
          .v_head_dim = params.v_head_dim,
          .bias = params.bias.data != nullptr,
          .mask = params.mask.data != nullptr,
          .alibi = params.alibi_slopes != nullptr,
          .dropout_probability = params.dropout_probability};
}

}  // namespace dunlin::kernels
