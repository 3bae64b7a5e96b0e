// SPDX-License-Identifier: Apache-2.0
// Gathering goes by rounds of as many query tokens as there are threads: their keys are listed, copied, and attended.
#include "kernels/cpu/attention/gathered.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cpu/attention/arena.h"
#include "kernels/cpu/attention/entry_pages.h"
#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

// One layer of the keys alone.
KvLayout GatheredLayout(const KvLayout& layout) {
  KvShape shape = layout.shape;
  shape.num_layers = 1;
  shape.index_dim = 0;
  return MakeKvLayout(layout.dtype, shape);
}

// A query token of the call.
struct CallToken {
  int32_t sequence;
  int32_t token;
};

// The tokens of a round. Token i has the pages [i * pages, (i + 1) * pages), of which every head has keys of its own.
struct GatheredMemory {
  GatheredMemory(void* workspace, const KvLayout& layout, const WorkspaceNeed& need)
      : arena(workspace),
        tokens(need.num_threads),
        pages(static_cast<int32_t>(CeilDiv(need.kv_len, layout.tokens_per_page))),
        of_call(arena.Take<CallToken>(tokens)),
        spans(arena.Take<SequenceSpan>(tokens)),
        page_table(arena.Take<int32_t>(int64_t{tokens} * pages)),
        keys(arena.Take<int32_t>(int64_t{tokens} * layout.shape.num_kv_heads * need.kv_len)),
        pool(arena.Take<std::byte>(int64_t{tokens} * pages * static_cast<int64_t>(layout.page_bytes))) {}

  Arena arena;
  int32_t tokens;
  int32_t pages;
  CallToken* of_call;   // [tokens]
  SequenceSpan* spans;  // [tokens], first_position one less than the keys
  int32_t* page_table;  // [tokens, pages]
  int32_t* keys;        // [tokens, num_kv_heads, need.kv_len] ascending
  std::byte* pool;
};

// Writes the keys that a query row chose for a KV head, ascending; returns how many, at most `most`.
int32_t ListKeys(const KeySelection& selection, int64_t query, int32_t head, int32_t limit, int32_t most,
                 int32_t* keys) {
  const int64_t row = selection.rows == nullptr ? query : selection.rows[query];
  const uint32_t* words = selection.bits + row * selection.stride + head * selection.head_stride;
  int32_t count = 0;
  for (int32_t first = 0; first < limit; first += 32) {
    for (uint32_t left = words[first / 32]; left != 0 && count < most; left &= left - 1) {
      const int32_t key = first + std::countr_zero(left);
      if (key < limit) keys[count++] = key;
    }
  }
  return count;
}

// The keys of a token's window, then the entries that it sees, ascending, of which entry e is ~e; returns how many, at
// most `most`.
int32_t ListWindowAndEntries(const AttentionCall& call, const SequenceView& sequence, const CallToken& at,
                             const EntryPlace& entries, int32_t most, int32_t* keys) {
  int32_t count = 0;
  const int32_t limit = sequence.KeyLimit(at.token);
  for (int32_t key = sequence.KeyStart(at.token); key < limit && count < most; ++key) keys[count++] = key;
  const int32_t num_entries = limit / entries.rate;
  const int32_t window = count;
  if (call.selection.bits == nullptr) {
    for (int32_t entry = 0; entry < num_entries && count < most; ++entry) keys[count++] = entry;
  } else {
    const int64_t query = int64_t{call.spans[at.sequence].query_start} + at.token;
    count += ListKeys(call.selection, query, 0, num_entries, most - count, keys + count);
  }
  std::transform(keys + window, keys + count, keys + window, [](int32_t entry) { return ~entry; });
  return count;
}

// The first word of a key, and bytes from one word to the next.
struct KeyWords {
  const std::byte* first;
  size_t step;
};

