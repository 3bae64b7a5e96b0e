// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace dunlin::engine {
namespace {

constexpr ExecutionProfile kFlash{};
constexpr int32_t kPageTokens = 4;
using Tokens = std::vector<TokenId>;

PrefixCacheOptions Options(int32_t num_pages) {
  PrefixCacheOptions options;
  options.num_pages = num_pages;
  options.max_tokens_per_page = kPageTokens;
  options.hash_key = {1, 2, 3, 4, 5, 6, 7, 8};
  return options;
}

PageId Publish(PrefixCache* cache, const Tokens& tokens, PageId page, PrefixChain* chain) {
  return cache->Publish(tokens.data(), static_cast<int32_t>(tokens.size()), &page, chain);
}
PageId Match(const PrefixCache& cache, const Tokens& tokens, PrefixChain* chain) {
  return cache.Match(tokens.data(), static_cast<int32_t>(tokens.size()), chain);
}
PageId MatchFromRoot(const PrefixCache& cache, const Tokens& tokens, const ExecutionProfile& profile = kFlash,
                     std::string_view salt = "") {
  PrefixChain chain = cache.Root(profile, salt);
  return Match(cache, tokens, &chain);
}

TEST(PrefixCache, FindsWhatWasPublishedPageByPage) {
  PrefixCache cache(Options(4));
  PrefixChain written = cache.Root(kFlash, "");
  EXPECT_EQ(Publish(&cache, {1, 2, 3, 4}, 2, &written), 2);
  EXPECT_EQ(Publish(&cache, {5, 6, 7, 8}, 0, &written), 0);
  PrefixChain read = cache.Root(kFlash, "");
  EXPECT_EQ(Match(cache, {1, 2, 3, 4}, &read), 2);
  EXPECT_EQ(Match(cache, {5, 6, 7, 8}, &read), 0);
  EXPECT_EQ(read.num_pages, 2);
  EXPECT_EQ(Match(cache, {9, 9, 9, 9}, &read), kNoPage);
  EXPECT_EQ(read.num_pages, 2);
}

TEST(PrefixCache, TellsEqualPagesAfterDifferentPrefixesApart) {
  PrefixCache cache(Options(4));
  PrefixChain a = cache.Root(kFlash, "");
  Publish(&cache, {1, 1, 1, 1}, 0, &a);
  Publish(&cache, {7, 7, 7, 7}, 1, &a);
  PrefixChain b = cache.Root(kFlash, "");
  Publish(&cache, {2, 2, 2, 2}, 2, &b);
  EXPECT_EQ(Match(cache, {7, 7, 7, 7}, &b), kNoPage);
  EXPECT_EQ(MatchFromRoot(cache, {7, 7, 7, 7}), kNoPage);
}

TEST(PrefixCache, SharesNothingAcrossSaltPrecisionKvDtypeBackendOrAdapter) {
  PrefixCache cache(Options(4));
  PrefixChain chain = cache.Root(kFlash, "tenant");
  Publish(&cache, {1, 2, 3, 4}, 0, &chain);
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}, kFlash, "tenant"), 0);
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}, kFlash, ""), kNoPage);
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}, kFlash, "tenant2"), kNoPage);
  ExecutionProfile math = kFlash;
  math.attention_backend = AttentionBackend::kMath;
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}, math, "tenant"), kNoPage);
  ExecutionProfile fp16 = kFlash;
  fp16.precision = Precision::kFp16;
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}, fp16, "tenant"), kNoPage);
  ExecutionProfile fp8_kv = kFlash;
  fp8_kv.kv_fp8 = true;
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}, fp8_kv, "tenant"), kNoPage);
  for (const uint64_t adapter_id : {uint64_t{1}, uint64_t{1} << 40}) {
    PrefixChain adapted = cache.Root(kFlash, "tenant", adapter_id);
    EXPECT_EQ(Match(cache, {1, 2, 3, 4}, &adapted), kNoPage) << adapter_id;
  }
}

