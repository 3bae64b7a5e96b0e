// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/attention_shape.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace dunlin::engine {
namespace {

// Whether a layer's tokens may stop seeing the first ones before the context ends.
bool Slides(const ModelConfig& config, int32_t layer) {
  return !config.is_encoder() && config.attends(layer) && config.attention.causal &&
         config.attention.window(layer) > 0 && config.attention.window(layer) < config.max_context;
}

int32_t CeilDiv(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

}  // namespace

KvGroups KvGroupsOf(const ModelConfig& config) {
  const int32_t num_layers = config.num_kv_layers();
  KvGroups groups{.layers_per_page = num_layers};
  int32_t num_sliding = 0;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    if (!Slides(config, layer)) continue;
    ++num_sliding;
    groups.window = std::max(groups.window, config.attention.window(layer));
  }
  const int32_t num_full = num_layers - num_sliding;
  auto best = std::make_tuple(true, true, std::numeric_limits<int32_t>::max());
  for (int32_t layers = 1; layers <= num_layers; ++layers) {
    const int32_t full = CeilDiv(num_full, layers);
    const int32_t sliding = CeilDiv(num_sliding, layers);
    const int32_t num_empty = (full + sliding) * layers - num_layers;
    const bool many_empty = num_empty > num_layers / 16;
    const auto rank =
        std::make_tuple(full + sliding > kMaxKvGroups, many_empty, many_empty ? num_empty : full + sliding);
    if (rank >= best) continue;
    best = rank;
    groups.layers_per_page = layers;
    groups.num_full = full;
    groups.num_sliding = sliding;
  }
  return groups;
}

std::vector<KvPlace> KvPlacesOf(const ModelConfig& config, const KvGroups& groups) {
  std::vector<KvPlace> places(static_cast<size_t>(config.num_layers));
  if (config.is_encoder()) return places;
  int32_t num_full = 0;  // layers so far
  int32_t num_sliding = 0;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.attends(layer)) continue;
    const bool slides = Slides(config, layer);
    const int32_t index = slides ? num_sliding++ : num_full++;
    places[static_cast<size_t>(layer)] = {.group = (slides ? groups.num_full : 0) + index / groups.layers_per_page,
                                          .layer_in_page = index % groups.layers_per_page};
  }
  return places;
}

kernels::KvShape KvShapeOf(const ModelConfig& config) {
  return {.num_layers = KvGroupsOf(config).layers_per_page,
          .num_kv_heads = config.attention.num_kv_heads,
          .head_dim = config.attention.head_dim,
          .v_head_dim = config.attention.value_dim(),
          .values_in_keys = config.attention.is_latent()};
}

kernels::KvLayout KvLayoutOf(const kernels::KvShape& shape, Precision precision, bool kv_fp8) {
  const kernels::DType own = kernels::Traits(precision).kv_dtype;
  if (!kv_fp8) return kernels::MakeKvLayout(own, shape);
  const kernels::KvLayout fp8 = kernels::MakeKvLayout(kernels::DType::kF8E4M3, shape);
  return precision == Precision::kFp8 ? fp8 : kernels::MakeKvLayout(own, shape, fp8.page_bytes);
}

kernels::KvLayout KvLayoutOf(const ModelConfig& config, Precision precision, bool kv_fp8) {
  return KvLayoutOf(KvShapeOf(config), precision, kv_fp8);
}

kernels::AttentionTraits AttentionTraitsOf(const ModelConfig& config, kernels::DType kv_dtype) {
  const std::vector<int32_t>& windows = config.attention.layer_windows;
  return {.dtype = kv_dtype,
          .head_dim = config.attention.head_dim,
          .num_heads = config.attention.num_heads,
          .num_kv_heads = config.attention.num_kv_heads,
          .window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end()),
          .softcap = config.attention.softcap,
          .causal = config.attention.causal,
          .sinks = config.attention.sinks,
          .v_head_dim = config.attention.value_dim(),
          .values_in_keys = config.attention.is_latent()};
}

}  // namespace dunlin::engine
