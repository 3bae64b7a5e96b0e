// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/sequence_pages.h"

#include <algorithm>
#include <string_view>

#include "engine/base/check.h"

namespace dunlin::engine {

SequencePages::SequencePages(const PrefixCacheOptions& options, bool prefix_cache, bool prefill_matches_decode)
    : pool_(options.num_pages),
      cache_(options),
      prefix_cache_(prefix_cache),
      prefill_matches_decode_(prefill_matches_decode) {}

int32_t SequencePages::Attachable(const Sequence& sequence) const {
  const int32_t known = sequence.num_tokens() - 1;
  return prefill_matches_decode_ ? known : std::min(known, sequence.prompt_len);
}

void SequencePages::AttachCached(Sequence* sequence) {
  DUNLIN_CHECK(sequence->pages.empty() && sequence->num_in_flight == 0, "only an empty sequence starts from the cache");
  sequence->num_computed = 0;
  if (!prefix_cache_ || !sequence->request.profile.shares_pages()) return;
  sequence->chain = cache_.Root(sequence->request.profile, sequence->request.cache_salt);
  AttachMore(sequence);
}

int32_t SequencePages::AttachMore(Sequence* sequence) {
  DUNLIN_CHECK(sequence->num_in_flight == 0, "pages of a launched step are not exchanged");
  const int32_t page_tokens = sequence->tokens_per_page;
  // Some of its computed pages are not published: those after the prompt, where decoded ones stay out.
  if (!Reads(*sequence) || sequence->chain.num_pages != sequence->num_computed / page_tokens) return 0;
  const int32_t before = sequence->num_computed;
  while ((sequence->chain.num_pages + 1) * page_tokens <= Attachable(*sequence)) {
    const auto index = static_cast<size_t>(sequence->chain.num_pages);
    const PageId page = cache_.Match(&sequence->tokens[index * static_cast<size_t>(page_tokens)], page_tokens,
                                     &sequence->chain, sequence->proven_only);
    if (page == kNoPage) break;
    pool_.Retain(page);
    if (index < sequence->pages.size()) {
      pool_.Release(sequence->pages[index], false);  // its own, begun and not yet full
      sequence->pages[index] = page;
    } else {
      sequence->pages.push_back(page);
    }
    sequence->on_trial |= !cache_.IsProven(page);
    sequence->num_computed = sequence->chain.num_pages * page_tokens;
  }
  return sequence->num_computed - before;
}

int32_t SequencePages::Reserve(Sequence* sequence, int32_t num_tokens) {
  const auto wanted = static_cast<size_t>(PagesFor(num_tokens, sequence->tokens_per_page));
  while (sequence->pages.size() < wanted) {
    const PageId page = pool_.Allocate();
    if (page == kNoPage) break;
    cache_.Forget(page);
    sequence->pages.push_back(page);
  }
  return static_cast<int32_t>(sequence->pages.size()) * sequence->tokens_per_page;
}

void SequencePages::Publish(Sequence* sequence, int32_t num_tokens, bool proven) {
  if (!prefix_cache_ || !sequence->request.profile.shares_pages()) return;
  const int32_t page_tokens = sequence->tokens_per_page;
  while ((sequence->chain.num_pages + 1) * page_tokens <= num_tokens) {
    const auto index = static_cast<size_t>(sequence->chain.num_pages);
    const PageId own = sequence->pages[index];
    const PageId present =
        cache_.Publish(&sequence->tokens[index * static_cast<size_t>(page_tokens)], page_tokens, own, &sequence->chain);
    if (present == own || sequence->num_in_flight > 0 || !cache_.IsProven(present)) continue;
    pool_.Retain(present);
    pool_.Release(own, false);
    sequence->pages[index] = present;
  }
  if (!proven) return;
  for (; sequence->num_proven < sequence->chain.num_pages; ++sequence->num_proven) {
    cache_.Prove(sequence->pages[static_cast<size_t>(sequence->num_proven)]);
  }
  sequence->on_trial = false;
}

void SequencePages::Distrust(const Sequence& sequence) {
  for (const PageId page : sequence.pages) {
    if (!cache_.IsProven(page)) cache_.Forget(page);
  }
}

void SequencePages::Release(Sequence* sequence) {
  DUNLIN_CHECK(sequence->num_in_flight == 0, "pages of a launched step are not given back");
  for (auto page = sequence->pages.rbegin(); page != sequence->pages.rend(); ++page) {
    pool_.Release(*page, cache_.Contains(*page));
  }
  sequence->pages.clear();
  sequence->chain = {};
  sequence->num_proven = 0;
  sequence->on_trial = false;
  sequence->num_computed = 0;
}

}  // namespace dunlin::engine