// from: of `count` keys. to: a block where words of a key lie `per_page` apart.
template <typename Word>
void CopyWords(const KeyWords* from, int32_t count, int32_t per_page, int32_t num_words, std::byte* to) {
  for (int32_t word = 0; word < num_words; ++word) {
    std::byte* const words = to + static_cast<size_t>(word) * static_cast<size_t>(per_page) * sizeof(Word);
    for (int32_t i = 0; i < count; ++i) {
      std::memcpy(words + static_cast<size_t>(i) * sizeof(Word),
                  from[i].first + static_cast<size_t>(word) * from[i].step, sizeof(Word));
    }
  }
}

// The values of `count` keys, to a value block. Where values lie in pairs of tokens, an odd last one's partner is zero.
void CopyValues(const AttentionCall& call, const SequenceView& sequence, int32_t head, const int32_t* keys,
                int32_t count, std::byte* to) {
  const KvLayout& layout = call.layout;
  const bool pairs = layout.dtype == DType::kBF16;
  const auto dim = static_cast<size_t>(layout.shape.v_head_dim);
  const size_t row = (pairs ? (dim + 1) / 2 * 2 : dim) * SizeOf(layout.dtype);
  const auto place_of = [&](int32_t slot) {
    const auto at = static_cast<size_t>(slot);
    return pairs ? at / 2 * 2 * row + at % 2 * sizeof(uint16_t) : at * row;
  };
  for (int32_t i = 0; i < count; ++i) {
    const int32_t page = sequence.pages[keys[i] / layout.tokens_per_page];
    const std::byte* from = KeyBlock(call.kv_pool, layout, page, call.layer, head) + layout.key_block_bytes +
                            place_of(keys[i] % layout.tokens_per_page);
    std::byte* const out = to + place_of(i);
    if (!pairs) {
      std::memcpy(out, from, row);
      continue;
    }
    for (size_t d = 0; d < dim; ++d) {
      std::memcpy(out + d * sizeof(PairWord), from + d * sizeof(PairWord), sizeof(uint16_t));
      if (i + 1 == count && i % 2 == 0) std::memset(out + d * sizeof(PairWord) + sizeof(uint16_t), 0, sizeof(uint16_t));
    }
  }
}

// A page of gathered keys and, where pages have them, their values. keys: of the first head, those of the next
// head_stride further. sequence: of the call.
void GatherPage(const AttentionCall& call, const SequenceView& sequence, const int32_t* keys, int64_t head_stride,
                int32_t count, const EntryPlace* entries, const KvLayout& layout, int32_t page, std::byte* pool) {
  constexpr int32_t kMostTokens = 16;
  const int32_t per_page = layout.tokens_per_page;
  const bool halves = layout.dtype == DType::kF16;
  const size_t word = halves ? sizeof(uint16_t) : sizeof(uint32_t);
  const int32_t dim = layout.shape.head_dim;
  for (int32_t head = 0; head < call.num_kv_heads(); ++head, keys += head_stride) {
    KeyWords from[kMostTokens];
    for (int32_t i = 0; i < count; ++i) {
      if (keys[i] < 0) {
        const int32_t row = call.spans[sequence.index].page_table_row;
        const int32_t* pages = entries->place.page_table + row * call.page_table_stride;
        from[i] = {call.kv_pool + EntryOffset(*entries, pages, ~keys[i]), word};
        continue;
      }
      const int32_t in_sequence = keys[i] / call.layout.tokens_per_page;
      from[i] = {KeyBlock(call.kv_pool, call.layout, sequence.pages[in_sequence], call.layer, head) +
                     static_cast<size_t>(keys[i] % call.layout.tokens_per_page) * word,
                 static_cast<size_t>(call.layout.tokens_per_page) * word};
    }
    std::byte* const to = KeyBlock(pool, layout, page, 0, head);
    if (halves) {
      CopyWords<uint16_t>(from, count, per_page, dim, to);
    } else {
      CopyWords<uint32_t>(from, count, per_page, layout.dtype == DType::kBF16 ? (dim + 1) / 2 : dim, to);
    }
    if (!layout.shape.values_in_keys) {
      CopyValues(call, sequence, head, keys, count, to + layout.key_block_bytes);
    }
  }
}

// Goes through the tokens of a call.
class TokenCursor {
 public:
  explicit TokenCursor(const AttentionCall& call) : call_(call) { SkipEmpty(); }

