// SPDX-License-Identifier: Apache-2.0
// Choosing a product's tile shape by time, with a fake clock.
#include "kernels/cuda/gemm/tile_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace dunlin::kernels::cuda {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kShapeRows[] = {128, 64, 16, 8};
constexpr TiledProduct kProduct{"wgmma bf16", 4096, 14336};

// Seconds of the shape and the rows that were launched last.
class ShapeClock : public ProductClock {
 public:
  double ColdSeconds(const std::function<KernelStatus()>& enqueue) override {
    if (enqueue() != KernelStatus::kOk) return std::numeric_limits<double>::infinity();
    const auto [rows, shape] = launched.back();
    return (rows <= 16 ? 1e-6 : 2e-6) * (shape == fastest ? 1.0 : 3.0 + shape);
  }
  KernelStatus Launch(int32_t rows, int32_t shape) {
    launched.emplace_back(rows, shape);
    return failing.contains(shape) ? KernelStatus::kDeviceError : KernelStatus::kOk;
  }

  std::vector<std::pair<int32_t, int32_t>> launched;
  int32_t fastest = 2;
  std::set<int32_t> failing;
};

class TileChoicesTest : public ::testing::Test {
 protected:
  TileChoicesTest() { std::remove(path_.c_str()); }
  ~TileChoicesTest() override { std::remove(path_.c_str()); }

  void Measure(TileChoices* choices, int32_t num_rows, const TiledProduct& product = kProduct) {
    choices->Measure(product, num_rows, kShapeRows,
                     [this](int32_t rows, int32_t shape) { return clock_.Launch(rows, shape); });
  }

  const std::string path_ = "/tmp/dunlin_tile_choices_" + std::to_string(getpid());
  ShapeClock clock_;
  AlgorithmStore store_{path_, "some GPU"};
};

TEST_F(TileChoicesTest, TheFastestShapeOfEachNumberOfRowsIsTaken) {
  TileChoices choices;
  EXPECT_EQ(choices.Find(kProduct, 8), 0) << "the kernel's own table";
  choices.Tune(&clock_, &store_);
  EXPECT_TRUE(choices.tunes());
  Measure(&choices, 100);
  // Up to 64 rows no tile of prompts; from 64 on none that would read the weight again for each of many tiles.
  EXPECT_THAT(clock_.launched, ElementsAre(std::pair(8, 2), std::pair(8, 3), std::pair(8, 4), std::pair(16, 2),
                                           std::pair(16, 3), std::pair(16, 4), std::pair(32, 2), std::pair(32, 3),
                                           std::pair(64, 2), std::pair(100, 1), std::pair(100, 2)));
  for (const int32_t rows : {1, 8, 9, 64, 65, 128}) EXPECT_EQ(choices.Find(kProduct, rows), 2) << rows;
  EXPECT_EQ(choices.Find(kProduct, 129), 0) << "more rows than were measured";
  EXPECT_EQ(choices.Find({"wgmma bf16", 4096, 4096}, 8), 0);
  EXPECT_EQ(choices.Find({"wgmma fp16", 4096, 14336}, 8), 0);
  clock_.launched.clear();
  Measure(&choices, 128);
  EXPECT_TRUE(clock_.launched.empty()) << "once for each";
  choices.Tune(nullptr, nullptr);
  Measure(&choices, 4096);
  EXPECT_TRUE(clock_.launched.empty());
  EXPECT_EQ(choices.Find(kProduct, 8), 2) << "what was chosen stays";
}

// A choice between the kernel and cuBLASLt, for few and for many rows; it is not that of a tile shape.
TEST_F(TileChoicesTest, TheFasterOfTheKernelAndCublasLtIsTaken) {
  TiledProduct either = kProduct;
  either.or_library = true;
  EXPECT_EQ(NameInStore(either, 64), "tile wgmma bf16 or cublaslt 4096 x 14336 rows 64");
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  clock_.fastest = kLibrary;
  choices.Measure(either, 300, kOwnAndLibrary,
                  [this](int32_t rows, int32_t choice) { return clock_.Launch(rows, choice); });
  EXPECT_EQ(clock_.launched.size(), 14U) << "both at 8, 16, .. 256 and 300 rows";
  clock_.fastest = 3;
  Measure(&choices, 32);
  for (const int32_t rows : {1, 64, 300}) EXPECT_EQ(choices.Find(either, rows), kLibrary) << rows;
  EXPECT_EQ(choices.Find(kProduct, 8), 3);
}