TEST(PrefixCache, KeepsTheFirstOfTwoEqualPages) {
  PrefixCache cache(Options(4));
  PrefixChain a = cache.Root(kFlash, "");
  PrefixChain b = a;
  EXPECT_EQ(Publish(&cache, {1, 2, 3, 4}, 0, &a), 0);
  EXPECT_EQ(Publish(&cache, {1, 2, 3, 4}, 1, &b), 0);
  EXPECT_EQ(a.serial, b.serial);
  EXPECT_FALSE(cache.Contains(1));
}

TEST(PrefixCache, ForgetsAPageAndWithItWhatCameAfter) {
  PrefixCache cache(Options(4));
  PrefixChain chain = cache.Root(kFlash, "");
  Publish(&cache, {1, 2, 3, 4}, 0, &chain);
  Publish(&cache, {5, 6, 7, 8}, 1, &chain);
  cache.Forget(0);
  EXPECT_EQ(MatchFromRoot(cache, {1, 2, 3, 4}), kNoPage);
  // The same beginning in another page is another entry: what followed the old one does not follow it.
  PrefixChain again = cache.Root(kFlash, "");
  Publish(&cache, {1, 2, 3, 4}, 2, &again);
  EXPECT_EQ(Match(cache, {5, 6, 7, 8}, &again), kNoPage);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(PrefixCache, AnswersRightWhenEveryKeyCollides) {
  PrefixCacheOptions options = Options(8);
  options.key_words = 0;
  PrefixCache cache(options);
  PrefixChain a = cache.Root(kFlash, "");
  Publish(&cache, {1, 1, 1, 1}, 0, &a);
  Publish(&cache, {7, 7, 7, 7}, 1, &a);
  PrefixChain b = cache.Root(kFlash, "");
  Publish(&cache, {2, 2, 2, 2}, 2, &b);
  EXPECT_EQ(Match(cache, {7, 7, 7, 7}, &b), kNoPage);
  EXPECT_EQ(MatchFromRoot(cache, {1, 1, 1, 1}), 0);
  EXPECT_EQ(MatchFromRoot(cache, {2, 2, 2, 2}), 2);
  EXPECT_EQ(MatchFromRoot(cache, {1, 1, 1, 1}, kFlash, "salt"), kNoPage);
  cache.Forget(0);
  EXPECT_EQ(MatchFromRoot(cache, {2, 2, 2, 2}), 2);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

// Page sets of one full and two sliding groups.
class BlocksOfGroups : public ::testing::Test {
 protected:
  static PrefixCacheOptions GroupOptions() {
    PrefixCacheOptions options = Options(12);
    options.groups = {.layers_per_page = 1, .num_full = 1, .num_sliding = 2, .window = 6};
    return options;
  }
  PageId PublishBlock(const Tokens& tokens, const std::vector<PageId>& pages) {
    PrefixChain chain = cache_.Root(kFlash, "");
    return cache_.Publish(tokens.data(), kPageTokens, pages.data(), &chain);
  }
  void TearDown() override { EXPECT_TRUE(cache_.CheckIntegrity().ok()) << cache_.CheckIntegrity(); }

  PrefixCache cache_{GroupOptions()};
};

TEST_F(BlocksOfGroups, KnowsThePageOfEachGroup) {
  EXPECT_EQ(PublishBlock({1, 2, 3, 4}, {5, 3, 7}), 5);
  const PageId lead = MatchFromRoot(cache_, {1, 2, 3, 4});
  ASSERT_EQ(lead, 5);
  EXPECT_EQ(cache_.PageOf(lead, 1), 3);
  EXPECT_EQ(cache_.PageOf(lead, 2), 7);
  EXPECT_EQ(cache_.num_cached(), 1);
  EXPECT_TRUE(cache_.Contains(7));
  EXPECT_EQ(cache_.PageSetOf(7).serial, 0U) << "it stands for no page set";
}

TEST_F(BlocksOfGroups, LosesPagesOfSlidingGroupsOneByOne) {
  PublishBlock({1, 2, 3, 4}, {5, 3, 7});
  cache_.Forget(3);
  EXPECT_EQ(MatchFromRoot(cache_, {1, 2, 3, 4}), 5);
  EXPECT_EQ(cache_.PageOf(5, 1), kNoPage);
  EXPECT_EQ(cache_.PageOf(5, 2), 7);
  EXPECT_FALSE(cache_.Contains(3));
}

TEST_F(BlocksOfGroups, EndsWithAPageOfAFullGroup) {
  PublishBlock({1, 2, 3, 4}, {5, 3, 7});
  cache_.Forget(5);
  EXPECT_EQ(MatchFromRoot(cache_, {1, 2, 3, 4}), kNoPage);
  EXPECT_FALSE(cache_.Contains(3));
  EXPECT_FALSE(cache_.Contains(7));
  EXPECT_EQ(cache_.num_cached(), 0);
}

TEST_F(BlocksOfGroups, TakesLostPagesFromAnEqualBlock) {
  PublishBlock({1, 2, 3, 4}, {5, 3, 7});
  cache_.Prove(7);
  cache_.Forget(3);
  EXPECT_EQ(PublishBlock({1, 2, 3, 4}, {0, 1, 2}), 5);
  EXPECT_EQ(cache_.PageOf(5, 1), 1);
  EXPECT_EQ(cache_.PageOf(5, 2), 7);
  EXPECT_FALSE(cache_.IsProven(1));
  EXPECT_TRUE(cache_.IsProven(7));
  EXPECT_FALSE(cache_.Contains(0));
  EXPECT_FALSE(cache_.Contains(2));
}

TEST(PrefixCache, FindsWhatFollowsALostBlockByWholeKeysAlone) {
  for (const int32_t key_words : {8, 7, 0}) {
    PrefixCacheOptions options = Options(8);
    options.key_words = key_words;
    PrefixCache cache(options);
    PrefixChain chain = cache.Root(kFlash, "");
    Publish(&cache, {1, 2, 3, 4}, 0, &chain);
    Publish(&cache, {5, 6, 7, 8}, 1, &chain);
    Publish(&cache, {9, 9, 9, 9}, 2, &chain);
    cache.Forget(0);
    PrefixChain read = cache.Root(kFlash, "");
    const Tokens first = {1, 2, 3, 4};
    cache.Skip(first.data(), kPageTokens, &read);
    EXPECT_EQ(Match(cache, {5, 6, 7, 8}, &read), key_words == 8 ? 1 : kNoPage);
    if (key_words < 8) continue;
    EXPECT_EQ(Match(cache, {9, 9, 9, 9}, &read), 2);
    EXPECT_EQ(read.serial, chain.serial);
    PrefixChain other = cache.Root(kFlash, "");
    const Tokens others = {1, 2, 3, 5};
    cache.Skip(others.data(), kPageTokens, &other);
    EXPECT_EQ(Match(cache, {5, 6, 7, 8}, &other), kNoPage) << "it follows other tokens";
  }
}

// Against a map from whole prefixes to pages, with few words of key so that probes run into one another.
TEST(PrefixCache, AgreesWithAMapUnderRandomUse) {
  for (const int32_t key_words : {8, 1, 0}) {
    constexpr int32_t kPages = 24;
    PrefixCacheOptions options = Options(kPages);
    options.key_words = key_words;
    PrefixCache cache(options);
    std::map<std::pair<std::string, Tokens>, PageId> model;
    std::mt19937 random(3);
    for (int i = 0; i < 30000; ++i) {
      const auto page = static_cast<PageId>(random() % kPages);
      std::erase_if(model, [page](const auto& entry) { return entry.second == page; });
      cache.Forget(page);
      const std::string salt = random() % 2 == 0 ? "a" : "b";
      PrefixChain chain = cache.Root(kFlash, salt);
      const Tokens tokens(kPageTokens, static_cast<TokenId>(random() % 40));
      const auto known = model.find({salt, tokens});
      ASSERT_EQ(Match(cache, tokens, &chain), known == model.end() ? kNoPage : known->second);
      if (known != model.end()) continue;
      ASSERT_EQ(Publish(&cache, tokens, page, &chain), page);
      model[{salt, tokens}] = page;
      ASSERT_EQ(cache.num_cached(), static_cast<int32_t>(model.size()));
    }
    ASSERT_TRUE(cache.CheckIntegrity().ok()) << cache.CheckIntegrity();
  }
}

}  // namespace
}  // namespace dunlin::engine
