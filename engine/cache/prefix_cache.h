// SPDX-License-Identifier: Apache-2.0
// Finds the page that continues a token prefix: a table from 256-bit keyed hash chains to pages. A hit also compares
// the tokens, the domain and the parent entry, so that not even a collision gives one request the KV of another.
// An entry is unproven until a finite row of logits has depended on its page: a fault may have written NaN into it.
// Nothing is allocated after construction; every operation O(1) (one hash of a page's tokens).
// Holds no references: the caller calls Forget before a page is overwritten.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/keyed_hash.h"
#include "engine/cache/page.h"
#include "engine/cache/page_changes.h"
#include "engine/types.h"

namespace dunlin::engine {

struct PrefixCacheOptions {
  int32_t num_pages = 0;            // >= 1
  int32_t max_tokens_per_page = 0;  // >= 1, over all KV dtypes
  Digest hash_key{};                // random per process
  int32_t key_words = 8;            // words of a page's key that are kept; with 0, as in tests, all keys collide
  PageChanges* changes = nullptr;   // marks pages that enter or leave; outlives the cache; null: nobody follows them
};

// What a page holds, for those who follow the cache. Valid until the page changes.
struct CachedBlock {
  BlockId id = kNoBlock;
  BlockId parent = kNoBlock;  // kNoBlock for the first block of a prefix
  uint64_t serial = 0;        // grows with every block that enters; 0: the page is not in the cache
  int32_t num_tokens = 0;
  const TokenId* tokens = nullptr;  // [num_tokens]
  const Digest* domain = nullptr;   // PrefixChain::domain
};

class PrefixCache {
 public:
  explicit PrefixCache(const PrefixCacheOptions& options);

  // The empty prefix of requests with this profile and salt.
  PrefixChain Root(const ExecutionProfile& profile, std::string_view salt) const;

  // The page that holds `tokens` after `chain`, and *chain advanced past it; kNoPage, *chain unchanged, on a miss.
  // proven_only: an unproven page is a miss.
  PageId Match(const TokenId* tokens, int32_t num_tokens, PrefixChain* chain, bool proven_only = false) const;

  // Enters `page`, which holds `tokens` computed after `chain`, unproven, and advances *chain past it. Returns `page`,
  // or an equal page that is cached already: `page` is then not entered. REQUIRES: `page` is not in the cache.
  PageId Publish(const TokenId* tokens, int32_t num_tokens, PageId page, PrefixChain* chain);

  // A finite row of logits has depended on the page. No-op when it is not in the cache.
  void Prove(PageId page) { entries_[static_cast<size_t>(page)].proven = true; }
  bool IsProven(PageId page) const { return Contains(page) && entries_[static_cast<size_t>(page)].proven; }

  // The page's bytes are about to change. No-op when it is not in the cache.
  void Forget(PageId page);

  bool Contains(PageId page) const { return entries_[static_cast<size_t>(page)].serial != 0; }
  int32_t num_cached() const { return num_cached_; }

  // Takes every page out of the cache. O(pages).
  void Clear();

  CachedBlock BlockOf(PageId page) const;
  // Whether some page holds the block. REQUIRES: key_words >= 2.
  bool HoldsBlock(BlockId block) const;

  // Table and entries agree: INTERNAL with the first contradiction. O(pages).
  absl::Status CheckIntegrity() const;

 private:
  struct Entry {
    Digest domain;
    Digest key;
    uint64_t serial = 0;  // never used twice; 0: the page is not in the cache
    uint64_t parent_serial = 0;
    BlockId parent = kNoBlock;
    int32_t num_tokens = 0;
    bool proven = false;
  };

  Digest NextKey(const PrefixChain& chain, const TokenId* tokens, int32_t num_tokens) const;
  PageId Find(const Digest& key, const PrefixChain& chain, const TokenId* tokens, int32_t num_tokens) const;
  void Advance(const Digest& key, PageId page, PrefixChain* chain) const;
  uint32_t HomeSlot(const Digest& key) const { return key[0] & slot_mask_; }
  TokenId* tokens_of(PageId page) { return tokens_.data() + static_cast<size_t>(page) * max_tokens_per_page_; }
  const TokenId* tokens_of(PageId page) const {
    return tokens_.data() + static_cast<size_t>(page) * max_tokens_per_page_;
  }

  void MarkChanged(PageId page) {
    if (changes_ != nullptr) changes_->Mark(page);
  }

  KeyedHash hash_;
  size_t max_tokens_per_page_;
  size_t key_words_;
  uint32_t slot_mask_;           // slots - 1; at least two slots a page keep probes short
  std::vector<PageId> slots_;    // linear probing, no tombstones; kNoPage is empty
  std::vector<Entry> entries_;   // [num_pages]
  std::vector<TokenId> tokens_;  // [num_pages, max_tokens_per_page]
  uint64_t last_serial_ = 0;
  int32_t num_cached_ = 0;
  PageChanges* changes_;
};

}  // namespace dunlin::engine
