// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kSkippedPageSet = ~uint64_t{0};  // PrefixChain::serial after a page set that was passed over

}  // namespace

PrefixCache::PrefixCache(const PrefixCacheOptions& options)
    : hash_(options.hash_key),
      max_tokens_per_page_(static_cast<size_t>(options.max_tokens_per_page)),
      key_words_(static_cast<size_t>(options.key_words)),
      slot_mask_(std::bit_ceil(2 * static_cast<uint32_t>(options.num_pages)) - 1),
      slots_(size_t{slot_mask_} + 1, kNoPage),
      entries_(static_cast<size_t>(options.num_pages)),
      tokens_(static_cast<size_t>(options.num_pages) * max_tokens_per_page_),
      groups_(options.groups),
      others_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(options.groups.count() - 1), kNoPage),
      lead_(static_cast<size_t>(options.num_pages), kNoPage),
      proven_(static_cast<size_t>(options.num_pages)),
      states_(options.num_pages, options.num_state_slots) {
  if (options.changes == nullptr) return;
  tree_.emplace(options.num_pages, options.groups, options.num_state_slots > 0, options.changes);
}

PrefixChain PrefixCache::Root(const ExecutionProfile& profile, std::string_view salt, uint64_t adapter_id) const {
  uint8_t words[4 + sizeof(adapter_id)] = {
      static_cast<uint8_t>(profile.device), static_cast<uint8_t>(profile.attention_backend),
      static_cast<uint8_t>(profile.precision), static_cast<uint8_t>(profile.kv_dtype())};
  std::memcpy(words + 4, &adapter_id, sizeof(adapter_id));
  PrefixChain root;
  root.domain = hash_(words, sizeof(words), salt.data(), salt.size());
  root.key = root.domain;
  return root;
}

Digest PrefixCache::NextKey(const PrefixChain& chain, const TokenId* tokens, int32_t num_tokens) const {
  Digest key = hash_(chain.key.data(), sizeof(chain.key), tokens, sizeof(TokenId) * static_cast<size_t>(num_tokens));
  std::fill(key.begin() + static_cast<std::ptrdiff_t>(key_words_), key.end(), 0U);
  return key;
}

// A chain that has skipped a page set ends with no entry; its key, if it is a whole one, stands for all tokens before.
PageId PrefixCache::Find(const Digest& key, const PrefixChain& chain, const TokenId* tokens, int32_t num_tokens) const {
  const bool any_parent = chain.serial == kSkippedPageSet && key_words_ == key.size();
  for (uint32_t slot = HomeSlot(key); slots_[slot] != kNoPage; slot = (slot + 1) & slot_mask_) {
    const PageId page = slots_[slot];
    const Entry& entry = entries_[static_cast<size_t>(page)];
    if (entry.key == key && (any_parent || entry.parent_serial == chain.serial) && entry.domain == chain.domain &&
        entry.num_tokens == num_tokens && std::equal(tokens, tokens + num_tokens, tokens_of(page))) {
      return page;
    }
  }
  return kNoPage;
}

void PrefixCache::Advance(const Digest& key, PageId page, PrefixChain* chain) const {
  chain->key = key;
  chain->serial = entries_[static_cast<size_t>(page)].serial;
  ++chain->num_pages;
}

// Pages of full groups and the one that stands for the page set.
bool PrefixCache::HasProvenLead(PageId lead) const {
  bool proven = IsProven(lead);
  for (int32_t group = 1; group < groups_.num_full; ++group) proven = proven && IsProven(PageOf(lead, group));
  return proven;
}

PageId PrefixCache::Match(const TokenId* tokens, int32_t num_tokens, PrefixChain* chain, bool proven_only) const {
  const Digest key = NextKey(*chain, tokens, num_tokens);
  const PageId page = Find(key, *chain, tokens, num_tokens);
  if (page == kNoPage || (proven_only && !HasProvenLead(page))) return kNoPage;
  Advance(key, page, chain);
  return page;
}

void PrefixCache::Skip(const TokenId* tokens, int32_t num_tokens, PrefixChain* chain) const {
  chain->key = NextKey(*chain, tokens, num_tokens);
  chain->serial = kSkippedPageSet;
  ++chain->num_pages;
}

