// SPDX-License-Identifier: Apache-2.0
// QK-norm and rotation of Q and K, and the writing of K and V into pages, one pass over a fused projection.
// Tasks are (token range, some KV heads); a range never ends inside a page: its tokens are stored together, and the
// even token of a BF16 V pair zeroes its partner and so must come first, on the same thread.
#include "kernels/cpu/attention/store_kv.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cpu/attention/pack_page.h"
#include "kernels/cpu/attention/rotary.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int32_t kTokensPerTask = 16;
constexpr int64_t kTasksPerThread = 4;          // at least, where there is enough work
constexpr int32_t kPartDims = 128;              // rounded at a time; even
constexpr int32_t kPageDimsMax = 256;           // of a head whose page is stored at once
constexpr int64_t kFloatsWorthThreads = 32768;  // below this, one thread is faster than waking another

// Heads of a token in the projection.
int32_t NumHeads(const RotateAndStoreKvParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.query_only) return params.num_heads;
  return params.num_heads + (shape.values_in_keys ? 1 : 2) * shape.num_kv_heads;
}

// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin) for the halves of the rotated part, each product rounded alone.
void Rotate(const float* cos_sin, int32_t rotary_dim, float* row) {
  const int32_t half = rotary_dim / 2;
  const float* cos_row = cos_sin;
  const float* sin_row = cos_sin + half;
  for (int32_t i = 0; i < half; ++i) {
    const float x1 = row[i];
    const float x2 = row[i + half];
    row[i] = x1 * cos_row[i] - x2 * sin_row[i];
    row[i + half] = x2 * cos_row[i] + x1 * sin_row[i];
  }
}

// The factor of a token's queries.
float QueryFactor(const QueryScale& scale, int32_t token) {
  const int32_t periods = (scale.positions[token] + scale.offset) / scale.period;
  return 1.0F + scale.beta * static_cast<float>(std::log(1.0 + periods));
}

// RMSNorm of one head, or of several that share one, in place, where there is one.
void NormHead(const KernelTable& kernels, const float* weight, float epsilon, int64_t width, float* row) {
  if (weight == nullptr) return;
  const NormMoments moments = kernels.norm_moments(NormKind::kRmsNorm, row, width, epsilon);
  kernels.normalize(row, moments, weight, nullptr, width, row);
}

// The same of a head of V, without a weight.
void NormValue(const KernelTable& kernels, float epsilon, int32_t width, float* row) {
  const NormMoments moments = kernels.norm_moments(NormKind::kRmsNorm, row, width, epsilon);
  for (int32_t d = 0; d < width; ++d) row[d] *= moments.inv_std;
}

// All heads of Q, and all of K, in place: one norm each, before a head is rotated.
void NormJointly(DeviceContext* context, const RotateAndStoreKvParams& params) {
  const KvShape& shape = params.layout.shape;
  const int64_t query_width = int64_t{params.num_heads} * shape.head_dim;
  const int64_t key_width = int64_t{shape.num_kv_heads} * shape.head_dim;
  const int64_t stride = int64_t{NumHeads(params)} * shape.head_dim;
  const int64_t rows = std::max<int64_t>(1, kFloatsWorthThreads / stride);  // of a task
  context->pool.Run((params.num_tokens + rows - 1) / rows, [&](int64_t task, int) {
    const int64_t end = std::min<int64_t>((task + 1) * rows, params.num_tokens);
    for (int64_t token = task * rows; token < end; ++token) {
      float* row = params.qkv + token * stride;
      NormHead(context->kernels, params.query_norm, params.norm_epsilon, query_width, row);
      if (params.query_only) continue;
      NormHead(context->kernels, params.key_norm, params.norm_epsilon, key_width, row + query_width);
    }
  });
}

// The first token at or after t that does not continue the page of the token before it.
int32_t RangeStart(const RotateAndStoreKvParams& params, int32_t t) {
  const auto goes_on = [&params](int32_t token) {
    return token > 0 && params.token_page[token] == params.token_page[token - 1] &&
           params.token_slot[token] == params.token_slot[token - 1] + 1;
  };
  while (t < params.num_tokens && goes_on(t)) ++t;
  return std::min(t, params.num_tokens);
}

