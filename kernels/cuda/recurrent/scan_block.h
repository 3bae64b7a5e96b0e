// SPDX-License-Identifier: Apache-2.0
// A block of a scan: up to 64 columns of one head of one sequence, over all rows of the sequence in a call. A warp has
// 16 columns, a block of the state's layout (kStateLanes), which it reads once, keeps in registers and writes once:
// lane 4 r + c has columns 4 c to 4 c + 3 of the state's rows 32 g + 4 r + e, where e is 0 to 3 and g below kSlices. A
// sum over a column's rows is a chain in each lane, then a butterfly over r. What the warps share of a token comes by
// asynchronous copies, one chunk of tokens ahead.
// Bit contract: a column's operations depend on the shape alone, neither on the rows of a call nor on other sequences.
#pragma once

#include <type_traits>

#include "kernels/cuda/block/block_program.h"
#include "kernels/cuda/ops/row_sources.h"
#include "kernels/cuda/recurrent/scan_rules.h"

namespace dunlin::kernels::cuda {

inline constexpr int kScanColumns = kBlockWarps * kStateLanes;  // of a block
inline constexpr int kStateSliceRows = 32;                      // of a state: four of each of eight lanes
inline constexpr int kLaneColumns = 4;

// Calls run(slices), an integral constant: 1, 2, 4 or 8, the fewest that hold a state's rows; 4 or 8 of rules with
// decays of rows, whose models have 128 rows. REQUIRES: no more than kStateRowsMax.
template <typename Rule, typename Run>
DUNLIN_HD void WithScanSlices(const ScanShape& shape, const Run& run) {
  static_assert(8 * kStateSliceRows == kStateRowsMax);
  if constexpr (!Rule::kRowDecays) {
    if (shape.rows <= kStateSliceRows) return run(std::integral_constant<int, 1>());
    if (shape.rows <= 2 * kStateSliceRows) return run(std::integral_constant<int, 2>());
  }
  if (shape.rows <= 4 * kStateSliceRows) return run(std::integral_constant<int, 4>());
  run(std::integral_constant<int, 8>());
}

// Where block `index` of a launch works.
struct ScanPlace {
  int32_t sequence;
  int32_t head;
  int32_t first_column;  // of the head
};
DUNLIN_HD constexpr int32_t ScanParts(const ScanShape& shape) {
  return (shape.columns + kScanColumns - 1) / kScanColumns;
}
DUNLIN_HD constexpr ScanPlace ScanPlaceOf(const ScanShape& shape, int64_t index) {
  const int32_t parts = ScanParts(shape);
  const int64_t head = index / parts;
  return {static_cast<int32_t>(head / shape.heads), static_cast<int32_t>(head % shape.heads),
          static_cast<int32_t>(index % parts) * kScanColumns};
}

// Sums register i over the lanes whose numbers have the same remainder by kStride, a power of two. They all get the
// same bits.
template <int kStride, int kCount>
DUNLIN_HD void SumLanes(Frag<float, kCount>* values) {
#ifdef __CUDA_ARCH__
  DUNLIN_UNROLL
  for (int distance = kStride; distance < kWarpLanes; distance *= 2) {
    DUNLIN_UNROLL
    for (int i = 0; i < kCount; ++i) values->values[0][i] += __shfl_xor_sync(~0U, values->values[0][i], distance);
  }
#else
  for (int distance = kStride; distance < kWarpLanes; distance *= 2) {
    const Frag<float, kCount> before = *values;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      for (int i = 0; i < kCount; ++i) values->at(lane, i) = before.at(lane, i) + before.at(lane ^ distance, i);
    }
  }
#endif
}

// Of the tokens of a chunk: the decays of a state's rows, and these times what is written.
template <int kTokens, int kRows, bool kRowDecays>
struct ScanDecays {
  alignas(16) float decays[kTokens][kRows];
  alignas(16) float decayed[kTokens][kRows];
};
template <int kTokens, int kRows>
struct ScanDecays<kTokens, kRows, false> {};

// Tokens of a chunk. Two barriers and some 350 cycles of factors are shared out over them; two stages of 16 take 41 KB
// with 128 rows, and with 256 those of 8 take 37 KB, of the 48 KB that any launch may have. Decays of rows: half of
// them.
constexpr int ScanTokensOf(int slices, bool row_decays) {
  return (slices > 4 ? 8 : 16) / (row_decays ? 2 : 1);
}

// A block's shared memory, of which a launch has exactly this.
template <int kSlices, bool kRowDecays>
struct ScanMemory : ScanDecays<ScanTokensOf(kSlices, kRowDecays), kSlices * kStateSliceRows, kRowDecays> {
  static constexpr int kRows = kSlices * kStateSliceRows;
  static constexpr int kTokens = ScanTokensOf(kSlices, kRowDecays);
  static constexpr int kOwnTokens = kTokens / kBlockWarps;  // whose factors a warp computes

