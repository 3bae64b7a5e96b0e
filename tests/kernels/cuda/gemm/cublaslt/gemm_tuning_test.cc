// SPDX-License-Identifier: Apache-2.0
// Choosing a GEMM's algorithm by time, with a fake cuBLASLt and a fake clock.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <map>

#include "kernels/cuda/gemm/cublaslt/gemm_plan.h"
#include "tests/kernels/cuda/gemm/cublaslt/fake_cublaslt.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr char kGpu[] = "a GPU";

// Seconds by the algorithm that ran last; no entry: it failed.
class FakeClock : public ProductClock {
 public:
  double ColdSeconds(const std::function<KernelStatus()>& enqueue) override {
    ++asked;
    const KernelStatus status = enqueue();
    const FakeCublasLt& state = FakeCublasLtState();
    const auto found = seconds.find(state.algorithms.back());
    if (status != KernelStatus::kOk || found == seconds.end()) return std::numeric_limits<double>::infinity();
    return found->second * (state.rows < 64 ? few_rows_factor[state.algorithms.back()] : 1.0);
  }

  std::map<uint64_t, double> seconds = {{100, 4.0}, {101, 2.0}, {102, 1.0}, {103, 3.0}};
  std::map<uint64_t, double> few_rows_factor = {{100, 1.0}, {101, 1.0}, {102, 1.0}, {103, 1.0}};  // below 64 rows
  int asked = 0;
};

class GemmTuningTest : public ::testing::Test {
 protected:
  GemmTuningTest() {
    FakeCublasLtState() = FakeCublasLt();
    FakeCublasLtState().candidates = 4;
    std::remove(path_.c_str());
  }
  ~GemmTuningTest() override { std::remove(path_.c_str()); }

  // The algorithm used for a GEMM of some rows, FP32 [4, 16].
  uint64_t AlgorithmOf(GemmPlans* plans, int32_t rows = 5, bool deterministic = true) {
    const PackedWeight weight{in_, Precision::kFp32, 4, 16, 0};
    GemmParams params{};
    params.weight = &weight;
    params.out_stride = 4;
    params.num_rows = rows;
    params.deterministic = deterministic;
    const GemmOperands operands{in_, in_, nullptr, nullptr, nullptr, nullptr, out_, rows};
    EXPECT_EQ(plans->Run(FormOf(params, false, rows), operands, nullptr), KernelStatus::kOk);
    return FakeCublasLtState().algorithms.back();
  }

  const std::string path_ = "/tmp/dunlin_gemm_tuning_" + std::to_string(getpid());
  FakeClock clock_;
  AlgorithmStore store_{path_, kGpu};
  alignas(16) float in_[1000 * 16] = {};
  alignas(16) float out_[1000 * 4] = {};
};

TEST_F(GemmTuningTest, TheFastestIsChosenOnceForEveryNumberOfRows) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &store_);
  EXPECT_EQ(AlgorithmOf(&plans), 102U);
  EXPECT_EQ(clock_.asked, 4);
  clock_.seconds[100] = 0.5;
  for (const int32_t rows : {1, 17, 300}) EXPECT_EQ(AlgorithmOf(&plans, rows), 102U);
  plans.Tune(nullptr, nullptr);
  EXPECT_EQ(AlgorithmOf(&plans), 102U);
  EXPECT_EQ(clock_.asked, 4);
  EXPECT_EQ(FakeCublasLtState().heuristics, 5);
}

// Those of kPlanRows that the operands have: 1, 8, 64 and 512.
TEST_F(GemmTuningTest, TheFastestOverSeveralNumbersOfRowsIsChosen) {
  clock_.few_rows_factor[102] = 5.0;
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &store_);
  EXPECT_EQ(AlgorithmOf(&plans, 600), 101U);
  EXPECT_EQ(clock_.asked, 4 * 4);
}

TEST_F(GemmTuningTest, AnEarlierProcessesChoiceIsUsedWithoutTiming) {
  {
    GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
    plans.Tune(&clock_, &store_);
    AlgorithmOf(&plans);
    EXPECT_EQ(store_.Write(), "");
  }
  clock_ = FakeClock();
  clock_.seconds[100] = 0.5;  // a later timing would choose another
  AlgorithmStore kept(path_, kGpu);
  EXPECT_EQ(kept.Read(), "");
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &kept);
  EXPECT_EQ(AlgorithmOf(&plans), 102U);
  EXPECT_EQ(clock_.asked, 0);
}

TEST_F(GemmTuningTest, AChoiceForOtherRowsIsTimedAgain) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &store_);
  AlgorithmOf(&plans, 5);
  GemmPlans others(&FakeCublasLtTable(), nullptr, in_);
  others.Tune(&clock_, &store_);
  AlgorithmOf(&others, 6);
  EXPECT_EQ(clock_.asked, 8);
}

TEST_F(GemmTuningTest, AKnownAlgorithmThatTheLibraryRefusesIsReplaced) {
  GemmPlans first(&FakeCublasLtTable(), nullptr, in_);
  first.Tune(&clock_, &store_);
  AlgorithmOf(&first);
  FakeCublasLtState().bad_candidates = 3;  // 100 to 102 now refuse a single row
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &store_);
  EXPECT_EQ(AlgorithmOf(&plans), 103U);
}

TEST_F(GemmTuningTest, WithoutAFileTheFirstHeuristicResultIsUsed) {
  AlgorithmStore memory("", kGpu);
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &memory);
  EXPECT_EQ(AlgorithmOf(&plans), 100U) << "two starts have the same bits";
  EXPECT_EQ(clock_.asked, 0);
}

TEST_F(GemmTuningTest, AnAlgorithmInUseIsNotChosenAgain) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  EXPECT_EQ(AlgorithmOf(&plans), 100U);
  plans.Tune(&clock_, &store_);
  EXPECT_EQ(AlgorithmOf(&plans), 100U) << "another model serves with it";
  EXPECT_EQ(clock_.asked, 0);
}

TEST_F(GemmTuningTest, AFailingAlgorithmIsNotChosen) {
  clock_.seconds = {{101, 2.0}};
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  plans.Tune(&clock_, &store_);
  EXPECT_EQ(AlgorithmOf(&plans), 101U);
  clock_.seconds.clear();
  AlgorithmStore other(path_, kGpu);
  GemmPlans none(&FakeCublasLtTable(), nullptr, in_);
  none.Tune(&clock_, &other);
  EXPECT_EQ(AlgorithmOf(&none), 100U) << "the first where none could be timed";
  EXPECT_EQ(other.Write(), "");
  EXPECT_EQ(access(path_.c_str(), F_OK), -1) << "and nothing is kept";
}

// Not deterministic: one form per power of two of rows, with split-K, timed without a file.
TEST_F(GemmTuningTest, RowsMayChooseWhereTheBitContractIsOff) {
  AlgorithmStore memory("", kGpu);
  GemmPlans plans(&FakeCublasLtTable(), nullptr, in_);
  FakeCublasLtState().split_is_refused = false;
  plans.Tune(&clock_, &memory);
  EXPECT_EQ(AlgorithmOf(&plans, 5, false), 102U);
  clock_.seconds[101] = 0.5;
  EXPECT_EQ(AlgorithmOf(&plans, 8, false), 102U) << "the form of 5 to 8 rows";
  EXPECT_EQ(AlgorithmOf(&plans, 9, false), 101U);
  EXPECT_EQ(plans.num_plans(), 2);
  EXPECT_EQ(clock_.asked, 8);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
