// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/sequence_pages.h"

#include <string_view>

#include "engine/base/check.h"

namespace dunlin::engine {

SequencePages::SequencePages(const PrefixCacheOptions& options, bool prefix_cache)
    : pool_(options.num_pages), cache_(options), prefix_cache_(prefix_cache) {}

void SequencePages::AttachCached(Sequence* sequence) {
  DUNLIN_CHECK(sequence->pages.empty() && sequence->num_in_flight == 0, "only an empty sequence starts from the cache");
  sequence->num_computed = 0;
  if (!prefix_cache_ || !sequence->request.profile.shares_pages()) return;
  sequence->chain = cache_.Root(sequence->request.profile, sequence->request.cache_salt);
  if (sequence->request.sampling.prompt_logprobs >= 0) return;
  const int32_t page_tokens = sequence->tokens_per_page;
  while (sequence->num_computed + page_tokens < sequence->num_tokens()) {
    const PageId page =
        cache_.Match(&sequence->tokens[static_cast<size_t>(sequence->num_computed)], page_tokens, &sequence->chain);
    if (page == kNoPage) return;
    pool_.Retain(page);
    sequence->pages.push_back(page);
    sequence->num_computed += page_tokens;
  }
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

void SequencePages::Publish(Sequence* sequence, int32_t num_tokens) {
  DUNLIN_CHECK(sequence->num_in_flight == 0, "pages of a launched step are not exchanged");
  if (!prefix_cache_ || !sequence->request.profile.shares_pages()) return;
  const int32_t page_tokens = sequence->tokens_per_page;
  while ((sequence->chain.num_pages + 1) * page_tokens <= num_tokens) {
    const auto index = static_cast<size_t>(sequence->chain.num_pages);
    const PageId own = sequence->pages[index];
    const PageId present =
        cache_.Publish(&sequence->tokens[index * static_cast<size_t>(page_tokens)], page_tokens, own, &sequence->chain);
    if (present == own) continue;
    pool_.Retain(present);
    pool_.Release(own, false);
    sequence->pages[index] = present;
  }
}

void SequencePages::Release(Sequence* sequence) {
  DUNLIN_CHECK(sequence->num_in_flight == 0, "pages of a launched step are not given back");
  for (auto page = sequence->pages.rbegin(); page != sequence->pages.rend(); ++page) {
    pool_.Release(*page, cache_.Contains(*page));
  }
  sequence->pages.clear();
  sequence->chain = {};
  sequence->num_computed = 0;
}

}  // namespace dunlin::engine
