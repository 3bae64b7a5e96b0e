// SPDX-License-Identifier: Apache-2.0
// Events against what the cache holds. A reader that applies them, in order, must know exactly the blocks that requests
// find.
#include "engine/cache/kv_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "engine/cache/prefix_cache.h"
#include "tests/engine/cache/followed_options.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kTokensPerPage = 4;
using Tokens = std::vector<TokenId>;

struct Block {
  KvBlockId parent = kNoKvBlock;
  uint64_t domain = 0;
  Tokens tokens;
  friend bool operator==(const Block&, const Block&) = default;
};
using Blocks = std::map<KvBlockId, Block>;

void Apply(const KvEvent& event, Blocks* blocks) {
  if (event.kind == KvEventKind::kCleared) blocks->clear();
  if (event.kind == KvEventKind::kRemoved) blocks->erase(event.block);
  if (event.kind == KvEventKind::kStored) (*blocks)[event.block] = {event.parent, event.domain, event.tokens};
}

// A cache whose pages a test fills, with a log.
class Followed {
 public:
  explicit Followed(int32_t num_pages, int32_t max_batches = 100000, const KvGroups& groups = {})
      : log_({num_pages, kTokensPerPage, max_batches, {}}),
        cache_(FollowedOptions(num_pages, kTokensPerPage, groups, &log_)),
        num_pages_(num_pages) {}

  // Publishes `pages_of_tokens` one after another from the root of `salt`, in the pages that `next_page` gives.
  template <typename NextPage>
  void Publish(const std::vector<Tokens>& pages_of_tokens, const std::string& salt, NextPage next_page) {
    PrefixChain chain = cache_.Root({}, salt);
    for (const Tokens& tokens : pages_of_tokens) {
      if (cache_.Match(tokens.data(), kTokensPerPage, &chain) != kNoPage) continue;
      const PageId page = next_page();
      cache_.Forget(page);
      cache_.Publish(tokens.data(), kTokensPerPage, &page, &chain);
    }
  }
  Blocks Held() const {
    Blocks blocks;
    for (PageId page = 0; page < num_pages_; ++page) {
      const CachedPageSet block = cache_.PageSetOf(page);
      if (block.serial == 0) continue;
      const bool has_salt = *block.domain != cache_.Root({}, "").domain;
      blocks[block.id] = {block.parent, has_salt ? KvBlockIdOf(*block.domain) : 0,
                          Tokens(block.tokens, block.tokens + block.num_tokens)};
    }
    return blocks;
  }
  // Applies what was published after *number.
  absl::Status Follow(uint64_t* number, Blocks* blocks) const {
    std::vector<KvEventBatch> batches;
    if (absl::Status status = log_.Read(*number, 1000000, &batches); !status.ok()) return status;
    for (const KvEventBatch& batch : batches) {
      EXPECT_EQ(batch.number, ++*number);
      EXPECT_FALSE(batch.events.empty());
      for (const KvEvent& event : batch.events) Apply(event, blocks);
    }
    return absl::OkStatus();
  }

  KvEventLog& log() { return log_; }
  PrefixCache& cache() { return cache_; }

 private:
  KvEventLog log_;
  PrefixCache cache_;
  int32_t num_pages_;
};

// A step of random use: prefixes of up to four pages over a small alphabet, in random pages, so that prefixes lose
// their beginning and are computed again while what followed is still there.
void UseRandomly(std::mt19937* random, int32_t num_pages, Followed* followed) {
  const auto page = [&] { return static_cast<PageId>((*random)() % static_cast<uint32_t>(num_pages)); };
  for (uint32_t i = (*random)() % 4; i > 0; --i) {
    std::vector<Tokens> prefix((*random)() % 4 + 1);
    for (Tokens& tokens : prefix) tokens.assign(kTokensPerPage, static_cast<TokenId>((*random)() % 3));
    followed->Publish(prefix, (*random)() % 4 == 0 ? "salt" : "", page);
  }
  if ((*random)() % 3 == 0) followed->cache().Forget(page());
  if ((*random)() % 50 == 0) followed->cache().Clear();
}

TEST(KvEventLog, ReplayedEventsAreTheCachesContent) {
  constexpr int32_t kPages = 12;
  Followed followed(kPages);
  std::mt19937 random(11);
  Blocks replayed;
  uint64_t number = 0;
  for (int step = 0; step < 20000; ++step) {
    UseRandomly(&random, kPages, &followed);
    ASSERT_TRUE(followed.log().Publish(followed.cache(), step));
    ASSERT_TRUE(followed.Follow(&number, &replayed).ok());
    ASSERT_EQ(replayed, followed.Held()) << "step " << step;
  }
  EXPECT_EQ(number, followed.log().last());
  EXPECT_GT(number, 5000U);
}

// The blocks that are found behind `chain`, of pages of one token each of {0, 1, 2}.
void FindBlocks(const PrefixCache& cache, const PrefixChain& chain, std::set<KvBlockId>* found) {
  for (TokenId token = 0; token < 3; ++token) {
    const Tokens tokens(kTokensPerPage, token);
    PrefixChain behind = chain;
    if (cache.Match(tokens.data(), kTokensPerPage, &behind) == kNoPage) continue;
    found->insert(KvBlockIdOf(behind.key));
    FindBlocks(cache, behind, found);
  }
}