  struct Stage {
    alignas(16) float write[kTokens][kRows];  // 0 beyond the state's rows, as `read`
    alignas(16) float read[kTokens][kRows];
    alignas(16) float values[kTokens][kScanColumns];  // 0 beyond the head's columns
    float gates[kTokens][2];
  };
  Stage stages[2];
  RowFactors factors[kTokens];
};

template <typename Rule, int kSlices>
struct ScanBlock {
  using Params = typename Rule::Params;
  using Memory = ScanMemory<kSlices, Rule::kRowDecays>;
  using Stage = typename Memory::Stage;
  static constexpr int kTokens = Memory::kTokens;
  static constexpr int kLaneRows = 4 * kSlices;
  static constexpr int kReadSums = Rule::kReadsFirst ? kLaneColumns : 0;
  using State = Frag<float, kLaneRows * kLaneColumns>;
  using Sums = Frag<float, kLaneColumns>;

  const Params& params;
  Memory* shared;
  ScanShape shape;
  ScanPlace place;
  SequenceSpan span;
  float* columns;  // the state's first block of the place
  bool vector;     // blocks of the state are aligned to 16 bytes
  float skip;
  PerWarp<State> state;

  DUNLIN_HD ScanBlock(const Params& of, int64_t index, Memory* memory)
      : params(of), shared(memory), shape(Rule::ShapeOf(of)), place(ScanPlaceOf(shape, index)) {
    span = params.sequences[place.sequence];
    columns = params.state.pool + (params.state.slots[place.sequence] * params.state.slot_stride +
                                   place.head * shape.head_floats + int64_t{place.first_column} * shape.rows);
    vector = reinterpret_cast<uintptr_t>(columns) % sizeof(Float4) == 0;
    skip = Rule::Skip(params, place.head);
  }

  DUNLIN_HD bool HasColumns(int warp) const { return place.first_column + warp * kStateLanes < shape.columns; }

  // Calls visit(i, at) for the fours of the state that a lane has: registers i to i + 3, and where they lie.
  template <typename Visit>
  DUNLIN_HD void ForFours(int warp, int lane, const Visit& visit) const {
    const int64_t first = int64_t{warp} * shape.rows * kStateLanes + lane % 4 * kLaneColumns;
    DUNLIN_UNROLL
    for (int row = 0; row < kLaneRows; ++row) {
      const int32_t state_row = row / 4 * kStateSliceRows + lane / 4 * 4 + row % 4;
      const int32_t offset = state_row * kStateLanes;
      if (state_row < shape.rows) visit(row * kLaneColumns, columns + (first + offset));
    }
  }

  // A sequence's state is 0 before its position 0.
  DUNLIN_HD void LoadState() {
    ForWarps([&](int warp) {
      state[warp].Fill(0.0F);
      if (span.first_position == 0 || !HasColumns(warp)) return;
      ForLanes([&](int lane) {
        ForFours(warp, lane, [&](int i, const float* at) {
          const Float4 four = vector ? LoadFour(at) : Float4{{at[0], at[1], at[2], at[3]}};
          DUNLIN_UNROLL
          for (int c = 0; c < kLaneColumns; ++c) state[warp].at(lane, i + c) = four.values[c];
        });
      });
    });
  }

  DUNLIN_HD void StoreState() {
    ForWarps([&](int warp) {
      if (!HasColumns(warp)) return;
      ForLanes([&](int lane) {
        ForFours(warp, lane, [&](int i, float* at) {
          Float4 four;
          DUNLIN_UNROLL
          for (int c = 0; c < kLaneColumns; ++c) four.values[c] = state[warp].at(lane, i + c);
          if (vector) {
            *reinterpret_cast<Float4*>(at) = four;
            return;
          }
          DUNLIN_UNROLL
          for (int c = 0; c < kLaneColumns; ++c) at[c] = four.values[c];
        });
      });
    });
  }

  DUNLIN_HD int32_t TokensOf(int32_t first) const {
    return span.query_len - first < kTokens ? span.query_len - first : kTokens;
  }

  // Copies a word of each of `count` tokens.
  DUNLIN_HD static void FetchWords(const float* from, int64_t stride, float* to, int step, int32_t count,
                                   bool present) {
    DUNLIN_NO_UNROLL
    for (int32_t token = 0; token < count; ++token) {
      CopyWord(to, from, present);
      from += stride;
      to += step;
    }
  }