// By the mean of the groups that can have rows, which are measured with as many rows in each.
TEST_F(TileChoicesTest, GroupsAreMeasuredByTheMeanOfTheirRows) {
  constexpr TiledProduct kGroups{"grouped wgmma bf16", 1536, 2048, 16};
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  Measure(&choices, 16 * 50, kGroups);
  std::vector<std::pair<int32_t, int32_t>> expected;
  for (const int32_t mean : {1, 2, 4, 8, 16}) {
    for (const int32_t shape : {2, 3, 4}) expected.emplace_back(16 * mean, shape);
  }
  // From 32 on some groups have more than 64 rows.
  for (const auto& [rows, shape] : {std::pair(512, 2), {512, 3}, {800, 1}, {800, 2}})
    expected.emplace_back(rows, shape);
  EXPECT_EQ(clock_.launched, expected);
  for (const int32_t rows : {1, 7, 16, 17, 800}) EXPECT_EQ(choices.Find(kGroups, rows), 2) << rows;
  EXPECT_EQ(choices.Find(kGroups, 16 * 64 + 1), 0) << "a larger mean than was measured";
  EXPECT_EQ(choices.Find({"grouped wgmma bf16", 1536, 2048, 8}, 16), 0) << "of other groups";
  EXPECT_NE(store_.Find("tile grouped wgmma bf16 1536 x 2048 groups 16 rows 64"), nullptr);
}

// 1,024 experts of 4,096 rows: what is measured for the launches of 512 is found for the call, and for another with as
// many rows in each group.
TEST_F(TileChoicesTest, GroupsOfSeveralLaunchesHaveTheirOwnMean) {
  constexpr int32_t kGroupsMax = 512;
  constexpr TiledProduct kExperts{"grouped wgmma bf16", 1536, 2048, 1024};
  const TiledRows launch = TiledLaunchOf(kExperts, 4096, kGroupsMax);
  EXPECT_EQ(launch.product.groups, 512);
  EXPECT_EQ(launch.product.kernel, kExperts.kernel);
  EXPECT_EQ(launch.num_rows, 2048);
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  Measure(&choices, launch.num_rows, launch.product);
  EXPECT_EQ(clock_.launched.back().first, 2048) << "in 512 groups, a mean of 4";
  EXPECT_NE(store_.Find("tile grouped wgmma bf16 1536 x 2048 groups 512 rows 4"), nullptr);
  EXPECT_EQ(store_.Find("tile grouped wgmma bf16 1536 x 2048 groups 512 rows 8"), nullptr);
  const auto shape_of = [&](int32_t groups, int32_t num_rows) {
    const TiledRows of_call = TiledLaunchOf({kExperts.kernel, 1536, 2048, groups}, num_rows, kGroupsMax);
    return choices.Find(of_call.product, of_call.num_rows);
  };
  EXPECT_EQ(shape_of(1024, 4096), 2);
  EXPECT_EQ(shape_of(600, 2400), 2);
  EXPECT_EQ(shape_of(512, 2048), 2);
  EXPECT_EQ(shape_of(512, 4096), 0) << "a mean of 8";
  EXPECT_EQ(shape_of(1024, 8192), 0) << "the same";
  EXPECT_EQ(shape_of(256, 1024), 0) << "a launch of fewer groups";
}

TEST(TiledLaunches, HaveARowEach) {
  EXPECT_EQ(TiledLaunchOf({"", 1, 1, 1024}, 1, 512).num_rows, 1);
  EXPECT_EQ(TiledLaunchOf({"", 1, 1, 513}, 513, 512).num_rows, 512);
  EXPECT_EQ(TiledLaunchOf({"", 1, 1, 2048}, INT32_MAX, 512).num_rows, INT32_MAX / 4);
  const TiledRows few = TiledLaunchOf({"", 1, 1, 8}, 100, 512);
  EXPECT_EQ(few.product.groups, 8);
  EXPECT_EQ(few.num_rows, 100);
}

