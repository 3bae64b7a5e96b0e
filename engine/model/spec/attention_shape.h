// SPDX-License-Identifier: Apache-2.0
// What a model's attention requires of the kernels: the layout of its KV pages, and the traits a backend must support.
// Pure.
#pragma once

#include <span>
#include <vector>

#include "engine/model/spec/model_config.h"
#include "engine/request/kv_groups.h"
#include "engine/request/types.h"
#include "kernels/api/attention.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::engine {

// One group where all layers are of one kind: keys and values of one shape, with windows shorter than the context or
// without. Of several kinds, the fewest groups that leave at most a sixteenth of their pages empty or, if none of up to
// kMaxKvGroups do, those that leave the least empty. An encoder has one group.
inline constexpr int32_t kMaxKvGroups = 16;
inline constexpr size_t kMaxKvShapes = 6;
KvGroups KvGroupsOf(const ModelConfig& config);
// [all_layers] Layers that read the keys and values of another have its place, all layers of an encoder one; what
// stands for layers without attention is not read. Where attention is compressed, [2 * all_layers]: then the places of
// their entries.
std::vector<KvPlace> KvPlacesOf(const ModelConfig& config);

// Of pages, whose layers are those of one group, by KvPlace::shape: 1 to kMaxKvShapes.
std::vector<kernels::KvShape> KvShapesOf(const ModelConfig& config);
// The first of them.
kernels::KvShape KvShapeOf(const ModelConfig& config);

// The pages of shapes[index] that hold keys and values of a dtype; their size is that of the largest shape.
kernels::KvLayout KvLayoutOf(std::span<const kernels::KvShape> shapes, size_t index, kernels::DType dtype);
// The same of a precision. kv_fp8: the pool is planned for E4M3 pages in FP8; then every page of the pool has the size
// of an E4M3 page, the largest.
kernels::KvLayout KvLayoutOf(std::span<const kernels::KvShape> shapes, size_t index, Precision precision, bool kv_fp8);
// Of the first shape.
kernels::KvLayout KvLayoutOf(const ModelConfig& config, Precision precision, bool kv_fp8 = false);

// Of the layers of each head shape. kv_dtype: of keys and values. window is the widest of the model's, 0 when no layer
// has one.
std::vector<kernels::AttentionTraits> AttentionTraitsOf(const ModelConfig& config, kernels::DType kv_dtype);

}  // namespace dunlin::engine