  // Commits a group of copies of the tokens from `first` on.
  DUNLIN_HD void Fetch(int32_t first, Stage* stage) const {
    const int32_t count = TokensOf(first);
    const ScanRows rows = Rule::RowsOf(params, int64_t{span.query_start} + first, place.head);
    ForThreads([&](int thread) {
      DUNLIN_UNROLL
      for (int begin = 0; begin < Memory::kRows; begin += kBlockThreads) {
        const int i = begin + thread;
        if (Memory::kRows % kBlockThreads != 0 && i >= Memory::kRows) continue;
        const bool present = i < shape.rows;
        const int at = present ? i : 0;
        FetchWords(rows.write + at, rows.stride, &stage->write[0][i], Memory::kRows, count, present);
        FetchWords(rows.read + at, rows.stride, &stage->read[0][i], Memory::kRows, count, present);
      }
      const int gate = thread - kScanColumns;
      if (gate < 0) {
        const bool present = place.first_column + thread < shape.columns;
        const float* values = rows.values + (present ? place.first_column + thread : 0);
        FetchWords(values, rows.stride, &stage->values[0][thread], kScanColumns, count, present);
      } else if (gate < Rule::kGates) {
        const float* gates = rows.gates + gate * rows.gate_step;
        FetchWords(gates, rows.gate_stride, &stage->gates[0][gate], 2, count, true);
      }
    });
    CommitCopies();
  }

  // Those of the chunk from row `first` of the sequence on.
  DUNLIN_HD void ComputeDecays(const Stage& stage, int32_t first, int32_t count) const {
    if constexpr (Rule::kRowDecays) {
      ForThreads([&](int thread) {
        DUNLIN_NO_UNROLL
        for (int i = thread; i < count * Memory::kRows; i += kBlockThreads) {
          const int token = i / Memory::kRows;
          const int row = i % Memory::kRows;
          const int64_t of_call = int64_t{span.query_start} + first + token;
          const float decay = row < shape.rows ? Rule::DecayOf(params, of_call, place.head, row) : 0.0F;
          shared->decays[token][row] = decay;
          shared->decayed[token][row] = decay * stage.write[token][row];
        }
      });
    }
  }

  // Each warp those of its own tokens; a lane has one of them.
  DUNLIN_HD void ComputeFactors(const Stage& stage, int32_t count) const {
    constexpr int kOwn = Memory::kOwnTokens;
    ForWarps([&](int warp) {
      Frag<float, 2 * kOwn> squares;
      squares.Fill(0.0F);
      if constexpr (Rule::kReadsFirst) {
        ForLanes([&](int lane) {
          DUNLIN_UNROLL
          for (int i = 0; i < kOwn; ++i) {
            const int token = warp * kOwn + i;
            if (token >= count) continue;
            DUNLIN_UNROLL
            for (int row = lane; row < Memory::kRows; row += kWarpLanes) {
              const float write = stage.write[token][row];
              const float read = stage.read[token][row];
              squares.at(lane, 2 * i) = fmaf(write, write, squares.at(lane, 2 * i));
              squares.at(lane, 2 * i + 1) = fmaf(read, read, squares.at(lane, 2 * i + 1));
            }
          }
        });
        SumLanes<1>(&squares);
      }
      ForLanes([&](int lane) {
        const int token = warp * kOwn + lane;
        if (lane >= kOwn || token >= count) return;
        float write = squares.at(lane, 0);
        float read = squares.at(lane, 1);
        DUNLIN_UNROLL
        for (int i = 1; i < kOwn; ++i) {
          if (lane != i) continue;
          write = squares.at(lane, 2 * i);
          read = squares.at(lane, 2 * i + 1);
        }
        shared->factors[token] = Rule::FactorsOf(params, place.head, stage.gates[token], write, read);
      });
    });
  }

  // sums[c] += factor[row] S[row, c] over the lane's rows.
  DUNLIN_HD void Read(const State& own, const float* factors, int lane, float* sums) const {
    DUNLIN_UNROLL
    for (int slice = 0; slice < kSlices; ++slice) {
      const int first_row = slice * kStateSliceRows + lane / 4 * 4;
      const Float4 four = LoadFour(factors + first_row);
      DUNLIN_UNROLL
      for (int e = 0; e < 4; ++e) {
        DUNLIN_UNROLL
        for (int c = 0; c < kLaneColumns; ++c) {
          sums[c] = fmaf(four.values[e], own.at(lane, (slice * 4 + e) * kLaneColumns + c), sums[c]);
        }
      }
    }
  }

