// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/attention_shape.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "kernels/api/compressed_attention.h"

namespace dunlin::engine {
namespace {

// What lies in pages: keys and values of layers, in their order, and after these, where attention is compressed, the
// entries of layers in the same order.
int32_t NumUnits(const ModelConfig& config) {
  return config.all_layers() * (config.attention.is_compressed() ? 2 : 1);
}
bool IsOfEntries(const ModelConfig& config, int32_t unit) {
  return unit >= config.all_layers();
}
int32_t LayerOfUnit(const ModelConfig& config, int32_t unit) {
  return unit % config.all_layers();
}

// Whether a layer's tokens may stop reading the first ones before the context ends.
bool Slides(const ModelConfig& config, int32_t unit) {
  if (config.is_encoder() || IsOfEntries(config, unit)) return false;
  const int32_t kept = config.attention.kept_tokens(unit);
  return config.attends(unit) && config.attention.causal && kept > 0 && kept < config.max_context;
}

// Whether there are such keys and values, or entries.
bool HasPlace(const ModelConfig& config, int32_t unit) {
  if (IsOfEntries(config, unit)) return config.attention.compressed.rate(LayerOfUnit(config, unit)) > 0;
  return config.attends(unit) && config.attention.stores_kv(unit);
}

// Of a token: heads of keys, and elements next to them.
struct UnitShape {
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t index_dim;

  friend bool operator==(const UnitShape&, const UnitShape&) = default;
};

UnitShape UnitShapeOf(const ModelConfig& config, int32_t unit) {
  const AttentionSpec& attention = config.attention;
  const int32_t layer = LayerOfUnit(config, unit);
  const HeadShape heads = attention.heads(layer);
  if (!attention.is_compressed()) return {heads.num_kv_heads, heads.head_dim, attention.indexer.dim};
  const int32_t rate = attention.compressed.rate(layer);
  if (!IsOfEntries(config, unit) || rate == 0) {
    return {heads.num_kv_heads, heads.head_dim, attention.compressed_row_features(layer)};
  }
  return {0, heads.head_dim, kernels::EntryIndexDim(attention.entry_dim(layer), rate)};
}

int32_t CeilDiv(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

// Layers whose keys and values are given back alike and have one shape: they share pages.
struct LayerKind {
  bool slides;
  UnitShape shape;
  int32_t first_unit = 0;
  int32_t num_layers = 0;
  int32_t per_page = 0;

  int32_t num_groups() const { return CeilDiv(num_layers, per_page); }
};

bool IsOf(const LayerKind& kind, const ModelConfig& config, int32_t unit) {
  return kind.slides == Slides(config, unit) && kind.shape == UnitShapeOf(config, unit);
}

// Elements of a token in a layer.
int64_t WidthOf(const LayerKind& kind) {
  const int64_t padded_dim = (kind.shape.head_dim + 1) / 2 * int64_t{2};
  return kind.shape.num_kv_heads * padded_dim + kind.shape.index_dim;
}

// Without those that slide, then these.
std::vector<LayerKind> ListKinds(const ModelConfig& config) {
  if (config.is_encoder()) return {{.slides = false, .shape = UnitShapeOf(config, 0), .num_layers = 1}};
  std::vector<LayerKind> kinds;
  for (const bool slides : {false, true}) {
    for (int32_t unit = 0; unit < NumUnits(config); ++unit) {
      if (!HasPlace(config, unit) || Slides(config, unit) != slides) continue;
      auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return IsOf(k, config, unit); });
      if (kind == kinds.end()) {
        kind = kinds.insert(kind, {.slides = slides, .shape = UnitShapeOf(config, unit), .first_unit = unit});
      }
      ++kind->num_layers;
    }
  }
  // Of a model that never attends pages hold nothing: the prefix cache and the scheduler count tokens by them.
  if (kinds.empty()) kinds.push_back({.slides = false, .shape = UnitShapeOf(config, 0), .num_layers = 1});
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

// Where entries stay and what they are made of slides, elements of a token in pages that stay come first.
constexpr int64_t kMaxGroupsBesideEntries = 48;

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
    int64_t staying = 0;  // groups
    for (LayerKind& kind : kinds) {
      kind.per_page = static_cast<int32_t>(width / WidthOf(kind));
      groups += kind.num_groups();
      staying += kind.slides ? 0 : kind.num_groups();
    }
    const int64_t empty = groups * width - used;
    const bool many_empty = 16 * empty > used;
    auto rank = std::make_tuple(groups > kMaxKvGroups, many_empty, many_empty ? empty : groups);
    if (config.attention.is_compressed()) rank = {groups > kMaxGroupsBesideEntries, false, staying * width};
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
    if (!Slides(config, layer)) continue;
    // A step begins with the row that predicts from the position before it.
    const int32_t before = config.predicts(layer) ? 1 : 0;
    groups.window = std::max(groups.window, config.attention.kept_tokens(layer) + before);
  }
  return groups;
}

std::vector<KvPlace> KvPlacesOf(const ModelConfig& config) {
  std::vector<KvPlace> places(static_cast<size_t>(NumUnits(config)));
  if (config.is_encoder()) return places;
  int32_t first_group = 0;
  int32_t shape = 0;
  for (const LayerKind& kind : KindsOf(config)) {
    int32_t index = 0;
    for (int32_t unit = 0; unit < NumUnits(config); ++unit) {
      if (!HasPlace(config, unit) || !IsOf(kind, config.undivided(), unit)) continue;
      places[static_cast<size_t>(unit)] = {
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
                      .num_kv_heads = UnitShapeOf(config, kind.first_unit).num_kv_heads,
                      .head_dim = kind.shape.head_dim,
                      .v_head_dim = config.attention.is_latent() ? config.attention.value_dim() : kind.shape.head_dim,
                      .values_in_keys = config.attention.values_in_keys(),
                      .index_dim = kind.shape.index_dim});
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
                      .values_in_keys = config.attention.values_in_keys()});
  }
  return traits;
}

}  // namespace dunlin::engine
