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

TEST_F(ImageStoreTest, OneHasItsTurn) {
  auto first = Enter("first", 1, kRowBytes);
  auto second = Enter("second", 1, kRowBytes);
  EXPECT_TRUE(first->entered());
  EXPECT_FALSE(second->entered());
  EXPECT_THAT(told_, IsEmpty());  // what has its turn at once is not told
  first->EndTurn();
  EXPECT_TRUE(second->entered());
  EXPECT_THAT(told_, ElementsAre("second"));
  EXPECT_EQ(store_.counts().bytes, 2 * kRowBytes);  // without its turn the first keeps its bytes
}

TEST_F(ImageStoreTest, WaitsForBytesAndIsNotPassed) {
  auto large = Enter("large", 1, 3 * kRowBytes);
  large->EndTurn();
  auto waits = Enter("waits", 2, 2 * kRowBytes);
  auto small = Enter("small", 3, kRowBytes);
  EXPECT_FALSE(waits->entered());
  EXPECT_FALSE(small->entered());  // it would fit
  large.reset();
  EXPECT_THAT(told_, ElementsAre("waits"));
  waits->EndTurn();
  EXPECT_THAT(told_, ElementsAre("waits", "small"));
}

// A tenant that holds some of the bytes may not take the last of them.
TEST_F(ImageStoreTest, ATenantOverItsShareIsPassedByOthers) {
  auto holds = Enter("holds", 1, 2 * kRowBytes);
  holds->EndTurn();
  auto more = Enter("more", 1, 2 * kRowBytes);
  EXPECT_FALSE(more->entered());
  auto other = Enter("other", 2, kRowBytes);
  EXPECT_TRUE(other->entered());
  other.reset();
  EXPECT_FALSE(more->entered());
  holds.reset();
  EXPECT_THAT(told_, ElementsAre("more"));
}

TEST_F(ImageStoreTest, RequestsWithoutANameHaveEverything) {
  auto holds = Enter("holds", engine::kSharedTenant, 2 * kRowBytes);
  holds->EndTurn();
  EXPECT_TRUE(Enter("more", engine::kSharedTenant, 2 * kRowBytes)->entered());
}

TEST_F(ImageStoreTest, TenantsTakeTurns) {
  auto now = Enter("now", 1, 0);
  std::vector<std::unique_ptr<ImageStore::Stay>> flood;
  for (int i = 0; i < 3; ++i) flood.push_back(Enter("flood", 1, 0));
  auto other = Enter("other", 2, 0);
  now->EndTurn();
  flood[0]->EndTurn();
  EXPECT_THAT(told_, ElementsAre("flood", "other"));
}

TEST_F(ImageStoreTest, WhoeverLeavesTheQueueIsForgotten) {
  auto now = Enter("now", 1, 0);
  auto gone = Enter("gone", 2, 0);
  auto last = Enter("last", 3, 0);
  gone.reset();
  now.reset();
  EXPECT_THAT(told_, ElementsAre("last"));
  EXPECT_TRUE(last->entered());
}

TEST_F(ImageStoreTest, EachImageHasItsOwnNumber) {
  const int32_t first = store_.NumberOf(DigestOf(1));
  EXPECT_NE(store_.NumberOf(DigestOf(2)), first);
  EXPECT_EQ(store_.NumberOf(DigestOf(1)), first);
  for (uint32_t i = 0; i < (1U << 16) + 8; ++i) (void)store_.NumberOf(DigestOf(10 + i));
  EXPECT_GT(store_.NumberOf(DigestOf(1)), first + (1 << 16));  // forgotten, and never another image's
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
