// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/rank_team.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<RankTeam>> RankTeam::Start(int32_t num_ranks) {
  try {
    return std::unique_ptr<RankTeam>(new RankTeam(num_ranks, CpusOfRanks(num_ranks)));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("could not start the threads of ", num_ranks, " ranks: ", error.what()));
  }
}

RankTeam::RankTeam(int32_t num_ranks, std::vector<std::vector<int>> cpus)
    : cpus_(std::move(cpus)),
      group_(num_ranks),
      threads_(num_ranks, [this](int32_t rank) { BindToCpus(this->cpus(rank)); }) {}

absl::Status RankTeam::Run(absl::FunctionRef<absl::Status(int32_t rank)> body) {
  if (!bound_) BindToCpus(cpus(0));
  bound_ = true;
  threads_.Run([&](int32_t rank) {
    const absl::Status status = body(rank);
    if (!status.ok()) return group_.Fail(rank, status);
    group_.Meet(rank);  // so that who is late at the end is known, too
  });
  return group_.status();
}

}  // namespace dunlin::engine