PageId PrefixCache::Publish(const TokenId* tokens, int32_t num_tokens, const PageId* pages, PrefixChain* chain) {
  const PageId lead = pages[0];
  DUNLIN_CHECK(lead != kNoPage && !Contains(lead), "a page holds one prefix");
  const Digest key = NextKey(*chain, tokens, num_tokens);
  const PageId present = Find(key, *chain, tokens, num_tokens);
  if (present != kNoPage) {
    Complete(present, pages);
    if (tree_.has_value()) tree_->SetWhole(present, IsWhole(present));
    Advance(key, present, chain);
    return present;
  }
  const KvBlockId parent = chain->num_pages == 0 ? kNoKvBlock : KvBlockIdOf(chain->key);
  entries_[static_cast<size_t>(lead)] = {chain->domain, key, ++last_serial_, chain->serial, parent, num_tokens};
  std::copy(tokens, tokens + num_tokens, tokens_of(lead));
  uint32_t slot = HomeSlot(key);
  while (slots_[slot] != kNoPage) slot = (slot + 1) & slot_mask_;
  slots_[slot] = lead;
  lead_[static_cast<size_t>(lead)] = lead;
  Complete(lead, pages);
  ++num_cached_;
  if (tree_.has_value()) tree_->Enter(lead, LastOf(*chain), chain->num_pages, num_tokens, IsWhole(lead));
  Advance(key, lead, chain);
  return lead;
}

// What stands for the last page set of a chain; kNoPage where that has left, and of the root.
PageId PrefixCache::LastOf(const PrefixChain& chain) const {
  if (chain.num_pages == 0) return kNoPage;
  for (uint32_t slot = HomeSlot(chain.key); slots_[slot] != kNoPage; slot = (slot + 1) & slot_mask_) {
    if (entries_[static_cast<size_t>(slots_[slot])].serial == chain.serial) return slots_[slot];
  }
  return kNoPage;
}

bool PrefixCache::IsWhole(PageId lead) const {
  for (int32_t group = groups_.num_full; group < groups_.count(); ++group) {
    if (PageOf(lead, group) == kNoPage) return false;
  }
  return true;
}

// The page set takes the pages of groups of which it has none.
void PrefixCache::Complete(PageId lead, const PageId* pages) {
  for (int32_t group = 1; group < groups_.count(); ++group) {
    PageId& other = others_[OtherIndex(lead, group)];
    if (other != kNoPage || pages[group] == kNoPage) continue;
    DUNLIN_CHECK(!Contains(pages[group]), "a page holds one prefix");
    other = pages[group];
    lead_[static_cast<size_t>(other)] = lead;
  }
}

void PrefixCache::Unlink(PageId page) {
  lead_[static_cast<size_t>(page)] = kNoPage;
  proven_[static_cast<size_t>(page)] = false;
}

StateSlot PrefixCache::Forget(PageId page) {
  if (!Contains(page)) return kNoStateSlot;
  const PageId lead = lead_[static_cast<size_t>(page)];
  bool ends = lead == page;
  for (int32_t group = 1; group < groups_.count(); ++group) {
    ends = ends || (PageOf(lead, group) == page && !groups_.slides(group));
  }
  for (int32_t group = 1; group < groups_.count(); ++group) {
    PageId& other = others_[OtherIndex(lead, group)];
    if (other == kNoPage || (!ends && other != page)) continue;
    Unlink(other);
    other = kNoPage;
  }
  if (!ends) {
    if (tree_.has_value()) tree_->SetWhole(lead, false);
    return kNoStateSlot;
  }
  Unlink(lead);
  return RemoveEntry(lead);
}

