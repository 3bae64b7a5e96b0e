// SPDX-License-Identifier: Apache-2.0
// More adapters by name than in device memory: which one leaves it, what keeps one there, and that one comes back as it
// was, from host memory or from its files.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/engine/adapters/adapter_files.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kBytes = 1536;  // of QueryAndValue in FP32

class AdapterEvictionTest : public AdapterFiles {
 protected:
  // With room for two of them in device memory, for `packed` in host memory, and four names.
  void Open(size_t packed, size_t max_bytes = size_t{1} << 20) {
    auto set = AdapterSet::Create(model_.get(), {.max_adapters = 2,
                                                 .max_rank = 8,
                                                 .max_bytes = max_bytes,
                                                 .max_registered = 4,
                                                 .max_host_bytes = packed * kBytes});
    ASSERT_TRUE(set.ok()) << set.status();
    set_ = *std::move(set);
    Write(kConfig, QueryAndValue());
    for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(set_->Load(name, adapter_.path()).ok()) << name;
  }
  std::vector<std::string> Resident() const {
    std::vector<std::string> names;
    for (const AdapterInfo& info : set_->List()) {
      if (info.resident) names.push_back(info.name);
    }
    return names;
  }
  // As a request does.
  AdapterLease Use(const std::string& name) {
    AdapterLease lease = set_->Admit(name);
    if (lease.adapter != nullptr) return lease;
    const absl::StatusOr<AdapterLease> restored = set_->Restore(name);
    EXPECT_TRUE(restored.ok()) << restored.status();
    return restored.ok() ? *restored : AdapterLease{};
  }
  static std::vector<float> ValuesOf(const AdapterLease& lease) {
    std::vector<float> values;
    for (const kernels::LowRankPair& pair : lease.adapter->pairs(Projection::kQkv, 1)) {
      const auto append = [&](const void* matrix, int64_t count) {
        values.insert(values.end(), static_cast<const float*>(matrix), static_cast<const float*>(matrix) + count);
      };
      append(pair.down, pair.rank * kernels::LowRankStride(6));
      append(pair.up, pair.rank * kernels::kLowRankPanel);
    }
    return values;
  }
};

TEST_F(AdapterEvictionTest, TheLeastRecentlyUsedOneLeavesAndComesBackAsItWas) {
  for (const size_t packed : {size_t{4}, size_t{1}, size_t{0}}) {
    SCOPED_TRACE("packed " + std::to_string(packed));
    Open(packed);
    EXPECT_THAT(Resident(), ElementsAre("a", "b"));
    EXPECT_EQ(set_->bytes(), 2 * kBytes);
    AdapterLease a = Use("a");
    const uint64_t id = a.id;
    const std::vector<float> values = ValuesOf(a);
    a = {};
    (void)Use("b");
    (void)Use("a");
    (void)Use("c");
    EXPECT_THAT(Resident(), ElementsAre("a", "c")) << "b was used before a";
    (void)Use("d");
    EXPECT_THAT(Resident(), ElementsAre("c", "d"));
    const AdapterLease out = set_->Lookup("a");
    EXPECT_EQ(out.id, id);
    EXPECT_EQ(out.adapter, nullptr);
    const AdapterLease back = Use("a");
    EXPECT_EQ(back.id, id) << "else its pages of the prefix cache are lost";
    EXPECT_EQ(ValuesOf(back), values);
    EXPECT_EQ(set_->bytes(), 2 * kBytes);
    const AdapterMoves moves = set_->moves();
    EXPECT_EQ(moves.evictions, 3U);
    EXPECT_EQ(moves.restores, 3U);
    EXPECT_EQ(moves.reads, packed == 4 ? 0U : packed == 1 ? 2U : 3U);
    EXPECT_LE(moves.host_bytes, packed * kBytes);
  }
}

TEST_F(AdapterEvictionTest, AnAdapterWithRequestsStays) {
  Open(4);
  AdapterLease a = Use("a");
  const AdapterLease b = Use("b");
  const absl::StatusOr<AdapterLease> refused = set_->Restore("c");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("limit is 2 (max_adapters)"));
  // The one that was used first takes no further requests, so that c gets its place.
  EXPECT_EQ(set_->Admit("a").adapter, nullptr);
  EXPECT_NE(set_->Admit("b").adapter, nullptr);
  EXPECT_EQ(set_->Lookup("a").adapter, a.adapter) << "requests that were admitted begin with it";
  EXPECT_THAT(Resident(), ElementsAre("a", "b"));
  a = {};
  EXPECT_TRUE(set_->Restore("c").ok());
  EXPECT_THAT(Resident(), ElementsAre("b", "c"));
  EXPECT_NE(Use("a").adapter, nullptr) << "c has no requests";
}

