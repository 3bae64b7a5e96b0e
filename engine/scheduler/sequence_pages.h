// Gives pages to sequences and takes them back: the pool and the prefix cache, spoken of in sequences.
// A page belongs to the sequences that list it; a shared page is full and never written again.
// Thread rule: the engine thread only. Nothing is allocated after construction.
#pragma once

#include <cstdint>

#include "engine/cache/page_pool.h"
#include "engine/cache/prefix_cache.h"
#include "engine/scheduler/sequence.h"

namespace dunlin::engine {

class SequencePages {
 public:
  // prefix_cache false: nothing is looked up and nothing is published.
  SequencePages(const PrefixCacheOptions& options, bool prefix_cache);

  // Starts an empty sequence with the pages that already hold its first tokens. The last known token is always left
  // to compute, because its logits are wanted; a request that scores its prompt gets nothing, nor does one whose
  // profile does not share pages (and its own are never published). REQUIRES: no pages. Sets num_computed.
  void AttachCached(Sequence* sequence);

  // Gives pages for the first `num_tokens` tokens, as far as free ones go. Returns how many tokens now have pages;
  // more than asked for when the last page has room.
  int32_t Reserve(Sequence* sequence, int32_t num_tokens);

  // Makes the full pages of the first `num_tokens` computed tokens findable. Where an equal page was there already the
  // sequence takes that one and gives back its own. REQUIRES: nothing in flight.
  void Publish(Sequence* sequence, int32_t num_tokens);

  // Takes all pages back, the last one first, so that of a cached prefix the tail is overwritten first.
  // REQUIRES: nothing in flight. Clears num_computed.
  void Release(Sequence* sequence);

  const PagePool& pool() const { return pool_; }
  const PrefixCache& cache() const { return cache_; }

 private:
  PagePool pool_;
  PrefixCache cache_;
  bool prefix_cache_;
};

}  // namespace dunlin::engine
