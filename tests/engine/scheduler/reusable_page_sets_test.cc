// SPDX-License-Identifier: Apache-2.0
// What routers are told of the prefix cache against the prefixes that requests get from it, in a small pool whose pages
// are given back behind windows and overwritten.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "engine/cache/kv_events.h"
#include "engine/scheduler/sequence_pages.h"
#include "tests/engine/cache/followed_options.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kTokensPerPage = 4;
constexpr size_t kMostBlocks = 6;   // of a prompt
constexpr int32_t kNumTokens = 2;   // that a page set is filled with
using Path = std::vector<TokenId>;  // the token of each page set
using Ids = std::set<KvBlockId>;

class Pool {
 public:
  Pool(const KvGroups& groups, int32_t num_pages, int32_t num_slots, uint32_t seed)
      : log_({num_pages, kTokensPerPage, 100, {}}),
        pages_(OptionsOf(groups, num_pages, num_slots, &log_), true, true, kMostBlocks + 1, {8, 4}),
        random_(seed) {}

  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_()) % below; }
  // A prompt of these page sets and one token more, with the pages that the cache has of it.
  std::unique_ptr<Sequence> Start(const Path& path) {
    Request request;
    for (const TokenId token : path) request.prompt.insert(request.prompt.end(), kTokensPerPage, token);
    request.prompt.push_back(kNumTokens);
    auto sequence = MakeSequence(std::move(request), nullptr, kTokensPerPage, pages_.groups().count());
    pages_.AttachCached(sequence.get());
    return sequence;
  }
  // Computes tokens of a sequence in some steps, as far as there are pages.
  void Compute(Sequence* sequence) {
    while (sequence->num_computed < sequence->num_tokens() && Random(8) > 0) {
      const auto wanted =
          std::min(sequence->num_tokens(), sequence->num_computed + 1 + static_cast<int32_t>(Random(9)));
      const int32_t covered = std::min(wanted, pages_.Reserve(sequence, wanted));
      if (covered <= sequence->num_computed) return;
      pages_.PlanState(sequence, covered - sequence->num_computed);
      pages_.EndPlan(sequence);
      sequence->num_computed = covered;
      pages_.Publish(sequence, covered, Random(2) == 0);
      pages_.KeepAtEnd(sequence);
      pages_.FreeBehindWindow(sequence);
    }
  }
  // A prompt comes, an old one goes on, or one ends.
  void UseRandomly() {
    if (running_.size() < 2 && Random(2) == 0) {
      Path path(1 + Random(kMostBlocks));
      for (TokenId& token : path) token = static_cast<TokenId>(Random(kNumTokens));
      running_.push_back(Start(path));
      if (!pages_.TakeState(running_.back().get())) {
        pages_.Release(running_.back().get());
        running_.pop_back();
      }
    }
    if (running_.empty()) return;
    Sequence* sequence = running_[Random(static_cast<uint32_t>(running_.size()))].get();
    Compute(sequence);
    if (Random(40) == 0) pages_.Distrust(sequence);
    if (Random(200) == 0) pages_.ClearCache();
    if (Random(3) > 0) return;
    pages_.Release(sequence);
    std::erase_if(running_, [sequence](const auto& other) { return other.get() == sequence; });
  }

  // The page sets that routers know.
  const Ids& Told() {
    EXPECT_TRUE(log_.Publish(pages_.cache(), 1));
    std::vector<KvEventBatch> batches;
    EXPECT_TRUE(log_.Read(number_, 100, &batches).ok());
    for (const KvEventBatch& batch : batches) {
      number_ = batch.number;
      for (const KvEvent& event : batch.events) {
        if (event.kind == KvEventKind::kCleared) told_.clear();
        if (event.kind == KvEventKind::kRemoved) told_.erase(event.block);
        if (event.kind == KvEventKind::kStored) told_.insert(event.block);
      }
    }
    return told_;
  }
  // The page sets of the prefix that a request with this prompt gets.
  std::vector<KvBlockId> Hit(const Path& path) {
    const std::unique_ptr<Sequence> request = Start(path);
    const int32_t num_page_sets = request->num_computed / kTokensPerPage;
    pages_.Release(request.get());
    std::vector<KvBlockId> ids;
    PrefixChain chain = pages_.cache().Root({}, "");
    for (int32_t i = 0; i < num_page_sets; ++i) {
      const std::vector<TokenId> tokens(kTokensPerPage, path[static_cast<size_t>(i)]);
      pages_.cache().Skip(tokens.data(), kTokensPerPage, &chain);
      ids.push_back(KvBlockIdOf(chain.key));
    }
    return ids;
  }
  int32_t num_cached() const { return pages_.cache().num_cached(); }

 private:
  static PrefixCacheOptions OptionsOf(const KvGroups& groups, int32_t num_pages, int32_t num_slots, KvEventLog* log) {
    PrefixCacheOptions options = FollowedOptions(num_pages, kTokensPerPage, groups, log);
    options.num_state_slots = num_slots;
    return options;
  }

  KvEventLog log_;
  SequencePages pages_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Sequence>> running_;
  Ids told_;
  uint64_t number_ = 0;
};