  // S = decay S + write update^T. row_decays: of each row, in place of `decay`, where the rule has them.
  DUNLIN_HD void Write(State* own, const float* factors, float decay, const float* row_decays, const float* update,
                       int lane) const {
    DUNLIN_UNROLL
    for (int slice = 0; slice < kSlices; ++slice) {
      const int first_row = slice * kStateSliceRows + lane / 4 * 4;
      const Float4 four = LoadFour(factors + first_row);
      Float4 decays{{decay, decay, decay, decay}};
      if constexpr (Rule::kRowDecays) decays = LoadFour(row_decays + first_row);
      DUNLIN_UNROLL
      for (int e = 0; e < 4; ++e) {
        DUNLIN_UNROLL
        for (int c = 0; c < kLaneColumns; ++c) {
          float& element = own->at(lane, (slice * 4 + e) * kLaneColumns + c);
          element = fmaf(four.values[e], update[c], decays.values[e] * element);
        }
      }
    }
  }

  // Lanes of the first four values of r each store a column; all of a column have its sum.
  DUNLIN_HD void StoreOutput(const Stage& stage, int32_t first, int32_t token, int warp, int lane,
                             const float* sums) const {
    const int which = lane / 4;
    if (which >= kLaneColumns) return;
    const int at = warp * kStateLanes + lane % 4 * kLaneColumns + which;
    if (place.first_column + at >= shape.columns) return;
    float sum = sums[0];
    DUNLIN_UNROLL
    for (int c = 1; c < kLaneColumns; ++c) sum = which == c ? sums[c] : sum;
    const int64_t row = int64_t{span.query_start} + first + token;
    params.out[(row * shape.heads + place.head) * shape.columns + place.first_column + at] =
        Rule::Output(shared->factors[token], sum, skip, stage.values[token][at]);
  }

  // What the state is read by before a token's update, and the decays of its rows.
  DUNLIN_HD const float* Stored(const Stage& stage, int32_t token) const {
    if constexpr (Rule::kRowDecays) return shared->decayed[token];
    return stage.write[token];
  }
  DUNLIN_HD const float* DecaysOf([[maybe_unused]] int32_t token) const {
    if constexpr (Rule::kRowDecays) return shared->decays[token];
    return nullptr;
  }

  // A token's output sum is reduced together with what the next one reads of the state, so that no lane waits for it.
  DUNLIN_HD void ScanTokens(const Stage& stage, int32_t first, int32_t count) {
    ForWarps([&](int warp) {
      if (!HasColumns(warp)) return;
      State& own = state[warp];
      Sums attended;
      attended.Fill(0.0F);
      DUNLIN_NO_UNROLL
      for (int32_t token = 0; token < count; ++token) {
        Frag<float, kReadSums + kLaneColumns> sums;
        ForLanes([&](int lane) {
          DUNLIN_UNROLL
          for (int c = 0; c < kLaneColumns; ++c) sums.at(lane, kReadSums + c) = attended.at(lane, c);
          if constexpr (Rule::kReadsFirst) {
            DUNLIN_UNROLL
            for (int c = 0; c < kLaneColumns; ++c) sums.at(lane, c) = 0.0F;
            Read(own, Stored(stage, token), lane, &sums.at(lane, 0));
          }
        });
        SumLanes<4>(&sums);
        ForLanes([&](int lane) {
          if (token > 0) StoreOutput(stage, first, token - 1, warp, lane, &sums.at(lane, kReadSums));
          const RowFactors factors = shared->factors[token];
          const Float4 values = LoadFour(&stage.values[token][warp * kStateLanes + lane % 4 * kLaneColumns]);
          float update[kLaneColumns];
          DUNLIN_UNROLL
          for (int c = 0; c < kLaneColumns; ++c) {
            update[c] = Rule::Update(factors, values.values[c], Rule::kReadsFirst ? sums.at(lane, c) : 0.0F);
            attended.at(lane, c) = 0.0F;
          }
          Write(&own, stage.write[token], factors.decay, DecaysOf(token), update, lane);
          Read(own, stage.read[token], lane, &attended.at(lane, 0));
        });
      }
      SumLanes<4>(&attended);
      ForLanes([&](int lane) { StoreOutput(stage, first, count - 1, warp, lane, &attended.at(lane, 0)); });
    });
  }

  DUNLIN_HD void Run() {
    if (span.query_len == 0) return;
    Fetch(0, &shared->stages[0]);
    LoadState();
    DUNLIN_NO_UNROLL
    for (int32_t first = 0; first < span.query_len; first += kTokens) {
      Stage* stage = &shared->stages[first / kTokens % 2];
      WaitForCopies<0>();
      SyncBlock();  // all copies of the chunk have arrived, and the other stage and the factors are not read any more
      if (first + kTokens < span.query_len) Fetch(first + kTokens, &shared->stages[(first / kTokens + 1) % 2]);
      ComputeFactors(*stage, TokensOf(first));
      ComputeDecays(*stage, first, TokensOf(first));
      SyncBlock();
      ScanTokens(*stage, first, TokensOf(first));
    }
    StoreState();
  }
};

}  // namespace dunlin::kernels::cuda