// What follows a lost block is in the cache, but no request comes there.
TEST(KvEventLog, StoredBlocksAreThoseThatRequestsFind) {
  constexpr int32_t kPages = 12;
  Followed followed(kPages);
  std::mt19937 random(14);
  Blocks replayed;
  uint64_t number = 0;
  int32_t most_unreachable = 0;
  for (int step = 0; step < 5000; ++step) {
    UseRandomly(&random, kPages, &followed);
    ASSERT_TRUE(followed.log().Publish(followed.cache(), step));
    ASSERT_TRUE(followed.Follow(&number, &replayed).ok());
    std::set<KvBlockId> found;
    for (const char* salt : {"", "salt"}) FindBlocks(followed.cache(), followed.cache().Root({}, salt), &found);
    std::set<KvBlockId> stored;
    for (const auto& [id, block] : replayed) stored.insert(id);
    ASSERT_EQ(stored, found) << "step " << step;
    most_unreachable = std::max(most_unreachable, followed.cache().num_cached() - static_cast<int32_t>(found.size()));
  }
  EXPECT_GT(most_unreachable, 2);
}

// Five blocks, of which the next token reads the last two in the sliding groups.
TEST(KvEventLog, BlocksAreRemovedWithTheLastWindowBehindThem) {
  Followed followed(24, 100, {.layers_per_page = 1, .num_full = 1, .num_sliding = 2, .window = 8});
  PrefixCache& cache = followed.cache();
  const auto publish = [&cache](PageId first_page) {
    PrefixChain chain = cache.Root({}, "");
    for (PageId block = 0; block < 5; ++block) {
      const Tokens tokens(kTokensPerPage, block);
      const PageId first = first_page + 3 * block;
      const std::vector<PageId> pages = {first, first + 1, first + 2};
      if (first_page == 0 || block == 3) {
        cache.Publish(tokens.data(), kTokensPerPage, pages.data(), &chain);
      } else {
        ASSERT_NE(cache.Match(tokens.data(), kTokensPerPage, &chain), kNoPage);
      }
    }
  };
  const auto kinds = [&followed](uint64_t after) {
    std::vector<KvEventBatch> batches;
    EXPECT_TRUE(followed.log().Publish(followed.cache(), 1));
    EXPECT_TRUE(followed.log().Read(after, 10, &batches).ok());
    std::vector<KvEventKind> all;
    for (const KvEventBatch& batch : batches) {
      for (const KvEvent& event : batch.events) all.push_back(event.kind);
    }
    return all;
  };
  publish(0);
  EXPECT_EQ(kinds(0), std::vector<KvEventKind>(5, KvEventKind::kStored));
  for (const PageId page : {1, 2, 4, 8}) cache.Forget(page);  // of the first three blocks
  EXPECT_TRUE(kinds(1).empty()) << "the last two are whole, and lead through all";
  cache.Forget(10);  // of the fourth
  EXPECT_EQ(kinds(1), std::vector<KvEventKind>(5, KvEventKind::kRemoved));
  EXPECT_EQ(cache.num_cached(), 5);
  publish(9);  // the fourth is computed again, in pages 18 to 20
  EXPECT_EQ(kinds(2), std::vector<KvEventKind>(5, KvEventKind::kStored));
}

TEST(KvEventLog, SnapshotAndWhatFollowsItAreTheCachesContent) {
  constexpr int32_t kPages = 12;
  Followed followed(kPages);
  std::mt19937 random(12);
  for (int round = 0; round < 200; ++round) {
    const KvSnapshot snapshot = followed.log().Snapshot();
    uint64_t number = snapshot.number;
    Blocks blocks;
    for (const KvEvent& event : snapshot.blocks) {
      EXPECT_EQ(event.kind, KvEventKind::kStored);
      Apply(event, &blocks);
    }
    ASSERT_EQ(blocks, followed.Held());
    for (int step = 0; step < 20; ++step) {
      UseRandomly(&random, kPages, &followed);
      ASSERT_TRUE(followed.log().Publish(followed.cache(), step));
    }
    ASSERT_TRUE(followed.Follow(&number, &blocks).ok());
    ASSERT_EQ(blocks, followed.Held());
  }
}

TEST(KvEventLog, StoresParentsFirstAndNamesThem) {
  Followed followed(8);
  PageId next = 8;
  followed.Publish({{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, "", [&next] { return --next; });
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 77));
  std::vector<KvEventBatch> batches;
  ASSERT_TRUE(followed.log().Read(0, 10, &batches).ok());
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].number, 1U);
  EXPECT_EQ(batches[0].published, 77);
  ASSERT_EQ(batches[0].events.size(), 3U);
  KvBlockId parent = kNoKvBlock;
  for (TokenId i = 1; i <= 3; ++i) {
    const KvEvent& event = batches[0].events[static_cast<size_t>(i) - 1];
    EXPECT_EQ(event.kind, KvEventKind::kStored);
    EXPECT_EQ(event.parent, parent);
    EXPECT_EQ(event.tokens, Tokens(kTokensPerPage, i));
    parent = event.block;
  }
}