// Rounds a row to the page dtype with the variant's kernels and stores it with store_part, by parts of kPartDims.
template <typename StorePart>
void StoreRounded(const KernelTable& kernels, const KvLayout& layout, std::byte* block, int32_t slot, const float* row,
                  const StorePart& store_part) {
  const int32_t head_dim = layout.shape.head_dim;
  if (layout.dtype == DType::kF32) return store_part(layout, block, slot, 0, head_dim, row);
  if (layout.dtype == DType::kF8E4M3) {
    const Fp8Scale scale = ScaleOfRow(kernels.max_magnitude_bits(row, head_dim));
    uint8_t codes[kPartDims];
    for (int32_t first = 0; first < head_dim; first += kPartDims) {
      const int32_t count = std::min(kPartDims, head_dim - first);
      kernels.to_e4m3(row + first, scale.factor, count, codes);
      store_part(layout, block, slot, first, count, codes);
    }
    return StoreFp8Scale(block, head_dim, slot, scale.scale);
  }
  const auto round = layout.dtype == DType::kF16 ? kernels.to_fp16 : kernels.to_bf16;
  uint16_t bits[kPartDims];
  for (int32_t first = 0; first < head_dim; first += kPartDims) {
    const int32_t count = std::min(kPartDims, head_dim - first);
    round(row + first, count, bits);
    store_part(layout, block, slot, first, count, bits);
  }
}

// A KV head of `tokens` tokens, one or a page's, and the heads of Q that share it.
void RotateAndStore(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t tokens,
                    int32_t kv_head) {
  const KvShape& shape = params.layout.shape;
  const int32_t group = params.num_heads / shape.num_kv_heads;
  const int32_t key = params.num_heads + kv_head;
  const int32_t num_heads = NumHeads(params);
  const int64_t stride = int64_t{num_heads} * shape.head_dim;
  float* row = params.qkv + token * stride;
  const auto at = [&](int32_t head) { return row + int64_t{head} * shape.head_dim; };
  for (int32_t t = 0; t < tokens; ++t) {
    for (int32_t g = kv_head * group; g < (kv_head + 1) * group; ++g) {
      PrepareHead(kernels, params, token + t, g, at(g) + t * stride);
    }
    for (int32_t head = key; head < num_heads; head += shape.num_kv_heads) {
      PrepareHead(kernels, params, token + t, head, at(head) + t * stride);
    }
  }
  for (int32_t head = key; head < num_heads; head += shape.num_kv_heads) {
    if (tokens > 1) {
      StorePage(kernels, params, token, head, at(head), stride);
    } else {
      StoreHead(kernels, params, token, head, at(head));
    }
  }
}

}  // namespace

bool ValidHeads(const RotateAndStoreKvParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.num_tokens < 0 || shape.num_kv_heads < 1 || params.num_heads % shape.num_kv_heads != 0) return false;
  if (!shape.values_in_keys && shape.v_head_dim != shape.head_dim) return false;
  if (params.layer < 0 || params.layer >= shape.num_layers) return false;
  if (params.cos_sin != nullptr &&
      (params.rotary_dim < 0 || params.rotary_dim > shape.head_dim || params.rotary_dim % 2 != 0)) {
    return false;
  }
  if (params.norms_after && params.joint_norms) return false;
  if (params.query_scale.positions != nullptr && params.query_scale.period < 1) return false;
  for (int32_t t = 0; t < params.num_tokens; ++t) {
    if (params.token_page[t] < 0 || params.token_slot[t] < 0 || params.token_slot[t] >= params.layout.tokens_per_page) {
      return false;
    }
  }
  return true;
}

bool ArePair(const RotateAndStoreKvParams& params, int32_t token) {
  const int32_t next = token + 1;
  return next < params.num_tokens && params.token_slot[token] % 2 == 0 &&
         params.token_page[next] == params.token_page[token] && params.token_slot[next] == params.token_slot[token] + 1;
}

void PrepareHead(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
                 float* values) {
  const KvShape& shape = params.layout.shape;
  if (head >= params.num_heads + shape.num_kv_heads) {
    if (params.value_norm) NormValue(kernels, params.norm_epsilon, shape.head_dim, values);
    return;
  }
  const float* norm = head < params.num_heads ? params.query_norm : params.key_norm;
  const auto norm_head = [&] { NormHead(kernels, norm, params.norm_epsilon, shape.head_dim, values); };
  if (!params.joint_norms && !params.norms_after) norm_head();
  const int32_t place = params.rows == nullptr ? token : params.rows[token];
  if (params.cos_sin != nullptr) {
    Rotate(params.cos_sin + static_cast<int64_t>(place) * params.rotary_dim, params.rotary_dim, values);
  }
  if (params.norms_after) norm_head();
  if (head >= params.num_heads || params.query_scale.positions == nullptr) return;
  const float factor = QueryFactor(params.query_scale, place);
  for (int32_t d = 0; d < shape.head_dim; ++d) values[d] *= factor;
}

void StoreHead(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
               const float* values) {
  const int32_t kv_heads = params.layout.shape.num_kv_heads;
  const int32_t of_kv = head - params.num_heads;
  std::byte* block = KeyBlock(params.kv_pool, params.layout, params.token_page[token], params.layer, of_kv % kv_heads);
  const int32_t slot = params.token_slot[token];
  if (of_kv < kv_heads) return StoreRounded(kernels, params.layout, block, slot, values, StoreKeyPart);
  StoreRounded(kernels, params.layout, block + params.layout.key_block_bytes, slot, values, StoreValuePart);
}

