// SPDX-License-Identifier: Apache-2.0
#include "engine/model/attention_shape.h"

#include <algorithm>

namespace dunlin::engine {

kernels::KvShape KvShapeOf(const ModelConfig& config) {
  return {.num_layers = config.num_kv_layers(), .num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim};
}

kernels::KvLayout KvLayoutOf(const ModelConfig& config, Precision precision, bool kv_fp8) {
  const kernels::KvShape shape = KvShapeOf(config);
  const kernels::DType own = kernels::Traits(precision).kv_dtype;
  if (!kv_fp8) return kernels::MakeKvLayout(own, shape);
  const kernels::KvLayout fp8 = kernels::MakeKvLayout(kernels::DType::kF8E4M3, shape);
  return precision == Precision::kFp8 ? fp8 : kernels::MakeKvLayout(own, shape, fp8.page_bytes);
}

kernels::AttentionTraits AttentionTraitsOf(const ModelConfig& config, kernels::DType kv_dtype) {
  const std::vector<int32_t>& windows = config.layer_windows;
  return {.dtype = kv_dtype,
          .head_dim = config.head_dim,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end()),
          .softcap = config.attention_softcap,
          .causal = config.causal,
          .sinks = config.attention_sinks};
}

}  // namespace dunlin::engine