TEST_F(TileChoicesTest, FewerRowsThanGroupsHaveOneEach) {
  constexpr TiledProduct kGroups{"grouped gates bf16", 1536, 2048, 128};
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  Measure(&choices, 8, kGroups);
  EXPECT_THAT(clock_.launched, ElementsAre(std::pair(8, 2), std::pair(8, 3), std::pair(8, 4)));
  EXPECT_EQ(choices.Find(kGroups, 100), 2);
  EXPECT_EQ(choices.Find(kGroups, 200), 0) << "a mean of two";
}

TEST(RoutedRows, AreAllOfTheRowsInOrder) {
  const std::vector<ExpertRows> groups = RoutedAtRandom(1000, 16);
  ASSERT_EQ(groups.size(), 16U);
  int32_t next = 0;
  for (const ExpertRows& group : groups) {
    EXPECT_EQ(group.first, next);
    EXPECT_GT(group.count, 20);
    EXPECT_LT(group.count, 120);
    next += group.count;
  }
  EXPECT_EQ(next, 1000);
}

TEST_F(TileChoicesTest, MoreRowsThanAreMeasuredTakeTheLastChoice) {
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  Measure(&choices, 20000);
  EXPECT_EQ(clock_.launched.back().first, 8192);
  EXPECT_EQ(choices.Find(kProduct, 100000), 2);
}

TEST_F(TileChoicesTest, AnotherStartReadsTheFileAndTimesNothing) {
  {
    TileChoices choices;
    choices.Tune(&clock_, &store_);
    Measure(&choices, 8);
    EXPECT_EQ(store_.Write(), "");
  }
  clock_.launched.clear();
  clock_.fastest = 3;
  AlgorithmStore store(path_, "some GPU");
  EXPECT_EQ(store.Read(), "");
  const MatmulAlgo* line = store.Find("tile wgmma bf16 4096 x 14336 rows 8");
  ASSERT_NE(line, nullptr);
  EXPECT_THAT(line->data, ElementsAre(2, uint64_t{1000} << 32, 6000 | uint64_t{7000} << 32, 0, 0, 0, 0, 0))
      << "the shape, then nanoseconds of each";
  TileChoices choices;
  choices.Tune(&clock_, &store);
  Measure(&choices, 8);
  EXPECT_TRUE(clock_.launched.empty());
  EXPECT_EQ(choices.Find(kProduct, 8), 2);
  AlgorithmStore other(path_, "another GPU");
  EXPECT_NE(other.Read(), "");
  TileChoices anew;
  anew.Tune(&clock_, &other);
  Measure(&anew, 8);
  EXPECT_EQ(anew.Find(kProduct, 8), 3);
}

TEST_F(TileChoicesTest, AShapeThatTheKernelDoesNotHaveIsMeasuredAnew) {
  store_.Add(NameInStore(kProduct, 8), {.data = {5}});
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  Measure(&choices, 8);
  EXPECT_EQ(choices.Find(kProduct, 8), 2);
}

TEST_F(TileChoicesTest, AShapeThatFailsIsNotTakenAndADeviceThatFailedChoosesNone) {
  TileChoices choices;
  choices.Tune(&clock_, &store_);
  clock_.failing = {2};
  Measure(&choices, 8);
  EXPECT_EQ(choices.Find(kProduct, 8), 3);
  clock_.failing = {1, 2, 3, 4};
  Measure(&choices, 8, {"wgmma fp8", 64, 64});
  EXPECT_EQ(choices.Find({"wgmma fp8", 64, 64}, 8), 0);
  EXPECT_EQ(store_.Find(NameInStore({"wgmma fp8", 64, 64}, 8)), nullptr);
}

TEST_F(TileChoicesTest, WithoutAFileTheKernelsOwnTableServes) {
  AlgorithmStore none("", "some GPU");
  TileChoices choices;
  choices.Tune(&clock_, &none);
  EXPECT_FALSE(choices.tunes());
  Measure(&choices, 64);
  EXPECT_TRUE(clock_.launched.empty());
  EXPECT_EQ(choices.Find(kProduct, 8), 0);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
