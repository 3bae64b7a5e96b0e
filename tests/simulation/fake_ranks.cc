// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/fake_ranks.h"

#include <thread>

#include "engine/base/check.h"
#include "engine/parallel/spin_wait.h"
#include "tests/simulation/fake_model.h"

namespace dunlin::simulation {
namespace {

constexpr int64_t kStepsBetweenDelays = 8;  // they take real time

uint64_t FirstRow(int64_t step) {
  return Mix(static_cast<uint64_t>(step), 0);
}
uint64_t ColumnOf(uint64_t row, size_t rank) {
  return Mix(row, rank + 1);
}
uint64_t RowOf(const std::vector<uint64_t>& columns) {
  uint64_t row = 0;
  for (const uint64_t column : columns) row = Mix(row, column);
  return row;
}

// Of one rank that computes all columns.
uint64_t LastRow(int64_t step, size_t num_ranks) {
  uint64_t row = FirstRow(step);
  std::vector<uint64_t> columns(num_ranks);
  for (int32_t layer = 0; layer < kFakeLayers; ++layer) {
    for (size_t rank = 0; rank < num_ranks; ++rank) columns[rank] = ColumnOf(row, rank);
    row = RowOf(columns);
  }
  return row;
}

}  // namespace

FakeRanks::FakeRanks(const FakeRankOptions& options)
    : options_(options), rows_(static_cast<size_t>(options.num_ranks)) {
  if (options.num_ranks == 1) return;
  absl::StatusOr<std::unique_ptr<engine::RankTeam>> team = engine::RankTeam::Start(options.num_ranks);
  DUNLIN_CHECK(team.ok(), team.status().ToString().c_str());
  team_ = *std::move(team);
  for (std::vector<uint64_t>& layer : columns_) layer.resize(rows_.size());
}

absl::Status FakeRanks::Run(int64_t step) {
  if (team_ == nullptr) return absl::OkStatus();
  absl::Status status = team_->Run([this, step](int32_t rank) { return RunRank(step, rank); });
  const uint64_t expected = LastRow(step, rows_.size());
  for (const uint64_t row : rows_) wrong_bits_ |= status.ok() ? row ^ expected : 0;
  return status;
}

// A rank that the others have left gives a reason, too, as layers do.
absl::Status FakeRanks::RunRank(int64_t step, int32_t rank) {
  const bool odd = rank == options_.odd_rank;
  uint64_t row = FirstRow(step);
  for (int32_t layer = 0; layer < kFakeLayers; ++layer) {
    const bool faulty = odd && layer == options_.fault_layer;
    if (faulty && step == options_.fail_at) return absl::InternalError("failed, as asked");
    if (faulty && step == options_.stall_at) options_.on_stall();
    if (faulty && options_.slow && step % kStepsBetweenDelays == 0) {
      std::this_thread::sleep_for(2 * engine::kRankSpin);
    }
    std::vector<uint64_t>& columns = columns_[static_cast<size_t>(layer)];
    columns[static_cast<size_t>(rank)] = ColumnOf(row, static_cast<size_t>(rank));
    if (!team_->group()->Meet(rank)) return absl::AbortedError("left alone by another");
    row = RowOf(columns);
  }
  rows_[static_cast<size_t>(rank)] = row;
  return absl::OkStatus();
}

}  // namespace dunlin::simulation
