// SPDX-License-Identifier: Apache-2.0
#include "server/models/image_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kRowBytes = 100 * sizeof(float);

ImageRows RowsOf(float value) {
  return std::make_shared<const std::vector<float>>(100, value);
}

engine::Digest DigestOf(uint32_t number) {
  return {number, 1, 2, 3, 4, 5, 6, 7};
}

class ImageStoreTest : public testing::Test {
 protected:
  // A request whose turn, when it comes later, is noted under its name.
  std::unique_ptr<ImageStore::Stay> Enter(const std::string& name, engine::TenantId tenant, size_t bytes) {
    return store_.Enter(tenant, bytes, [this, name] { told_.push_back(name); });
  }

  ImageStore store_{4 * kRowBytes};
  std::vector<std::string> told_;
};

TEST_F(ImageStoreTest, TurnsAreFew) {
  auto first = Enter("first", 1, kRowBytes);
  auto second = Enter("second", 1, kRowBytes);
  auto third = Enter("third", 1, kRowBytes);
  EXPECT_TRUE(first->entered());
  EXPECT_TRUE(second->entered());
  EXPECT_FALSE(third->entered());
  EXPECT_THAT(told_, IsEmpty());  // what has its turn at once is not told
  second->EndTurn();
  EXPECT_TRUE(third->entered());
  EXPECT_THAT(told_, ElementsAre("third"));
  EXPECT_EQ(store_.counts().bytes, 3 * kRowBytes);  // without its turn the second keeps its bytes
}

TEST_F(ImageStoreTest, WaitsForBytesAndIsNotPassed) {
  auto large = Enter("large", 1, 3 * kRowBytes);
  large->EndTurn();
  auto waits = Enter("waits", 1, 2 * kRowBytes);
  auto small = Enter("small", 2, kRowBytes);
  EXPECT_FALSE(waits->entered());
  EXPECT_FALSE(small->entered());  // it would fit
  large.reset();
  EXPECT_THAT(told_, ElementsAre("waits", "small"));
}

TEST_F(ImageStoreTest, TenantsTakeTurns) {
  auto a = Enter("a", 1, 0);
  auto b = Enter("b", 1, 0);
  std::vector<std::unique_ptr<ImageStore::Stay>> flood;
  for (int i = 0; i < 3; ++i) flood.push_back(Enter("flood", 1, 0));
  auto other = Enter("other", 2, 0);
  a->EndTurn();
  b->EndTurn();
  EXPECT_THAT(told_, ElementsAre("flood", "other"));
}

TEST_F(ImageStoreTest, WhoeverLeavesTheQueueIsForgotten) {
  auto a = Enter("a", 1, 0);
  auto b = Enter("b", 1, 0);
  auto gone = Enter("gone", 2, 0);
  auto last = Enter("last", 3, 0);
  gone.reset();
  a.reset();
  EXPECT_THAT(told_, ElementsAre("last"));
  EXPECT_TRUE(last->entered());
}

TEST_F(ImageStoreTest, RowsAreFoundUntilTheirRoomIsNeeded) {
  store_.Keep(DigestOf(1), RowsOf(1.0F));
  store_.Keep(DigestOf(2), RowsOf(2.0F));
  store_.Keep(DigestOf(3), RowsOf(3.0F));
  ASSERT_NE(store_.Find(DigestOf(1)), nullptr);  // now the second is the least recently used
  EXPECT_EQ(store_.Find(DigestOf(1))->front(), 1.0F);
  auto request = Enter("request", 1, 2 * kRowBytes);
  EXPECT_TRUE(request->entered());
  EXPECT_EQ(store_.Find(DigestOf(2)), nullptr);
  EXPECT_NE(store_.Find(DigestOf(1)), nullptr);
  EXPECT_NE(store_.Find(DigestOf(3)), nullptr);
  EXPECT_EQ(store_.counts().bytes, 4 * kRowBytes);
}

TEST_F(ImageStoreTest, RowsAreKeptInWhatRequestsLeave) {
  auto request = Enter("request", 1, 4 * kRowBytes);
  store_.Keep(DigestOf(1), RowsOf(1.0F));
  EXPECT_EQ(store_.Find(DigestOf(1)), nullptr);
  request.reset();
  store_.Keep(DigestOf(1), RowsOf(1.0F));
  EXPECT_NE(store_.Find(DigestOf(1)), nullptr);
  EXPECT_EQ(store_.counts().kept, 2U);
  EXPECT_EQ(store_.counts().found, 1U);
}

TEST_F(ImageStoreTest, AStayOutlivesTheStore) {
  auto store = std::make_unique<ImageStore>(kRowBytes);
  auto stay = store->Enter(1, kRowBytes, [] {});
  store.reset();
  EXPECT_TRUE(stay->entered());
  stay.reset();
}

}  // namespace
}  // namespace dunlin::server
