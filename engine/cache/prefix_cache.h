// SPDX-License-Identifier: Apache-2.0
// Finds the pages that continue a token prefix: a table from 256-bit keyed hash chains to page sets. A page set is one
// page of each layer group for the same range of tokens; the page of group 0 stands for it. A hit also compares the
// tokens, the domain and the parent entry, so that not even a collision gives one request the KV of another.
// A page set leaves the cache with the first of its pages of full groups. Pages of sliding groups may be lost one by
// one, because tokens further away than the window never read them; the page set stays, unless the lost page stands for
// it.
// A page is unproven until a finite row of logits has depended on it: a fault may have written NaN into it.
// Of a recurrent model a page set may also have the state at its end, in a slot (kept_states.h). A state leaves with
// its page set; without it the page set stays. Every operation is O(groups), plus one hash of a page's tokens; with a
// subscriber to KV events also PageSetTree's cost. Nothing is allocated after construction. Holds no references: the
// caller calls Forget before a page is overwritten. Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/kept_states.h"
#include "engine/cache/keyed_hash.h"
#include "engine/cache/page.h"
#include "engine/cache/page_changes.h"
#include "engine/cache/page_set_tree.h"
#include "engine/request/kv_groups.h"
#include "engine/request/types.h"

namespace dunlin::engine {

struct PrefixCacheOptions {
  int32_t num_pages = 0;            // >= 1
  int32_t max_tokens_per_page = 0;  // >= 1, over all KV dtypes
  KvGroups groups;                  // pages of a page set
  int32_t num_state_slots = 0;      // of a recurrent model; else 0
  Digest hash_key{};                // random per process
  int32_t key_words = 8;            // words of a page's key that are kept; with 0, as in tests, all keys collide
  // Marks the pages of page sets that become reusable or stop being so (page_set_tree.h); outlives the cache; null:
  // there is no subscriber, and every cached page set counts as reusable.
  PageChanges* changes = nullptr;
};

// The reusable page set that a page stands for, as subscribers are told of it. Valid until the page changes.
struct CachedPageSet {
  KvBlockId id = kNoKvBlock;
  KvBlockId parent = kNoKvBlock;  // kNoKvBlock for the first page set of a prefix
  uint64_t serial = 0;            // grows with every page set that enters; 0: the page stands for no reusable one
  int32_t num_tokens = 0;
  const TokenId* tokens = nullptr;  // [num_tokens]
  const Digest* domain = nullptr;   // PrefixChain::domain
};

class PrefixCache {
 public:
  explicit PrefixCache(const PrefixCacheOptions& options);

  // The empty prefix of requests with this profile, salt and adapter. adapter_id: AdapterLease::id.
  PrefixChain Root(const ExecutionProfile& profile, std::string_view salt, uint64_t adapter_id = 0) const;

  // The page that stands for the page set of `tokens` after `chain`, and *chain advanced past it; kNoPage, *chain
  // unchanged, on a miss. proven_only: a page set with an unproven page of a full group, or of group 0, is a miss.
  PageId Match(const TokenId* tokens, int32_t num_tokens, PrefixChain* chain, bool proven_only = false) const;

  // *chain advanced past a page set that is missing: the next one is found by its key, a hash of all tokens before it,
  // and by its own tokens. Nothing is published after it.
  void Skip(const TokenId* tokens, int32_t num_tokens, PrefixChain* chain) const;

  // The page of a group of the page set that `lead` stands for; kNoPage when it is lost.
  PageId PageOf(PageId lead, int32_t group) const { return group == 0 ? lead : others_[OtherIndex(lead, group)]; }

  // Enters the page set of `tokens`, computed after `chain`, unproven, and advances *chain past it. pages:
  // [groups.count()], kNoPage for the pages of sliding groups that are gone. Returns pages[0], or the page that stands
  // for an equal page set that is cached already: that one is given those of `pages` that it has lost, and the others
  // are not entered. REQUIRES: pages[0] is a page; none of them is in the cache.
  PageId Publish(const TokenId* tokens, int32_t num_tokens, const PageId* pages, PrefixChain* chain);

