// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/attention_shape.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace dunlin::engine {
namespace {

// Whether a layer's tokens may stop seeing the first ones before the context ends.
bool Slides(const ModelConfig& config, int32_t layer) {
  return !config.is_encoder() && config.attends(layer) && config.attention.causal &&
         config.attention.window(layer) > 0 && config.attention.window(layer) < config.max_context;
}

// Whether a layer has keys and values of its own.
bool HasPlace(const ModelConfig& config, int32_t layer) {
  return config.attends(layer) && config.attention.stores_kv(layer);
}

int32_t CeilDiv(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

// Layers whose keys and values are given back alike and have one shape: they share pages.
struct LayerKind {
  bool slides;
  HeadShape heads;
  int32_t first_layer = 0;
  int32_t num_layers = 0;
  int32_t per_page = 0;

  int32_t num_groups() const { return CeilDiv(num_layers, per_page); }
};

bool IsOf(const LayerKind& kind, const ModelConfig& config, int32_t layer) {
  const HeadShape heads = config.attention.heads(layer);
  return kind.slides == Slides(config, layer) && kind.heads.num_kv_heads == heads.num_kv_heads &&
         kind.heads.head_dim == heads.head_dim;
}

// Elements of a token in a layer.
int64_t WidthOf(const LayerKind& kind) {
  const int64_t padded_dim = (kind.heads.head_dim + 1) / 2 * int64_t{2};
  return kind.heads.num_kv_heads * padded_dim;
}

// Without those that slide, then these.
std::vector<LayerKind> ListKinds(const ModelConfig& config) {
  if (config.is_encoder()) return {{.slides = false, .heads = config.attention.heads(0), .num_layers = 1}};
  std::vector<LayerKind> kinds;
  for (const bool slides : {false, true}) {
    for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
      if (!HasPlace(config, layer) || Slides(config, layer) != slides) continue;
      auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return IsOf(k, config, layer); });
      if (kind == kinds.end()) {
        kind = kinds.insert(kind, {.slides = slides, .heads = config.attention.heads(layer), .first_layer = layer});
      }
      ++kind->num_layers;
    }
  }
  // Of a model that never attends pages hold nothing: the prefix cache and the scheduler count tokens by them.
  if (kinds.empty()) kinds.push_back({.slides = false, .heads = config.attention.heads(0), .num_layers = 1});
  return kinds;
}

// Elements of a token that pages may hold: whole layers of one kind, at least one of every kind. Ascending.
std::set<int64_t> PageWidths(const std::vector<LayerKind>& kinds) {
  int64_t widest = 0;
  for (const LayerKind& kind : kinds) widest = std::max(widest, WidthOf(kind));
  std::set<int64_t> widths;
  for (const LayerKind& kind : kinds) {
    for (int32_t layers = 1; layers <= kind.num_layers; ++layers) {
      if (layers * WidthOf(kind) >= widest) widths.insert(layers * WidthOf(kind));
    }
  }
  widths.insert(widest);
  return widths;
}

// The kinds of a model's layers, with the layers of each in a page: of all ranks of a divided model the same.
std::vector<LayerKind> KindsOf(const ModelConfig& rank_config) {
  const ModelConfig& config = rank_config.undivided();
  std::vector<LayerKind> kinds = ListKinds(config);
  int64_t used = 0;
  for (const LayerKind& kind : kinds) used += kind.num_layers * WidthOf(kind);
  auto best = std::make_tuple(true, true, std::numeric_limits<int64_t>::max());
  std::vector<LayerKind> chosen;
  for (const int64_t width : PageWidths(kinds)) {
    int64_t groups = 0;
    for (LayerKind& kind : kinds) {
      kind.per_page = static_cast<int32_t>(width / WidthOf(kind));
      groups += kind.num_groups();
    }
    const int64_t empty = groups * width - used;
    const bool many_empty = 16 * empty > used;
    const auto rank = std::make_tuple(groups > kMaxKvGroups, many_empty, many_empty ? empty : groups);
    if (!chosen.empty() && rank >= best) continue;
    best = rank;
    chosen = kinds;
  }
  return chosen;
}

}  // namespace

