// SPDX-License-Identifier: Apache-2.0
// The launches of a call of low-rank adapters. Host code, pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/low_rank.h"
#include "kernels/cuda/low_rank/low_rank_call.h"
#include "kernels/shared/low_rank_check.h"

namespace dunlin::kernels::cuda {

// Calls launch(const LowRankCall&) for as many groups at once as fit. Rows of prompts mostly follow one another: runs
// of them are named by their first row, what is between by row.
template <typename Launch>
class LowRankLaunches {
 public:
  // REQUIRES: IsValid(params).
  LowRankLaunches(const AddLowRankParams& params, const Launch& launch) : params_(params), launch_(launch) {
    call_.in = params.in;
    call_.in_stride = params.in_stride;
    call_.out = params.out;
    call_.out_stride = params.out_stride;
    call_.scratch = params.scratch;
    call_.in_features = params.in_features;
  }

  void Run() {
    for (int32_t u = 0; u < params_.num_uses; ++u) AddUse(params_.uses[u]);
    Flush();
  }

 private:
  // Consecutive rows from `first` on, as far as a group may have.
  static int32_t RunLength(const LowRankUse& use, int32_t first) {
    const int32_t end = std::min(use.num_rows, first + kLowRankGroupRows);
    int32_t next = first + 1;
    while (next < end && use.rows[next] == use.rows[next - 1] + 1) ++next;
    return next - first;
  }

  void AddUse(const LowRankUse& use) {
    int32_t ranks = 0;
    for (int32_t i = 0; i < use.num_pairs; ++i) ranks += use.pairs[i].rank;
    for (int32_t first = 0; first < use.num_rows;) {
      const int32_t run = RunLength(use, first);
      const bool consecutive = run >= kLowRankRunRows;
      int32_t count = run;
      while (!consecutive && first + count < use.num_rows && count < kLowRankRunRows) {
        const int32_t more = RunLength(use, first + count);
        if (more >= kLowRankRunRows) break;
        count = std::min(count + more, kLowRankRunRows);
      }
      AddRows(use, first, count, consecutive, ranks);
      first += count;
    }
    hidden_ += int64_t{use.num_rows} * ranks;
  }

  void AddRows(const LowRankUse& use, int32_t first, int32_t count, bool consecutive, int32_t ranks) {
    const int32_t listed = consecutive ? 1 : count;
    int32_t at = -1;  // of the rows in call_
    int32_t rank = 0;
    for (int32_t i = 0; i < use.num_pairs; ++i) {
      const LowRankPair& pair = use.pairs[i];
      if (call_.num_groups == kLowRankGroups || (at < 0 && num_listed_ + listed > kLowRankListed)) {
        Flush();
        at = -1;
      }
      if (at < 0) {
        at = num_listed_;
        std::copy_n(use.rows + first, listed, call_.rows + at);
        num_listed_ += listed;
      }
      call_.groups[call_.num_groups++] = {.down = pair.down,
                                          .up = pair.up,
                                          .hidden = hidden_ + int64_t{first} * ranks + rank,
                                          .hidden_stride = ranks,
                                          .first_column = pair.first_column,
                                          .out_features = pair.out_features,
                                          .scale = pair.scale,
                                          .rank = static_cast<int16_t>(pair.rank),
                                          .num_rows = static_cast<int16_t>(count),
                                          .first_row = static_cast<int16_t>(at),
                                          .dtype = static_cast<int8_t>(pair.dtype),
                                          .consecutive = consecutive};
      rank += pair.rank;
    }
  }

  void Flush() {
    if (call_.num_groups > 0) launch_(call_);
    call_.num_groups = 0;
    num_listed_ = 0;
  }

  const AddLowRankParams& params_;
  const Launch& launch_;
  LowRankCall call_{};
  int32_t num_listed_ = 0;
  int64_t hidden_ = 0;  // of the scratch: where the use begins
};

}  // namespace dunlin::kernels::cuda