  // A finite row of logits has depended on the page. No-op when it is not in the cache.
  void Prove(PageId page) { proven_[static_cast<size_t>(page)] = Contains(page); }
  bool IsProven(PageId page) const { return proven_[static_cast<size_t>(page)]; }

  // The page's bytes are about to change. No-op when it is not in the cache. Returns the slot of a state that left with
  // it, or kNoStateSlot.
  StateSlot Forget(PageId page);

  const KeptStates& states() const { return states_; }
  // Enters the state at the end of a chain, unproven. Returns its serial; 0, with nothing entered, where the chain's
  // last page set has left or has a state. keeper: KeptState::keeper. REQUIRES: the slot holds no kept state.
  uint64_t KeepState(const PrefixChain& chain, StateSlot slot, uint64_t keeper);
  void ProveState(StateSlot slot) { states_.Prove(slot); }
  // The slot's bytes are about to change, or its state is of no use. No-op when it holds none.
  void ForgetState(StateSlot slot);

  bool Contains(PageId page) const { return lead_[static_cast<size_t>(page)] != kNoPage; }
  int32_t num_cached() const { return num_cached_; }  // page sets

  // Takes every page out of the cache. O(pages).
  void Clear();

  CachedPageSet PageSetOf(PageId page) const;
  // Whether some page stands for the page set, reusable. REQUIRES: key_words >= 2.
  bool HoldsPageSet(KvBlockId id) const;

  // Table and entries agree: INTERNAL with the first contradiction. O(pages).
  absl::Status CheckIntegrity() const;

 private:
  struct Entry {
    Digest domain;
    Digest key;
    uint64_t serial = 0;  // never used twice; 0: the page stands for no page set
    uint64_t parent_serial = 0;
    KvBlockId parent = kNoKvBlock;
    int32_t num_tokens = 0;
  };

  Digest NextKey(const PrefixChain& chain, const TokenId* tokens, int32_t num_tokens) const;
  PageId Find(const Digest& key, const PrefixChain& chain, const TokenId* tokens, int32_t num_tokens) const;
  void Advance(const Digest& key, PageId page, PrefixChain* chain) const;
  bool HasProvenLead(PageId lead) const;
  void Complete(PageId lead, const PageId* pages);
  bool IsWhole(PageId lead) const;
  PageId LastOf(const PrefixChain& chain) const;
  bool IsReusable(PageId lead) const { return !tree_.has_value() || tree_->IsReusable(lead); }
  void Unlink(PageId page);
  StateSlot RemoveEntry(PageId lead);
  size_t OtherIndex(PageId lead, int32_t group) const {
    return static_cast<size_t>(lead) * static_cast<size_t>(groups_.count() - 1) + static_cast<size_t>(group - 1);
  }
  uint32_t HomeSlot(const Digest& key) const { return key[0] & slot_mask_; }
  TokenId* tokens_of(PageId page) { return tokens_.data() + static_cast<size_t>(page) * max_tokens_per_page_; }
  const TokenId* tokens_of(PageId page) const {
    return tokens_.data() + static_cast<size_t>(page) * max_tokens_per_page_;
  }

  KeyedHash hash_;
  size_t max_tokens_per_page_;
  size_t key_words_;
  uint32_t slot_mask_;           // slots - 1; at least two slots a page keep probes short
  std::vector<PageId> slots_;    // linear probing, no tombstones; kNoPage is empty
  std::vector<Entry> entries_;   // [num_pages] of the page set that a page stands for
  std::vector<TokenId> tokens_;  // [num_pages, max_tokens_per_page]
  KvGroups groups_;
  std::vector<PageId> others_;  // [num_pages, groups - 1] of the page set that a page stands for
  std::vector<PageId> lead_;    // [num_pages] what stands for the page set that a page is of; kNoPage: it is of none
  std::vector<bool> proven_;    // [num_pages]
  KeptStates states_;
  uint64_t last_serial_ = 0;
  int32_t num_cached_ = 0;
  std::optional<PageSetTree> tree_;  // with a subscriber
};

}  // namespace dunlin::engine