// Takes the page set out of the table, and its state.
StateSlot PrefixCache::RemoveEntry(PageId lead) {
  const StateSlot state = states_.Of(lead);
  if (state != kNoStateSlot) states_.Forget(state);
  Entry& entry = entries_[static_cast<size_t>(lead)];
  uint32_t hole = HomeSlot(entry.key);
  while (slots_[hole] != lead) hole = (hole + 1) & slot_mask_;
  entry.serial = 0;
  --num_cached_;
  if (tree_.has_value()) tree_->Leave(lead);
  // Entries after the hole move into it unless that would put them before their home.
  for (uint32_t slot = (hole + 1) & slot_mask_; slots_[slot] != kNoPage; slot = (slot + 1) & slot_mask_) {
    const uint32_t home = HomeSlot(entries_[static_cast<size_t>(slots_[slot])].key);
    if (((slot - home) & slot_mask_) >= ((slot - hole) & slot_mask_)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = kNoPage;
  return state;
}

uint64_t PrefixCache::KeepState(const PrefixChain& chain, StateSlot slot, uint64_t keeper) {
  const PageId lead = LastOf(chain);
  if (lead == kNoPage || states_.Of(lead) != kNoStateSlot) return 0;
  const uint64_t serial = states_.Keep(lead, slot, keeper);
  if (tree_.has_value()) tree_->SetState(lead, true);
  return serial;
}

void PrefixCache::ForgetState(StateSlot slot) {
  const PageId lead = states_.At(slot).lead;
  if (lead == kNoPage) return;
  states_.Forget(slot);
  if (tree_.has_value()) tree_->SetState(lead, false);
}

void PrefixCache::Clear() {
  for (size_t page = 0; page < entries_.size(); ++page) Forget(static_cast<PageId>(page));
}

CachedPageSet PrefixCache::PageSetOf(PageId page) const {
  const Entry& entry = entries_[static_cast<size_t>(page)];
  if (entry.serial == 0 || !IsReusable(page)) return {};
  return {KvBlockIdOf(entry.key), entry.parent, entry.serial, entry.num_tokens, tokens_of(page), &entry.domain};
}

bool PrefixCache::HoldsPageSet(KvBlockId id) const {
  const auto first_word = static_cast<uint32_t>(id);
  for (uint32_t slot = first_word & slot_mask_; slots_[slot] != kNoPage; slot = (slot + 1) & slot_mask_) {
    if (KvBlockIdOf(entries_[static_cast<size_t>(slots_[slot])].key) == id && IsReusable(slots_[slot])) return true;
  }
  return false;
}

absl::Status PrefixCache::CheckIntegrity() const {
  if (absl::Status status = states_.CheckIntegrity(); !status.ok()) return status;
  for (StateSlot slot = 0; slot < states_.num_slots(); ++slot) {
    const PageId lead = states_.At(slot).lead;
    if (lead == kNoPage || entries_[static_cast<size_t>(lead)].serial != 0) continue;
    return absl::InternalError(absl::StrCat("state slot ", slot, " is kept for page ", lead, ", which is not cached"));
  }
  int32_t in_table = 0;
  for (const PageId page : slots_) {
    if (page == kNoPage) continue;
    ++in_table;
    if (lead_[static_cast<size_t>(page)] != page) {
      return absl::InternalError(absl::StrCat("page ", page, " is in the table without an entry"));
    }
  }
  int32_t of_sets = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].serial == 0) continue;
    const auto lead = static_cast<PageId>(i);
    uint32_t slot = HomeSlot(entries_[i].key);
    while (slots_[slot] != kNoPage && slots_[slot] != lead) slot = (slot + 1) & slot_mask_;
    if (slots_[slot] == kNoPage) return absl::InternalError(absl::StrCat("page ", i, " cannot be found"));
    for (int32_t group = 0; group < groups_.count(); ++group) {
      const PageId page = PageOf(lead, group);
      if (page != kNoPage && lead_[static_cast<size_t>(page)] == lead) {
        ++of_sets;
      } else if (page != kNoPage || !groups_.slides(group)) {
        return absl::InternalError(absl::StrCat("the page set of page ", i, " has page ", page, " of group ", group));
      }
    }
  }
  const auto contained = static_cast<std::ptrdiff_t>(lead_.size()) - std::count(lead_.begin(), lead_.end(), kNoPage);
  if (in_table != num_cached_ || of_sets != contained) {
    return absl::InternalError(absl::StrCat("cached page sets: ", num_cached_, " counted, ", in_table,
                                            " in the table; their pages: ", contained, " marked, ", of_sets,
                                            " listed"));
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