bool FillsPage(const RotateAndStoreKvParams& params, int32_t token, int32_t end) {
  const KvLayout& layout = params.layout;
  if (layout.dtype == DType::kF8E4M3 || layout.shape.head_dim > kPageDimsMax) return false;
  const int32_t tokens = layout.tokens_per_page;
  if (params.token_slot[token] != 0 || end - token < tokens) return false;
  for (int32_t t = 1; t < tokens; ++t) {
    if (params.token_page[token + t] != params.token_page[token] || params.token_slot[token + t] != t) return false;
  }
  return true;
}

void StorePage(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
               const float* values, int64_t stride) {
  const KvLayout& layout = params.layout;
  const int32_t head_dim = layout.shape.head_dim;
  const int32_t kv_heads = layout.shape.num_kv_heads;
  const int32_t of_kv = head - params.num_heads;
  const auto* rows = reinterpret_cast<const std::byte*>(values);
  size_t row_bytes = static_cast<size_t>(stride) * sizeof(float);
  uint16_t bits[TokensPerPage(DType::kBF16) * kPageDimsMax];
  if (layout.dtype != DType::kF32) {
    const auto round = layout.dtype == DType::kF16 ? kernels.to_fp16 : kernels.to_bf16;
    for (int32_t t = 0; t < layout.tokens_per_page; ++t) round(values + t * stride, head_dim, bits + t * head_dim);
    rows = reinterpret_cast<const std::byte*>(bits);
    row_bytes = static_cast<size_t>(head_dim) * sizeof(uint16_t);
  }
  std::byte* block = KeyBlock(params.kv_pool, layout, params.token_page[token], params.layer, of_kv % kv_heads);
  if (of_kv >= kv_heads) {
    return PackPageValues(layout, rows, row_bytes, layout.tokens_per_page, block + layout.key_block_bytes);
  }
  if (PackPageKeys(layout, rows, row_bytes, block)) return;
  for (int32_t t = 0; t < layout.tokens_per_page; ++t) {
    StoreKeyPart(layout, block, t, 0, head_dim, rows + static_cast<size_t>(t) * row_bytes);
  }
}

void StoreHalf(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
               const float* values) {
  const KvShape& shape = params.layout.shape;
  std::byte* block = KeyBlock(params.kv_pool, params.layout, params.token_page[token], params.layer,
                              head - params.num_heads - shape.num_kv_heads);
  auto* elements = reinterpret_cast<uint16_t*>(block + params.layout.key_block_bytes);
  const int32_t slot = params.token_slot[token];
  uint16_t bits[kPartDims];
  for (int32_t first = 0; first < shape.head_dim; first += kPartDims) {
    const int32_t count = std::min(kPartDims, shape.head_dim - first);
    kernels.to_bf16(values + first, count, bits);
    for (int32_t d = 0; d < count; ++d) elements[ValueIndex(params.layout, slot, first + d)] = bits[d];
  }
}

KernelStatus RotateAndStoreKv(DeviceContext* context, const RotateAndStoreKvParams& params) {
  if (!ValidHeads(params)) return KernelStatus::kInvalidArgument;
  if (params.joint_norms) NormJointly(context, params);
  const int32_t kv_heads = params.layout.shape.num_kv_heads;
  const int64_t floats = int64_t{params.num_tokens} * NumHeads(params) * params.layout.shape.head_dim;
  const int32_t step = floats < kFloatsWorthThreads ? std::max(params.num_tokens, 1) : kTokensPerTask;
  const int64_t ranges = (params.num_tokens + step - 1) / step;
  // As many heads per task as leave kTasksPerThread tasks: a token's heads are contiguous in memory.
  const int64_t tasks = floats < kFloatsWorthThreads ? 1 : kTasksPerThread * context->pool.num_threads();
  const int64_t heads_per_task = std::clamp<int64_t>(kv_heads * ranges / tasks, 1, kv_heads);
  const int64_t head_tasks = (kv_heads + heads_per_task - 1) / heads_per_task;
  context->pool.Run(ranges * head_tasks, [&](int64_t task, int) {
    const auto range = static_cast<int32_t>(task / head_tasks);
    const auto first_head = static_cast<int32_t>(task % head_tasks * heads_per_task);
    const auto end_head = static_cast<int32_t>(std::min<int64_t>(first_head + heads_per_task, kv_heads));
    const int32_t end = RangeStart(params, (range + 1) * step);
    for (int32_t t = RangeStart(params, range * step), tokens = 1; t < end; t += tokens) {
      tokens = FillsPage(params, t, end) ? params.layout.tokens_per_page : 1;
      for (int32_t h = first_head; h < end_head; ++h) RotateAndStore(context->kernels, params, t, tokens, h);
    }
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