  bool done() const { return at_.sequence == call_.num_sequences; }
  CallToken Take() {
    const CallToken token = at_;
    ++at_.token;
    SkipEmpty();
    return token;
  }

 private:
  void SkipEmpty() {
    while (!done() && at_.token == call_.spans[at_.sequence].query_len) at_ = {at_.sequence + 1, 0};
  }

  const AttentionCall& call_;
  CallToken at_ = {0, 0};
};

}  // namespace

bool Gathers(const AttentionCall& call, const EntryPlace* entries) {
  const bool windowed = call.window > 0;
  const bool one_head = call.layout.shape.values_in_keys && call.num_kv_heads() == 1;
  if (windowed != (entries != nullptr) || (windowed && !one_head)) return false;
  return call.layout.dtype != DType::kF8E4M3 && call.causal && call.rule.alibi_slopes == nullptr &&
         call.rule.bias.data == nullptr;
}

WorkspaceNeed GatheredNeed(const WorkspaceNeed& need, int32_t group, int32_t most) {
  WorkspaceNeed gathered = need;
  gathered.rows = group;
  gathered.kv_len = std::min(need.kv_len, most);
  return gathered;
}

size_t GatheredWorkspace(const AttentionAlgorithm& algorithm, const KvLayout& layout, const WorkspaceNeed& need) {
  return GatheredMemory(nullptr, GatheredLayout(layout), need).arena.used() + algorithm.workspace(need);
}

void RunGathered(DeviceContext* context, const AttentionAlgorithm& algorithm, const AttentionCall& call,
                 const WorkspaceNeed& need, void* workspace, const EntryPlace* entries) {
  const KvLayout layout = GatheredLayout(call.layout);
  const GatheredMemory memory(workspace, layout, need);
  for (int32_t page = 0; page < memory.tokens * memory.pages; ++page) memory.page_table[page] = page;
  AttentionCall gathered = call;
  gathered.selection = {};
  gathered.window = 0;
  gathered.layout = layout;
  gathered.kv_pool = memory.pool;
  gathered.layer = 0;
  gathered.spans = memory.spans;
  gathered.page_table = memory.page_table;
  gathered.page_table_stride = memory.pages;
  std::byte* const rest = static_cast<std::byte*>(workspace) + memory.arena.used();
  for (TokenCursor cursor(call); !cursor.done();) {
    int32_t count = 0;
    while (count < memory.tokens && !cursor.done()) memory.of_call[count++] = cursor.Take();
    context->pool.Run(count, [&](int64_t i, int) {
      const CallToken at = memory.of_call[i];
      const int32_t query = call.spans[at.sequence].query_start + at.token;
      const SequenceView sequence = call.Sequence(at.sequence);
      int32_t keys = 0;
      for (int32_t head = 0; head < call.num_kv_heads(); ++head) {
        int32_t* const list = memory.keys + (i * call.num_kv_heads() + head) * need.kv_len;
        keys = entries == nullptr
                   ? ListKeys(call.selection, query, head, sequence.KeyLimit(at.token), need.kv_len, list)
                   : ListWindowAndEntries(call, sequence, at, *entries, need.kv_len, list);
      }
      memory.spans[i] = {
          .query_start = query, .query_len = 1, .first_position = keys - 1, .page_table_row = static_cast<int32_t>(i)};
    });
    context->pool.Run(int64_t{count} * memory.pages, [&](int64_t task, int) {
      const auto page = static_cast<int32_t>(task % memory.pages);
      const int64_t i = task / memory.pages;
      const int32_t first = page * layout.tokens_per_page;
      const int32_t left = memory.spans[i].first_position + 1 - first;
      if (left <= 0) return;
      GatherPage(call, call.Sequence(memory.of_call[i].sequence),
                 memory.keys + i * call.num_kv_heads() * need.kv_len + first, need.kv_len,
                 std::min(left, layout.tokens_per_page), entries, layout, static_cast<int32_t>(task), memory.pool);
    });
    gathered.num_sequences = count;
    algorithm.run(context, gathered, need, rest);
  }
}

}  // namespace dunlin::kernels::cpu
