// SPDX-License-Identifier: Apache-2.0
// The refusals that the attention backends of all devices share, and the collection of their reasons. Host code.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "kernels/api/attention.h"

namespace dunlin::kernels {

// Collects the reasons against a call. A sentence is built only when the caller wants the reasons.
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

// Head counts and dims that contradict each other.
inline void AddShapeRules(const AttentionTraits& traits, AttentionRefusals* refuse) {
  refuse->If(traits.head_dim < 1,
             [&] { return "needs a head_dim of at least 1; head_dim is " + std::to_string(traits.head_dim); });
  refuse->If(traits.v_head_dim < 0, [&] {
    return "needs a v_head_dim of at least 0 (0 is head_dim); v_head_dim is " + std::to_string(traits.v_head_dim);
  });
  const int32_t plain_dims = traits.head_dim - traits.v_head_dim;
  refuse->If(traits.values_in_keys && (traits.v_head_dim < 1 || plain_dims < 0 || plain_dims % 2 != 0), [&] {
    return "takes values that are in keys where v_head_dim is 1 to head_dim and an even number less; v_head_dim is " +
           std::to_string(traits.v_head_dim) + ", head_dim is " + std::to_string(traits.head_dim);
  });
  refuse->If(traits.values_in_keys && traits.dtype == DType::kF8E4M3,
             [] { return std::string("does not support values that are in keys in fp8_e4m3 pages"); });
  const bool has_heads = traits.num_heads >= 1 && traits.num_kv_heads >= 1;
  const auto counts = [&] {
    return "; num_heads is " + std::to_string(traits.num_heads) + ", num_kv_heads is " +
           std::to_string(traits.num_kv_heads);
  };
  refuse->If(!has_heads, [&] { return "needs at least one query head and one KV head" + counts(); });
  refuse->If(has_heads && traits.num_heads % traits.num_kv_heads != 0,
             [&] { return "needs num_heads to be a multiple of num_kv_heads" + counts(); });
}

// Limits of one backend on one device; a row of zeros is a backend that the device does not have.
struct AttentionLimits {
  int32_t max_head_dim = 0;  // of queries, keys and values
  bool bias = false;         // takes AttentionTraits::bias
  bool mask = false;         // takes AttentionTraits::mask
  // Of keys that hold their values (AttentionTraits::values_in_keys), where it is larger than max_head_dim.
  int32_t max_latent_dim = 0;
};
inline constexpr int32_t kAnyHeadDim = std::numeric_limits<int32_t>::max();
// By AttentionBackend.
using AttentionLimitsTable = std::array<AttentionLimits, kNumAttentionBackends>;

// "math and efficient do"
inline std::string BackendsWith(bool AttentionLimits::*feature, const AttentionLimitsTable& device) {
  std::vector<std::string> names;
  for (const AttentionBackendTraits& row : kAttentionBackendTable) {
    if (device[static_cast<size_t>(row.backend)].*feature) names.emplace_back(row.name);
  }
  if (names.empty()) return "no backend does";
  return ListInWords(names) + (names.size() == 1 ? " does" : " do");
}

// `device`: the limits of all of a device's backends.
inline void AddLimits(const AttentionLimitsTable& device, AttentionBackend backend, const AttentionTraits& traits,
                      AttentionRefusals* refuse) {
  const AttentionLimits& limits = device[static_cast<size_t>(backend)];
  if (limits.max_head_dim == 0) return refuse->If(true, [] { return std::string("is not implemented"); });
  const int32_t most = std::max(limits.max_head_dim, traits.values_in_keys ? limits.max_latent_dim : 0);
  const auto dim_reason = [&](const char* name, int32_t dim) {
    return std::string("supports ") + name + " up to " + std::to_string(most) + "; " + name + " is " +
           std::to_string(dim);
  };
  refuse->If(traits.head_dim > most, [&] { return dim_reason("head_dim", traits.head_dim); });
  refuse->If(traits.v_head_dim > most, [&] { return dim_reason("v_head_dim", traits.v_head_dim); });
  refuse->If(traits.bias && !limits.bias, [&] {
    return "does not support a bias (a non-null floating-point attn_mask); " +
           BackendsWith(&AttentionLimits::bias, device);
  });
  refuse->If(traits.mask && !limits.mask, [&] {
    return "does not support a mask (a non-null boolean attn_mask); " + BackendsWith(&AttentionLimits::mask, device);
  });
}

// Windows, soft caps and masks that contradict each other.
inline void AddScoreRules(const AttentionTraits& traits, AttentionRefusals* refuse) {
  refuse->If(traits.window < 0, [&] {
    return "needs a window of at least 0 keys (0 is none); window is " + std::to_string(traits.window);
  });
  refuse->If(traits.window > 0 && traits.window % 2 == 0 && !traits.causal,
             [&] { return "needs an odd window without a causal mask; window is " + std::to_string(traits.window); });
  refuse->If(!(traits.softcap >= 0.0F && traits.softcap <= std::numeric_limits<float>::max()), [&] {
    return "needs a finite softcap of at least 0 (0 is none); softcap is " + std::to_string(traits.softcap);
  });
  refuse->If(traits.mask && traits.causal,
             [] { return std::string("does not support an explicit mask together with causal; set one of them"); });
}

// The traits of a call, for supports_attention.
inline AttentionTraits TraitsOf(const PagedAttentionParams& params) {
  return {.dtype = params.layout.dtype,
          .head_dim = params.layout.shape.head_dim,
          .num_heads = params.num_heads,
          .num_kv_heads = params.layout.shape.num_kv_heads,
          .window = params.window,
          .softcap = params.softcap,
          .causal = params.causal,
          .sinks = params.sinks != nullptr,
          .v_head_dim = params.layout.shape.v_head_dim,
          .values_in_keys = params.layout.shape.values_in_keys};
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
          .mask = params.mask.data != nullptr};
}

}  // namespace dunlin::kernels
