// SPDX-License-Identifier: Apache-2.0
// What a model's attention requires of the kernels: the layout of its KV pages, and the traits a backend must support.
// Pure.
#pragma once

#include <vector>

#include "engine/model/spec/model_config.h"
#include "engine/request/kv_groups.h"
#include "engine/request/types.h"
#include "kernels/api/attention.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::engine {

// One group where no layer has a window shorter than the context, or all have one. Where some have one, the fewest
// groups that leave at most a sixteenth of the places in pages empty or, if none of up to kMaxKvGroups do, those that
// leave the fewest empty. An encoder has one group.
inline constexpr int32_t kMaxKvGroups = 16;
KvGroups KvGroupsOf(const ModelConfig& config);
// [num_layers] All layers of an encoder have one place; what stands for layers without attention is not read. groups:
// of KvGroupsOf.
std::vector<KvPlace> KvPlacesOf(const ModelConfig& config, const KvGroups& groups);

// Of a page: its layers are those of one group.
kernels::KvShape KvShapeOf(const ModelConfig& config);

// The pages that hold keys and values of a precision. kv_fp8: the pool is planned for E4M3 pages in FP8; then every
// page of the pool has the size of an E4M3 page, the largest.
kernels::KvLayout KvLayoutOf(const kernels::KvShape& shape, Precision precision, bool kv_fp8);
kernels::KvLayout KvLayoutOf(const ModelConfig& config, Precision precision, bool kv_fp8 = false);

// kv_dtype: of keys and values. window is the widest of the model's, 0 when no layer has one.
kernels::AttentionTraits AttentionTraitsOf(const ModelConfig& config, kernels::DType kv_dtype);

}  // namespace dunlin::engine
