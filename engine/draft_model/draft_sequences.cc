// SPDX-License-Identifier: Apache-2.0
#include "engine/draft_model/draft_sequences.h"

#include <algorithm>

namespace dunlin::engine {

DraftSequences::DraftSequences(const DraftSequencesOptions& options)
    : options_(options), pool_(options.num_pages), sequences_(static_cast<size_t>(options.num_sequences)) {
  const auto sets = static_cast<size_t>(PagesFor(options.max_tokens, options.tokens_per_page));
  for (DraftSequence& sequence : sequences_) {
    sequence.tokens.reserve(static_cast<size_t>(options.max_tokens));
    sequence.pages.reserve(sets * static_cast<size_t>(options.num_groups));
  }
}

DraftSequence* DraftSequences::Find(RequestId id, std::span<const TokenId> tokens) {
  if (tokens.size() > static_cast<size_t>(options_.max_tokens)) return nullptr;
  const auto found = std::find_if(sequences_.begin(), sequences_.end(),
                                  [id](const DraftSequence& sequence) { return sequence.id == id; });
  DraftSequence* sequence = found == sequences_.end() ? Oldest(false) : &*found;
  if (sequence == nullptr) return nullptr;
  if (sequence->id != id) Clear(sequence);
  sequence->id = id;
  sequence->last_call = call_;
  const auto common = std::mismatch(sequence->tokens.begin(), sequence->tokens.end(), tokens.begin(), tokens.end());
  const auto num_common = common.first - sequence->tokens.begin();
  sequence->num_computed =
      std::min({sequence->num_computed, static_cast<int32_t>(num_common), static_cast<int32_t>(tokens.size()) - 1});
  sequence->tokens.erase(common.first, sequence->tokens.end());
  sequence->tokens.insert(sequence->tokens.end(), common.second, tokens.end());
  return sequence;
}

int32_t DraftSequences::Reserve(DraftSequence* sequence, int32_t num_tokens) {
  const auto groups = static_cast<size_t>(options_.num_groups);
  const auto wanted = static_cast<size_t>(PagesFor(num_tokens, options_.tokens_per_page)) * groups;
  while (sequence->pages.size() < wanted) {
    if (pool_.num_free() < options_.num_groups) {
      DraftSequence* oldest = Oldest(true);
      if (oldest == nullptr) break;
      Clear(oldest);
      continue;
    }
    for (size_t i = 0; i < groups; ++i) sequence->pages.push_back(pool_.Allocate());
  }
  const int32_t covered = static_cast<int32_t>(sequence->pages.size() / groups) * options_.tokens_per_page;
  return std::min(covered, num_tokens);
}

// A free place is older than any other.
DraftSequence* DraftSequences::Oldest(bool with_pages) {
  DraftSequence* oldest = nullptr;
  for (DraftSequence& sequence : sequences_) {
    if (sequence.last_call == call_ || (with_pages && sequence.pages.empty())) continue;
    if (oldest == nullptr || sequence.last_call < oldest->last_call) oldest = &sequence;
  }
  return oldest;
}

void DraftSequences::Clear(DraftSequence* sequence) {
  for (const PageId page : sequence->pages) pool_.Release(page, false);
  sequence->pages.clear();
  sequence->tokens.clear();
  sequence->num_computed = 0;
  sequence->id = 0;
  sequence->last_call = 0;
}

}  // namespace dunlin::engine
