// SPDX-License-Identifier: Apache-2.0
// Which tokens of which sequence the pages of a draft model hold. A fixed number of places, each with memory for the
// longest context; a new sequence takes that of the one that was asked for least recently, and pages come back with it.
// Thread rule: the engine thread only. Nothing allocates after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/page.h"
#include "engine/cache/page_pool.h"
#include "engine/request/types.h"

namespace dunlin::engine {

struct DraftSequence {
  RequestId id = 0;             // 0: the place is free
  std::vector<TokenId> tokens;  // the known ones, then guesses
  int32_t num_computed = 0;     // of these, whose K and V are in the pages
  std::vector<PageId> pages;    // [page sets, KvGroups::count()]
  uint64_t last_call = 0;       // in which it was asked for

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_uncomputed() const { return num_tokens() - num_computed; }
};

struct DraftSequencesOptions {
  int32_t num_sequences = 1;  // that pages are kept of
  int32_t num_pages = 0;
  int32_t num_groups = 1;  // KvGroups::count()
  int32_t tokens_per_page = 16;
  int32_t max_tokens = 0;  // of a sequence
};

class DraftSequences {
 public:
  explicit DraftSequences(const DraftSequencesOptions& options);

  // Begins a call: sequences that it finds keep their places and pages until the next one.
  void BeginCall() { ++call_; }
  // The sequence, with exactly these tokens; the last one is not computed. Null where it is too long, or where all
  // places are of this call.
  DraftSequence* Find(RequestId id, std::span<const TokenId> tokens);
  // Pages for the first `num_tokens` of its tokens, taken of sequences that are not of this call where none is free.
  // Returns how many tokens have some.
  int32_t Reserve(DraftSequence* sequence, int32_t num_tokens);

  int32_t max_tokens() const { return options_.max_tokens; }
  const PagePool& pool() const { return pool_; }

 private:
  // Of those that are not of this call, or of these that have pages; null: there is none.
  DraftSequence* Oldest(bool with_pages);
  void Clear(DraftSequence* sequence);

  DraftSequencesOptions options_;
  PagePool pool_;
  std::vector<DraftSequence> sequences_;
  uint64_t call_ = 0;
};

}  // namespace dunlin::engine
