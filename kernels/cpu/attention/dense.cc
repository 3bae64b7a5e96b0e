// SPDX-License-Identifier: Apache-2.0
// The dense entries: K and V are packed into pages of the workspace, with an identity page table, and the paged
// algorithms run on them, a few sequences at a time, so that the pages stay in the caches; MATH has a dense form of its
// own, which holds all of S and all pages.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/attention/arena.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/backends.h"
#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cpu/attention/pack_page.h"
#include "kernels/cpu/attention/schedule.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

bool Supported(const DeviceContext* context, const DenseAttentionParams& params) {
  if (params.dtype == DType::kF8E4M3 || params.bias.dtype == DType::kF8E4M3) return false;
  return SupportsAttention(context, params.backend, TraitsOf(params), nullptr);
}

int32_t ValueDim(const DenseAttentionParams& params) {
  return params.v_head_dim == 0 ? params.head_dim : params.v_head_dim;
}

WorkspaceNeed NeedOf(const DeviceContext* context, const AttentionBackendRow& backend,
                     const DenseAttentionParams& params) {
  return {.head_dim = params.head_dim,
          .v_head_dim = ValueDim(params),
          .num_kv_heads = params.num_kv_heads,
          .rows = int64_t{params.q_len} * (params.num_heads / params.num_kv_heads),
          .kv_len = params.kv_len,
          .num_threads = context->pool.num_threads(),
          .ops = &SelectTileOps(*context, backend.exact_codes, params.dtype, params.head_dim, ValueDim(params)),
          .batch = params.batch};
}

// Rows of the blocks that a call is cut into, estimated from its bounds; `most` in its largest.
int BlockRows(const WorkspaceNeed& need, int most) {
  const int64_t blocks = CeilDiv(need.rows, most) * need.num_kv_heads * need.batch;
  return blocks >= LargeBlocksWanted(need.num_threads) ? most : kBlockRows;
}

// Sequences of a round: enough for kBlocksPerThread blocks of query rows a thread.
int32_t SequencesPerRound(const AttentionBackendRow& backend, const WorkspaceNeed& need) {
  if (backend.dense_block_rows == nullptr) return need.batch;
  const int block_rows = BlockRows(need, backend.dense_block_rows(need));
  const int64_t blocks = CeilDiv(need.rows, block_rows) * need.num_kv_heads;
  return static_cast<int32_t>(
      std::min<int64_t>(CeilDiv(kBlocksPerThread * need.num_threads, std::max<int64_t>(blocks, 1)), need.batch));
}

// The packed K and V of a round's sequences.
struct DensePages {
  DensePages(Arena* arena, const DenseAttentionParams& params, int32_t sequences)
      : layout(MakeKvLayout(params.dtype, {.num_layers = 1,
                                           .num_kv_heads = params.num_kv_heads,
                                           .head_dim = params.head_dim,
                                           .v_head_dim = params.v_head_dim})),
        per_sequence(static_cast<int32_t>(CeilDiv(params.kv_len, layout.tokens_per_page))),
        table(arena->Take<int32_t>(int64_t{sequences} * per_sequence)),
        pool(arena->Take<std::byte>(int64_t{sequences} * per_sequence * static_cast<int64_t>(layout.page_bytes))) {}

  KvLayout layout;
  int32_t per_sequence;  // pages
  int32_t* table;        // [sequences, per_sequence]
  std::byte* pool;
};

// Upper bound of pages per packing task: long contiguous reads, and still several tasks a thread.
constexpr int64_t kPiecePagesMax = 64;

// Packs the rows of one page and KV head of a round; they have the page's dtype already.
void PackPage(const DenseAttentionParams& params, const DensePages& pages, int32_t first_sequence, int64_t page,
              int32_t kv_head) {
  const KvLayout& layout = pages.layout;
  const int64_t sequence = first_sequence + page / pages.per_sequence;
  const auto first = static_cast<int32_t>(page % pages.per_sequence) * layout.tokens_per_page;
  const int32_t tokens = std::min(layout.tokens_per_page, params.kv_len - first);
  const int64_t first_row = (sequence * params.num_kv_heads + kv_head) * params.kv_len + first;
  const size_t key_bytes = static_cast<size_t>(params.head_dim) * SizeOf(params.dtype);
  const size_t value_bytes = static_cast<size_t>(layout.shape.v_head_dim) * SizeOf(params.dtype);
  const auto* keys = static_cast<const std::byte*>(params.k) + static_cast<size_t>(first_row) * key_bytes;
  const auto* values = static_cast<const std::byte*>(params.v) + static_cast<size_t>(first_row) * value_bytes;
  std::byte* key_block = KeyBlock(pages.pool, layout, static_cast<int32_t>(page), 0, kv_head);
  const bool whole = tokens == layout.tokens_per_page;
  if (!whole || !PackPageKeys(layout, keys, key_bytes, key_block)) {
    for (int32_t t = 0; t < tokens; ++t, keys += key_bytes) {
      StoreKeyPart(layout, key_block, t, 0, params.head_dim, keys);
    }
  }
  PackPageValues(layout, values, value_bytes, tokens, key_block + layout.key_block_bytes);
}