TEST(KvEventLog, AnEmptyCacheIsOneEvent) {
  Followed followed(8);
  PageId next = 8;
  followed.Publish({{1, 1, 1, 1}, {2, 2, 2, 2}}, "", [&next] { return --next; });
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 1));
  followed.cache().Clear();
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 2));
  std::vector<KvEventBatch> batches;
  ASSERT_TRUE(followed.log().Read(1, 10, &batches).ok());
  ASSERT_EQ(batches.size(), 1U);
  ASSERT_EQ(batches[0].events.size(), 1U);
  EXPECT_EQ(batches[0].events[0].kind, KvEventKind::kCleared);
}

TEST(KvEventLog, WhatEntersAndLeavesWithinAStepIsNoEvent) {
  Followed followed(8);
  followed.Publish({{1, 1, 1, 1}}, "", [] { return 3; });
  followed.cache().Forget(3);
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 1));
  EXPECT_EQ(followed.log().last(), 0U);
}

TEST(KvEventLog, SaysWhichBatchesItNoLongerKeeps) {
  Followed followed(4, 3);
  for (TokenId i = 0; i < 10; ++i) {
    followed.Publish({Tokens(kTokensPerPage, i)}, "", [i] { return i % 4; });
    ASSERT_TRUE(followed.log().Publish(followed.cache(), i));
  }
  std::vector<KvEventBatch> batches;
  for (const uint64_t gone : {0, 6}) {
    EXPECT_EQ(followed.log().Read(gone, 10, &batches).code(), absl::StatusCode::kOutOfRange) << gone;
  }
  EXPECT_EQ(followed.log().Read(11, 10, &batches).code(), absl::StatusCode::kOutOfRange) << "not a number of this log";
  EXPECT_TRUE(batches.empty());
  ASSERT_TRUE(followed.log().Read(7, 2, &batches).ok());
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].number, 8U);
  EXPECT_EQ(batches[1].number, 9U);
  batches.clear();
  ASSERT_TRUE(followed.log().Read(10, 10, &batches).ok());
  EXPECT_TRUE(batches.empty());
}

// Large batches push out old ones before their number does.
TEST(KvEventLog, KeepsNoMoreEventsThanItHasRoomFor) {
  constexpr int32_t kPages = 4;
  Followed followed(kPages, 8);
  Blocks blocks;
  uint64_t number = 0;
  for (TokenId i = 0; i < 100; ++i) {
    PageId next = 0;
    followed.Publish({Tokens(kTokensPerPage, i), {7, 7, 7, 7}, {8, 8, 8, 8}, {9, 9, 9, 9}}, "",
                     [&next] { return next++; });
    ASSERT_TRUE(followed.log().Publish(followed.cache(), i));
    ASSERT_TRUE(followed.Follow(&number, &blocks).ok());
    ASSERT_EQ(blocks, followed.Held());
  }
  std::vector<KvEventBatch> batches;
  EXPECT_EQ(followed.log().Read(92, 10, &batches).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(followed.log().Read(97, 10, &batches).ok());
  EXPECT_EQ(batches.size(), 3U);
}

class CountingListener final : public KvEventListener {
 public:
  void OnKvEvents() override { ++calls; }
  std::atomic<int> calls{0};
};

TEST(KvEventLog, CallsItsListenersForEachBatch) {
  Followed followed(4);
  CountingListener listener;
  ASSERT_TRUE(followed.log().AddListener(&listener));
  followed.Publish({{1, 1, 1, 1}}, "", [] { return 0; });
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 1));
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 2));  // nothing has changed
  EXPECT_EQ(listener.calls, 1);
  followed.log().RemoveListener(&listener);
  followed.cache().Clear();
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 3));
  EXPECT_EQ(listener.calls, 1);
}

// The writer never waits for readers, and what it could not publish comes with a later step.
TEST(KvEventLog, ReadersOnOtherThreadsKnowTheContentInTheEnd) {
  constexpr int32_t kPages = 12;
  Followed followed(kPages);
  std::atomic<bool> done{false};
  Blocks blocks;
  uint64_t number = 0;
  std::thread reader([&] {
    while (!done) {
      ASSERT_TRUE(followed.Follow(&number, &blocks).ok());
      EXPECT_LE(followed.log().Snapshot().blocks.size(), static_cast<size_t>(kPages));
    }
  });
  std::mt19937 random(13);
  for (int step = 0; step < 20000; ++step) {
    UseRandomly(&random, kPages, &followed);
    followed.log().Publish(followed.cache(), step);
  }
  done = true;
  reader.join();
  ASSERT_TRUE(followed.log().Publish(followed.cache(), 20000));
  ASSERT_TRUE(followed.Follow(&number, &blocks).ok());
  EXPECT_EQ(blocks, followed.Held());
}

}  // namespace
}  // namespace dunlin::engine
