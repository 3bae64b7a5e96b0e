// SPDX-License-Identifier: Apache-2.0
// Gives pages to sequences and takes them back, over the pool and the prefix cache.
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
  // prefill_matches_decode: a decoded token has the bits of a prefilled one, so that either's pages serve both.
  SequencePages(const PrefixCacheOptions& options, bool prefix_cache, bool prefill_matches_decode);

  // Starts an empty sequence with the cached pages of its first tokens. The last known token is always left to compute,
  // because its logits are needed. A request that scores its prompt or bypasses the cache gets none, nor does one
  // whose profile does not share pages (its own are never published either). REQUIRES: no pages. Sets num_computed.
  void AttachCached(Sequence* sequence);
  // The same for a sequence that has computed some of its tokens: takes the pages that others have published since.
  // Returns the tokens that it need not compute any more. REQUIRES: nothing in flight.
  int32_t AttachMore(Sequence* sequence);
  // Whether a sequence takes pages that others compute.
  bool Reads(const Sequence& sequence) const {
    const Request& request = sequence.request;
    return prefix_cache_ && request.profile.shares_pages() && request.sampling.prompt_logprobs < 0 &&
           !request.bypass_prefix_cache;
  }

  // Adds pages for the first `num_tokens` tokens, as far as there are free ones. Returns how many tokens now have
  // pages; more than num_tokens when the last page has room.
  int32_t Reserve(Sequence* sequence, int32_t num_tokens);

  // Enters the full pages of the first `num_tokens` computed tokens into the cache. Where an equal, proven page is
  // cached already and nothing is in flight, the sequence takes that one and releases its own. `proven`: a finite row
  // has depended on all of them.
  void Publish(Sequence* sequence, int32_t num_tokens, bool proven);

  // A row of the sequence was not finite: takes its unproven pages, any of which may be the cause, out of the cache.
  void Distrust(const Sequence& sequence);

  // Releases all pages, the last one first, so that the tail of a cached prefix is overwritten first.
  // REQUIRES: nothing in flight. Clears num_computed.
  void Release(Sequence* sequence);

  // Takes every page out of the cache, whoever uses it.
  void ClearCache() { cache_.Clear(); }

  const PagePool& pool() const { return pool_; }
  const PrefixCache& cache() const { return cache_; }

 private:
  // The tokens whose pages may be another sequence's.
  int32_t Attachable(const Sequence& sequence) const;

  PagePool pool_;
  PrefixCache cache_;
  bool prefix_cache_;
  bool prefill_matches_decode_;
};

}  // namespace dunlin::engine