void Pack(DeviceContext* context, const DenseAttentionParams& params, const DensePages& pages, int32_t first_sequence,
          int32_t sequences) {
  const int64_t num_pages = int64_t{sequences} * pages.per_sequence;
  for (int64_t i = 0; i < num_pages; ++i) pages.table[i] = static_cast<int32_t>(i);
  // A KV head's pages together: its rows follow one another in k and v.
  const int64_t heads = int64_t{sequences} * params.num_kv_heads;
  const int64_t wanted = CeilDiv(kBlocksPerThread * context->pool.num_threads(), std::max<int64_t>(heads, 1));
  const int64_t pieces =
      std::min<int64_t>(std::max(CeilDiv(pages.per_sequence, kPiecePagesMax), wanted), pages.per_sequence);
  context->pool.Run(heads * pieces, [&](int64_t task, int) {
    const int64_t sequence = task / pieces / params.num_kv_heads;
    const auto kv_head = static_cast<int32_t>(task / pieces % params.num_kv_heads);
    const int64_t piece = task % pieces;
    const int64_t end = (piece + 1) * pages.per_sequence / pieces;
    for (int64_t page = piece * pages.per_sequence / pieces; page < end; ++page) {
      PackPage(params, pages, first_sequence, sequence * pages.per_sequence + page, kv_head);
    }
  });
}

AttentionCall MakeCall(const DenseAttentionParams& params, const WorkspaceNeed& need, const DensePages& pages) {
  AttentionCall call{};
  call.ops = need.ops;
  call.layout = pages.layout;
  call.kv_pool = pages.pool;
  call.num_heads = params.num_heads;
  call.group = params.num_heads / params.num_kv_heads;
  call.SetScale(params.scale);
  if (params.softcap > 0.0F || params.alibi_slopes != nullptr || params.bias.data != nullptr ||
      params.mask.data != nullptr) {
    call.SetRule(
        params.scale,
        {.softcap = params.softcap, .alibi_slopes = params.alibi_slopes, .bias = params.bias, .mask = params.mask});
  }
  call.causal = params.causal;
  call.window = params.window;
  call.query = {.data = static_cast<const std::byte*>(params.q),
                .dtype = params.dtype,
                .token_stride = params.head_dim,
                .head_stride = int64_t{params.q_len} * params.head_dim};
  call.out = {.data = static_cast<std::byte*>(params.out),
              .dtype = params.dtype,
              .token_stride = ValueDim(params),
              .head_stride = int64_t{params.q_len} * ValueDim(params)};
  call.num_sequences = params.batch;
  call.page_table = pages.table;
  call.page_table_stride = pages.per_sequence;
  call.dense_query_len = params.q_len;
  call.dense_kv_len = params.kv_len;
  call.dense_first_position = params.alignment == CausalAlignment::kTopLeft ? 0 : params.kv_len - params.q_len;
  return call;
}

// What a call reads and writes, `first` sequences further on.
AttentionCall FromSequence(const AttentionCall& call, int32_t first, int32_t sequences) {
  const auto bytes = [first](int64_t stride, DType dtype) {
    return first * stride * static_cast<int64_t>(SizeOf(dtype));
  };
  AttentionCall later = call;
  later.query.data += bytes(call.num_heads * call.query.head_stride, call.query.dtype);
  later.out.data += bytes(call.num_heads * call.out.head_stride, call.out.dtype);
  if (call.rule.bias.data != nullptr) {
    later.rule.bias.data =
        static_cast<const std::byte*>(call.rule.bias.data) + bytes(call.rule.bias.batch_stride, call.rule.bias.dtype);
  }
  if (call.rule.mask.data != nullptr) later.rule.mask.data += first * call.rule.mask.batch_stride;
  later.num_sequences = sequences;
  return later;
}

}  // namespace

size_t DenseAttentionWorkspace(const DeviceContext* context, const DenseAttentionParams& params) {
  if (!Supported(context, params)) return 0;
  const AttentionBackendRow& backend = *FindBackend(params.backend);
  const WorkspaceNeed need = NeedOf(context, backend, params);
  Arena arena(nullptr);
  DensePages(&arena, params, SequencesPerRound(backend, need));
  return arena.used() + backend.dense.workspace(need);
}

KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params) {
  if (!Supported(context, params)) return KernelStatus::kUnsupported;
  if (params.batch < 0 || params.q_len < 0 || params.kv_len < 0) return KernelStatus::kInvalidArgument;
  if (params.batch == 0 || params.q_len == 0) return KernelStatus::kOk;
  if (params.workspace_bytes < DenseAttentionWorkspace(context, params)) return KernelStatus::kOutOfMemory;
  const AttentionBackendRow& backend = *FindBackend(params.backend);
  const WorkspaceNeed need = NeedOf(context, backend, params);
  Arena arena(params.workspace);
  const int32_t per_round = SequencesPerRound(backend, need);
  const DensePages pages(&arena, params, per_round);
  void* rest = static_cast<std::byte*>(params.workspace) + arena.used();
  const AttentionCall whole = MakeCall(params, need, pages);
  for (int32_t first = 0; first < params.batch; first += per_round) {
    const int32_t sequences = std::min(per_round, params.batch - first);
    Pack(context, params, pages, first, sequences);
    backend.dense.run(context, FromSequence(whole, first, sequences), need, rest);
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
