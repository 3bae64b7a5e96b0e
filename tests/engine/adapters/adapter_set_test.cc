// SPDX-License-Identifier: Apache-2.0
// Adapters by name: loading, replacing and unloading while requests hold leases, and the set's limits.
#include "engine/adapters/adapter_set.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/engine/adapters/adapter_files.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdapterSetTest : public AdapterFiles {};

TEST_F(AdapterSetTest, TellsOfWhatIsLoaded) {
  EXPECT_EQ(set_->Lookup("tone").id, 0U);
  const auto id = LoadAs("tone", kConfig, QueryAndValue());
  ASSERT_TRUE(id.ok()) << id.status();
  const AdapterLease lease = set_->Lookup("tone");
  EXPECT_EQ(lease.id, *id);
  const std::vector<AdapterInfo> list = set_->List();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].name, "tone");
  EXPECT_EQ(list[0].path, adapter_.path());
  EXPECT_EQ(list[0].id, *id);
  EXPECT_EQ(list[0].rank, 2);
  EXPECT_EQ(list[0].bytes, set_->bytes());
  EXPECT_TRUE(list[0].in_use);
  EXPECT_THAT(list[0].targets, ElementsAre("q_proj", "v_proj"));
}

TEST_F(AdapterSetTest, ALeaseKeepsWhatIsUnloaded) {
  const auto first = LoadAs("tone", kConfig, QueryAndValue());
  ASSERT_TRUE(first.ok()) << first.status();
  AdapterLease lease = set_->Lookup("tone");
  const size_t held = state_.bytes_held;
  ASSERT_TRUE(set_->Unload("tone").ok());
  EXPECT_EQ(set_->Lookup("tone").id, 0U);
  EXPECT_EQ(set_->Unload("tone").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(state_.bytes_held, held);
  EXPECT_EQ(lease.adapter->rank(), 2);
  const auto again = set_->Load("tone", adapter_.path());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(*again, *first) << "another load of the same files";
  lease = {};
  EXPECT_EQ(state_.bytes_held, held);
}

TEST_F(AdapterSetTest, ReplacesOnlyWhereThatIsAskedFor) {
  const auto first = LoadAs("tone", kConfig, QueryAndValue());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto refused = set_->Load("tone", adapter_.path());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(set_->Lookup("tone").id, *first);
  const auto second = set_->Load("tone", adapter_.path(), AdapterSet::IfLoaded::kReplace);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(set_->Lookup("tone").id, *second);
  EXPECT_NE(*second, *first);
  EXPECT_EQ(set_->List().size(), 1U);
}

TEST_F(AdapterSetTest, AFailedReplacementLeavesTheLoadedOne) {
  const auto first = LoadAs("tone", kConfig, QueryAndValue());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(set_->Load("tone", adapter_.path() + "/none", AdapterSet::IfLoaded::kReplace).ok());
  EXPECT_EQ(set_->Lookup("tone").id, *first);
}

TEST_F(AdapterSetTest, CountsThoseThatAreUnloadedButInUse) {
  ASSERT_TRUE(LoadAs("a", kConfig, QueryAndValue()).ok());
  ASSERT_TRUE(set_->Load("b", adapter_.path()).ok());
  ASSERT_TRUE(set_->Load("c", adapter_.path()).ok());
  AdapterLease lease = set_->Lookup("a");
  ASSERT_TRUE(set_->Unload("a").ok());
  const auto refused = set_->Load("d", adapter_.path());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("limit is 3 (max_adapters)"));
  lease = {};
  EXPECT_TRUE(set_->Load("d", adapter_.path()).ok());
}

TEST_F(AdapterSetTest, RefusesWhatTakesTooMuchMemory) {
  Write(kConfig, QueryAndValue());
  auto small = AdapterSet::Create(model_.get(), {.max_adapters = 3, .max_rank = 8, .max_bytes = 1535});
  ASSERT_TRUE(small.ok()) << small.status();
  const auto refused = (*small)->Load("tone", adapter_.path());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("takes 1536 bytes; 1535 are left of max_bytes"));
  state_.bytes_limit = state_.bytes_held;
  EXPECT_THAT(std::string(set_->Load("tone", adapter_.path()).status().message()),
              HasSubstr("the device has no memory for 1536 bytes"));
}

TEST_F(AdapterSetTest, RefusesNamesAndLimitsOutsideTheirRanges) {
  Write(kConfig, QueryAndValue());
  EXPECT_THAT(std::string(set_->Load("", adapter_.path()).status().message()), HasSubstr("0 bytes; limit is [1, 256]"));
  EXPECT_FALSE(set_->Load(std::string(257, 'x'), adapter_.path()).ok());
  EXPECT_THAT(std::string(AdapterSet::Create(model_.get(), {.max_adapters = 0}).status().message()),
              HasSubstr("max_adapters is 0; limit is [1, 1024]"));
  EXPECT_THAT(std::string(AdapterSet::Create(model_.get(), {.max_adapters = 1, .max_rank = 257}).status().message()),
              HasSubstr("max_rank is 257; limit is [1, 256]"));
}

TEST_F(AdapterSetTest, SaysWhyADeviceHasNoAdapters) {
  const kernels::DeviceOps* const own = device_->ops;
  kernels::DeviceOps ops = *own;
  ops.supports_model = [](const kernels::ModelTraits& traits, std::vector<std::string>*) { return !traits.adapters; };
  device_->ops = &ops;
  const auto set = AdapterSet::Create(model_.get(), {.max_adapters = 1});
  EXPECT_EQ(set.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("models[].device is cpu"));
  device_->ops = own;  // the model is released by it
}

TEST_F(AdapterSetTest, LoadsAndLooksUpFromManyThreads) {
  Write(kConfig, QueryAndValue());
  AdapterSet* const set = set_.get();
  std::atomic<int> loads{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, name = std::string(1, static_cast<char>('a' + i))] {
      for (int round = 0; round < 20; ++round) {
        if (!set->Load(name, adapter_.path()).ok()) continue;  // others' leases count
        ++loads;
        const AdapterLease lease = set->Lookup(name);
        EXPECT_EQ(lease.adapter->id(), lease.id);
        EXPECT_GE(set->List().size(), 1U);
        EXPECT_TRUE(set->Unload(name).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(loads.load(), 20);  // with room for three, one thread finds room whenever the others are between rounds
  EXPECT_EQ(set_->bytes(), 0U);
}

}  // namespace
}  // namespace dunlin::engine