KvGroups KvGroupsOf(const ModelConfig& config) {
  KvGroups groups{.num_full = 0};
  for (const LayerKind& kind : KindsOf(config)) {
    groups.layers_per_page = std::max(groups.layers_per_page, kind.per_page);
    (kind.slides ? groups.num_sliding : groups.num_full) += kind.num_groups();
  }
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    if (Slides(config, layer)) groups.window = std::max(groups.window, config.attention.window(layer));
  }
  return groups;
}

std::vector<KvPlace> KvPlacesOf(const ModelConfig& config) {
  std::vector<KvPlace> places(static_cast<size_t>(config.all_layers()));
  if (config.is_encoder()) return places;
  int32_t first_group = 0;
  int32_t shape = 0;
  for (const LayerKind& kind : KindsOf(config)) {
    int32_t index = 0;
    for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
      if (!HasPlace(config, layer) || !IsOf(kind, config.undivided(), layer)) continue;
      places[static_cast<size_t>(layer)] = {
          .group = first_group + index / kind.per_page, .layer_in_page = index % kind.per_page, .shape = shape};
      ++index;
    }
    first_group += kind.num_groups();
    ++shape;
  }
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    places[static_cast<size_t>(layer)] = places[static_cast<size_t>(config.attention.kv_source(layer))];
  }
  return places;
}

std::vector<kernels::KvShape> KvShapesOf(const ModelConfig& config) {
  std::vector<kernels::KvShape> shapes;
  for (const LayerKind& kind : KindsOf(config)) {
    shapes.push_back({.num_layers = kind.per_page,
                      .num_kv_heads = config.attention.heads(kind.first_layer).num_kv_heads,
                      .head_dim = kind.heads.head_dim,
                      .v_head_dim = config.attention.is_latent() ? config.attention.value_dim() : kind.heads.head_dim,
                      .values_in_keys = config.attention.is_latent(),
                      .index_dim = config.attention.indexer.dim});
  }
  return shapes;
}

kernels::KvShape KvShapeOf(const ModelConfig& config) {
  return KvShapesOf(config).front();
}

kernels::KvLayout KvLayoutOf(std::span<const kernels::KvShape> shapes, size_t index, kernels::DType dtype) {
  size_t page_bytes = 0;
  for (const kernels::KvShape& shape : shapes) {
    page_bytes = std::max(page_bytes, kernels::MakeKvLayout(dtype, shape).page_bytes);
  }
  return kernels::MakeKvLayout(dtype, shapes[index], page_bytes);
}

kernels::KvLayout KvLayoutOf(std::span<const kernels::KvShape> shapes, size_t index, Precision precision, bool kv_fp8) {
  const kernels::DType own = kernels::Traits(precision).kv_dtype;
  if (!kv_fp8) return KvLayoutOf(shapes, index, own);
  const kernels::KvLayout fp8 = KvLayoutOf(shapes, index, kernels::DType::kF8E4M3);
  return precision == Precision::kFp8 ? fp8 : kernels::MakeKvLayout(own, shapes[index], fp8.page_bytes);
}

kernels::KvLayout KvLayoutOf(const ModelConfig& config, Precision precision, bool kv_fp8) {
  return KvLayoutOf(KvShapesOf(config), 0, precision, kv_fp8);
}

std::vector<kernels::AttentionTraits> AttentionTraitsOf(const ModelConfig& config, kernels::DType kv_dtype) {
  if (config.num_kv_layers() == 0) return {};
  const std::vector<int32_t>& windows = config.attention.layer_windows;
  std::vector<HeadShape> shapes = config.attention.layer_heads;
  if (shapes.empty()) shapes.push_back(config.attention.heads(0));
  std::vector<kernels::AttentionTraits> traits;
  for (auto heads = shapes.begin(); heads != shapes.end(); ++heads) {
    if (std::find(shapes.begin(), heads, *heads) != heads) continue;
    traits.push_back({.dtype = kv_dtype,
                      .head_dim = heads->head_dim,
                      .num_heads = heads->num_heads,
                      .num_kv_heads = heads->num_kv_heads,
                      .window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end()),
                      .softcap = config.attention.softcap,
                      .causal = config.attention.causal,
                      .sinks = config.attention.sinks,
                      .v_head_dim = config.attention.is_latent() ? config.attention.value_dim() : heads->head_dim,
                      .values_in_keys = config.attention.is_latent()});
  }
  return traits;
}

}  // namespace dunlin::engine