TEST_F(AdapterEvictionTest, OneThatGaveWayIsAdmittedAgainWhereNothingTookItsPlace) {
  Open(4);
  const AdapterLease a = Use("a");
  const AdapterLease b = Use("b");
  EXPECT_FALSE(set_->Restore("c").ok());
  EXPECT_EQ(set_->Admit("a").adapter, nullptr);
  const absl::StatusOr<AdapterLease> again = set_->Restore("a");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->adapter, a.adapter);
  EXPECT_NE(set_->Admit("a").adapter, nullptr);
}

TEST_F(AdapterEvictionTest, MemoryLimitsWhatIsThereToo) {
  Open(4, 2 * kBytes - 1);
  EXPECT_THAT(Resident(), ElementsAre("a"));
  (void)Use("d");
  EXPECT_THAT(Resident(), ElementsAre("d"));
  EXPECT_EQ(set_->bytes(), kBytes);
}

TEST_F(AdapterEvictionTest, FilesThatHaveChangedGiveAnotherId) {
  Open(0);
  const uint64_t id = set_->Lookup("c").id;
  EXPECT_EQ(Use("c").id, id) << "the same files";
  (void)Use("a");
  (void)Use("b");
  std::vector<TestTensor> changed = QueryAndValue();
  changed[0].values = {0.25F};
  Write(kConfig, changed);
  const uint64_t other = Use("c").id;
  EXPECT_NE(other, id);
  EXPECT_EQ(set_->Lookup("c").id, other);
  (void)Use("a");
  (void)Use("b");
  adapter_.Write("adapter_config.json", "{");
  EXPECT_EQ(set_->Restore("c").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(set_->Lookup("c").id, other) << "it is still registered";
}

TEST_F(AdapterEvictionTest, NamesAreLimited) {
  Open(4);
  const auto fifth = set_->Load("e", adapter_.path());
  EXPECT_EQ(fifth.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(fifth.status().message()),
              HasSubstr("the model has 4 adapters; limit is 4 (max_registered_adapters)"));
  EXPECT_TRUE(set_->Load("d", adapter_.path(), AdapterSet::IfLoaded::kReplace).ok());
  ASSERT_TRUE(set_->Unload("d").ok()) << "one that is not in device memory";
  EXPECT_TRUE(set_->Load("e", adapter_.path()).ok());
  EXPECT_EQ(set_->Restore("d").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(AdapterSet::Create(model_.get(), {.max_adapters = 3, .max_registered = 2}).status().message()),
      HasSubstr("max_registered is 2; limit is [3, 1024]"));
}

TEST_F(AdapterEvictionTest, AReplacedOneComesBackWithItsNewValues) {
  Open(4);
  const uint64_t id = set_->Lookup("d").id;
  std::vector<TestTensor> changed = QueryAndValue();
  changed[1].values = {0.5F};
  Write(kConfig, changed);
  const auto replaced = set_->Load("d", adapter_.path(), AdapterSet::IfLoaded::kReplace);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_NE(*replaced, id);
  EXPECT_EQ(Use("d").id, *replaced);
  const std::vector<float> d = ValuesOf(Use("d"));
  EXPECT_NE(ValuesOf(Use("a")), d);
}

TEST_F(AdapterEvictionTest, ManyThreadsUseFourAdapters) {
  Open(1);
  AdapterSet* const set = set_.get();
  std::atomic<int> uses{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const std::string name(1, static_cast<char>('a' + (i + round) % 4));
        AdapterLease lease = set->Admit(name);
        for (int tries = 0; lease.adapter == nullptr && tries < 1000000; ++tries) {
          absl::StatusOr<AdapterLease> restored = set->Restore(name);
          if (restored.ok()) lease = *std::move(restored);
        }
        if (lease.adapter != nullptr && lease.adapter->id() == lease.id) ++uses;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(uses.load(), 200);
  EXPECT_LE(set_->bytes(), 2 * kBytes);
}

}  // namespace
}  // namespace dunlin::engine