// Every prompt of up to kMostBlocks page sets.
std::vector<Path> AllPaths() {
  std::vector<Path> paths = {{}};
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].size() == kMostBlocks) break;
    for (TokenId token = 0; token < kNumTokens; ++token) {
      Path longer = paths[i];
      longer.push_back(token);
      paths.push_back(std::move(longer));
    }
  }
  paths.erase(paths.begin());
  return paths;
}

TEST(ReusableBlocks, AreTheOnesOfThePrefixesThatRequestsGet) {
  const std::vector<Path> paths = AllPaths();
  uint32_t seed = 1;
  const struct {
    KvGroups groups;
    int32_t num_slots;  // of states
  } models[] = {{{1, 1, 0, 0}, 0}, {{1, 1, 2, 8}, 0}, {{1, 1, 1, 11}, 0}, {{1, 2, 1, 1}, 0},
                {{1, 1, 1, 4}, 0}, {{1, 1, 0, 0}, 6}, {{1, 2, 1, 8}, 9}};
  for (const auto& [groups, num_slots] : models) {
    Pool pool(groups, 10 * groups.count(), num_slots, seed++);
    int32_t most_useless = 0;
    for (int step = 0; step < 400; ++step) {
      pool.UseRandomly();
      Ids found;
      for (const Path& path : paths) {
        for (const KvBlockId set : pool.Hit(path)) found.insert(set);
      }
      ASSERT_EQ(pool.Told(), found) << "window " << groups.window << ", slots " << num_slots << ", step " << step;
      most_useless = std::max(most_useless, pool.num_cached() - static_cast<int32_t>(found.size()));
    }
    EXPECT_TRUE(most_useless > 0 || groups.window < 4) << "window " << groups.window;
  }
}

// Where every group slides, a prefix is found by its last window, whatever is lost before.
TEST(ReusableBlocks, OfSlidingLayersAloneHaveTheEndsOfAllPrefixes) {
  const std::vector<Path> paths = AllPaths();
  Pool pool({1, 0, 1, 8}, 8, 0, 7);
  int32_t num_ends = 0;
  for (int step = 0; step < 1000; ++step) {
    pool.UseRandomly();
    std::vector<KvBlockId> ends;
    for (const Path& path : paths) {
      const std::vector<KvBlockId> hit = pool.Hit(path);
      if (hit.size() == path.size()) ends.push_back(hit.back());
    }
    const Ids& told = pool.Told();
    for (const KvBlockId end : ends) ASSERT_TRUE(told.contains(end)) << "step " << step;
    ASSERT_LE(told.size(), static_cast<size_t>(pool.num_cached())) << "step " << step;
    num_ends += static_cast<int32_t>(ends.size());
  }
  EXPECT_GT(num_ends, 1000);
}

}  // namespace
}  // namespace dunlin::engine
