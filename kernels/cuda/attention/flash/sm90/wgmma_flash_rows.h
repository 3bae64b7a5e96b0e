// SPDX-License-Identifier: Apache-2.0
// What a thread of a warpgroup that multiplies does to its share of 64 rows: rows t / 4 and t / 4 + 8 of its warp's 16,
// of scores and outputs the columns of WgmmaSlot. The quad of lanes that shares a row reduces it, and warpgroups that
// share rows do so together (WgmmaFlashShape::kSharesRows).
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_call.h"
#include "kernels/cuda/attention/partial.h"
#include "kernels/cuda/block/tensor_core.h"

namespace dunlin::kernels::cuda {

// A thread's registers. Its two rows are index 0 and 1.
template <typename Shape>
struct WgmmaFlashState {
  float out[Shape::kColumns / 2];               // of the split so far
  float scores[Shape::kScoreKeys / 2];          // products, then weights
  uint32_t weights[Shape::kScoreKeys / 16][4];  // rounded, as operand A
  float maximum[2];                             // of the split's products
  float sum[2];                                 // of the split's weights, the thread's share
  float total_maximum[2];                       // of the splits before, as exponents of 2
  float total_sum[2];
  int32_t start[2];  // the keys that a row sees
  int32_t limit[2];
  float slope[2];  // of ALiBi, where the shape adjusts scores
};

// 2^x, kept where it stands between the waits for products. As Exp2.
DUNLIN_DEVICE float Exp2InPlace(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return Exp2(x);
#endif
}

// Two floats rounded in one instruction. As PackPair.
template <typename Format>
DUNLIN_DEVICE uint32_t RoundPair(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  if constexpr (Format::kDType == DType::kBF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return PackPair<Format>(low, high);
#endif
}

// Of a product, to an exponent of 2. A factor of 0 would make NaN of -inf.
DUNLIN_DEVICE float WgmmaFlashFactor(const AttentionCall& call) {
  const float factor = (call.scale < 0.0F ? -call.scale : call.scale) * kLog2E;
  return factor > 0x1p-126F ? factor : 0x1p-126F;
}

template <typename Shape, typename Block>
struct WgmmaFlashRows {
  using State = WgmmaFlashState<Shape>;
  using Format = typename Shape::Format;

  static constexpr int kPiecesAhead = Shape::kPersistent ? 4 : 1;  // of totals that are read before they are merged

  const WgmmaFlashBlock<Shape, Block>& at;
  float factor;  // of a score, to an exponent of 2; > 0

  // A row of the block, the key of score i, counted from the tile's first, and the column of output i.
  DUNLIN_DEVICE static int32_t RowOf(int warpgroup, int thread, int half) {
    return (Shape::kSharesRows ? 0 : warpgroup * 64) + WgmmaSlot::Row(thread, 2 * half);
  }
  DUNLIN_DEVICE static int KeyOf(int warpgroup, int thread, int i) {
    return (Shape::kSharesRows ? warpgroup * Shape::kScoreKeys : 0) + WgmmaSlot::Column(thread, i);
  }
  DUNLIN_DEVICE static int ColumnOf(int warpgroup, int thread, int i) {
    return (Shape::kSharesRows ? warpgroup * Shape::kColumns : 0) + WgmmaSlot::Column(thread, i);
  }
  DUNLIN_DEVICE void FindRows(int warpgroup, int thread, State* own) const {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = RowOf(warpgroup, thread, half);
      const bool present = row < at.task.rows.num_rows;
      const int32_t token = at.task.rows.Token(present ? row : 0);
      own->start[half] = present ? at.task.rows.sequence.KeyStart(token) : 0;
      own->limit[half] = present ? at.task.rows.sequence.KeyLimit(token) : 0;
      own->total_maximum[half] = -INFINITY;
      own->total_sum[half] = 0.0F;
    }
  }

  DUNLIN_DEVICE static void BeginSplit(State* own) {
    own->maximum[0] = own->maximum[1] = -INFINITY;
    own->sum[0] = own->sum[1] = 0.0F;
  }

  DUNLIN_DEVICE float OfQuad(float value, bool sum) const {
    DUNLIN_UNROLL
    for (int mask = 1; mask < 4; mask *= 2) {
      const float other = at.block.ShuffleXor(value, mask);
      value = sum ? value + other : fmaxf(value, other);
    }
    return value;
  }

  // -inf for the keys that a row does not see.
  DUNLIN_DEVICE void Mask(int32_t tile, int warpgroup, int thread, State* own) const {
    const int32_t first_key = tile * Shape::kTileKeys + KeyOf(warpgroup, thread, 0);
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 2; ++i) {
      const int32_t key = first_key + i / 4 * 8 + i % 2;
      const int half = i / 2 % 2;
      if (key < own->start[half] || key >= own->limit[half]) own->scores[i] = -INFINITY;
    }
  }

  // The largest products of the thread's rows so far. NaN does not raise them.
  DUNLIN_DEVICE void FindLargest(const State& own, float (&largest)[2]) const {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) largest[half] = own.maximum[half];
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 2; ++i) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], own.scores[i]);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) largest[half] = OfQuad(largest[half], false);
  }

  // Turns products into weights 2^(product * factor - center), and adds them to the sums; rescale: what the split's
  // earlier sums and outputs are multiplied by.
  DUNLIN_DEVICE void Weigh(const float (&largest)[2], State* own, float (&rescale)[2]) const {
    float center[2];
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      center[half] = CenterOf(largest[half] * factor);
      // Both rounded, so that it is 1 where the maximum stays: tiles that a row does not see must change nothing.
      rescale[half] = Exp2InPlace(own->maximum[half] * factor - center[half]);
      own->maximum[half] = largest[half];
    }
    float sum[2] = {0.0F, 0.0F};
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 2; i += 2) {
      const int half = i / 2 % 2;
      own->scores[i] = Exp2InPlace(fmaf(own->scores[i], factor, -center[half]));
      own->scores[i + 1] = Exp2InPlace(fmaf(own->scores[i + 1], factor, -center[half]));
      sum[half] += own->scores[i] + own->scores[i + 1];
    }
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) own->sum[half] = fmaf(own->sum[half], rescale[half], sum[half]);
  }

  // Of E4M3 codes: products times the scales of a stage's keys, and weights times those of the values. A weight of 0
  // stays 0, whatever the scale.
  DUNLIN_DEVICE void ScaleProducts(int stage, int warpgroup, int thread, State* own) const {
    const uint32_t scales = at.key_scales(stage) + KeyOf(warpgroup, thread, 0) * 4;
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 2; i += 4) {
      float pair[2];
      at.block.LoadFloats(pair, scales + i * 8);
      DUNLIN_UNROLL
      for (int j = 0; j < 4; ++j) own->scores[i + j] *= pair[j % 2];
    }
  }
  DUNLIN_DEVICE void ScaleWeights(int warpgroup, int thread, State* own) const {
    const uint32_t scales = at.value_scales() + KeyOf(warpgroup, thread, 0) * 4;
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 2; i += 4) {
      float pair[2];
      at.block.LoadFloats(pair, scales + i * 8);
      DUNLIN_UNROLL
      for (int j = 0; j < 4; ++j) {
        float& weight = own->scores[i + j];
        if (weight != 0.0F) weight = weight * pair[j % 2];
      }
    }
  }

  DUNLIN_DEVICE static void RoundWeights(State* own) {
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 4; ++i) {
      own->weights[i / 4][i % 4] = RoundPair<Format>(own->scores[2 * i], own->scores[2 * i + 1]);
    }
  }

  DUNLIN_DEVICE static void Rescale(const float (&rescale)[2], State* own) {
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kColumns / 2; ++i) own->out[i] *= rescale[i / 2 % 2];
  }

  // A value that is not finite, or 0.
  DUNLIN_DEVICE static float NonFinite(const unsigned char* row, int dim) {
    if constexpr (Shape::kCodes) {
      return E4M3IsFinite(row[dim]) ? 0.0F : FromE4M3(row[dim]);
    } else {
      const uint16_t bits = reinterpret_cast<const uint16_t*>(row)[dim];
      return Format::IsFinite(bits) ? 0.0F : Format::ToFloat(bits);
    }
  }
  // Adds the values of a tile that are not finite, which were taken out on the way, to the rows that see their keys. A
  // loop of compared registers: they cannot be indexed, and the case is rare.
  DUNLIN_DEVICE void AddNonFinite(int32_t tile, int warpgroup, int thread, State* own) const {
    const RowBlock rows = at.RowsAgain();
    const KvRows values = RowsOf(at.flash.call, at.flash.call.values, rows.sequence, rows.kv_head);
    DUNLIN_NO_UNROLL
    for (int r = 0; r < Shape::kColumns / 2; ++r) {
      const int dim = ColumnOf(warpgroup, thread, r);
      if (dim >= at.flash.call.values.dim) continue;
      const bool upper = r / 2 % 2 == 0;
      const int32_t start = AtLeast(upper ? own->start[0] : own->start[1], tile * Shape::kTileKeys);
      const int32_t limit = AtMost(upper ? own->limit[0] : own->limit[1], (tile + 1) * Shape::kTileKeys);
      float added = 0.0F;
      DUNLIN_NO_UNROLL
      for (int32_t key = start; key < limit; ++key) {
        added += NonFinite(values.Row(key), dim);
      }
      DUNLIN_UNROLL
      for (int i = 0; i < Shape::kColumns / 2; ++i) own->out[i] = i == r ? own->out[i] + added : own->out[i];
    }
  }

  // The thread's totals, in shared memory or the block's part of the launch's: piece i holds out[4 i ..].
  DUNLIN_DEVICE static int PieceOf(int warpgroup, int thread, int i) {
    return (i * Shape::kWarpgroups + warpgroup) * 128 + thread;
  }
  DUNLIN_DEVICE float* TotalsInMemory() const {
    return at.flash.totals + at.block.index() * static_cast<int64_t>(kWgmmaTotalBytes / sizeof(float));
  }
  DUNLIN_DEVICE void LoadTotal(int piece, float (&total)[4]) const {
    if constexpr (Shape::kPersistent) {
      at.block.LoadMemory(total, TotalsInMemory() + piece * int64_t{4});
    } else {
      uint32_t words[4];
      at.block.LoadPiece(words, at.shared + Shape::kTotals + piece * kPieceBytes);
      DUNLIN_UNROLL
      for (int j = 0; j < 4; ++j) total[j] = BitsToFloat(words[j]);
    }
  }
  DUNLIN_DEVICE void StoreTotal(int piece, const float (&total)[4]) const {
    if constexpr (Shape::kPersistent) {
      at.block.StoreMemory(TotalsInMemory() + piece * int64_t{4}, total);
    } else {
      const uint32_t words[4] = {FloatBits(total[0]), FloatBits(total[1]), FloatBits(total[2]), FloatBits(total[3])};
      at.block.StorePiece(at.shared + Shape::kTotals + piece * kPieceBytes, words);
    }
  }

  // The sums of the rows' weights from the threads' shares.
  DUNLIN_DEVICE void SumsOfRows(const float (&shares)[2], int warpgroup, int thread, float (&sums)[2]) const {
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) sums[half] = OfQuad(shares[half], true);
    if constexpr (Shape::kSharesRows) {
      float others[2];
      Exchange(at.sums(), sums, warpgroup, thread, others);
      DUNLIN_UNROLL
      for (int half = 0; half < 2; ++half) sums[half] += others[half];
    }
  }

  // Two warpgroups that share rows exchange a value of each; `place` has 64 floats of either.
  DUNLIN_DEVICE void Exchange(uint32_t place, const float (&values)[2], int warpgroup, int thread,
                              float (&others)[2]) const {
    constexpr int kExchanged = 3;  // a named barrier
    const auto address = [&](int of, int half) { return place + (of * 64 + RowOf(0, thread, half)) * 4; };
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (thread % 4 == 0) at.block.StoreWord(address(warpgroup, half), FloatBits(values[half]));
    }
    at.block.SyncNamed(kExchanged, 128 * Shape::kWarpgroups);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) others[half] = at.block.LoadFloat(address(1 - warpgroup, half));
  }

  // Merges a split into the totals, as MergeParts does; the outputs so far are those of the split. last: into the
  // outputs, instead. `first`: of the row block's splits.
  DUNLIN_DEVICE void EndSplit(const float (&maximum)[2], const float (&sum)[2], bool first, bool last, int warpgroup,
                              int thread, State* own) const {
    MergeFactors merge[2];
    float sums[2];
    SumsOfRows(sum, warpgroup, thread, sums);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      merge[half] = MergeOf(own->total_maximum[half], own->total_sum[half], maximum[half] * factor, sums[half]);
      own->total_maximum[half] = merge[half].maximum;
      own->total_sum[half] = merge[half].sum;
    }
    if (first) {
      AddTotals<false>(merge, last, warpgroup, thread, own);
    } else {
      AddTotals<true>(merge, last, warpgroup, thread, own);
    }
  }
  template <bool kHasTotals>
  DUNLIN_DEVICE void AddTotals(const MergeFactors (&merge)[2], bool last, int warpgroup, int thread, State* own) const {
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kColumns / 8; i += kPiecesAhead) {
      float totals[kPiecesAhead][4] = {};
      // Else ptxas moves all loads to the front, and spills. Loads from memory stay in place where totals are stored
      // between them, which is why those of the last split are, too, though nobody reads them.
      if constexpr (Shape::kDim > 128) at.block.SyncWarp();
      DUNLIN_UNROLL
      for (int ahead = 0; kHasTotals && ahead < kPiecesAhead; ++ahead) {
        LoadTotal(PieceOf(warpgroup, thread, i + ahead), totals[ahead]);
      }
      DUNLIN_UNROLL
      for (int ahead = 0; ahead < kPiecesAhead; ++ahead) {
        DUNLIN_UNROLL
        for (int j = 0; j < 4; ++j) {
          float& value = own->out[4 * (i + ahead) + j];
          value = totals[ahead][j] = merge[j / 2](totals[ahead][j], value);
        }
        if (!last || (Shape::kPersistent && kHasTotals))
          StoreTotal(PieceOf(warpgroup, thread, i + ahead), totals[ahead]);
      }
    }
  }

  // The block's only split as a part, for the merge kernel.
  DUNLIN_DEVICE void StorePart(int warpgroup, int thread, const State& own) const {
    const RowBlock rows = at.RowsAgain();
    thread = at.block.Again(thread);
    const PartialStore& store = at.flash.parts;
    float* part = store.Part(store.Task(rows, at.flash.call.num_kv_heads), at.task.part);
    float sums[2];
    SumsOfRows(own.sum, warpgroup, thread, sums);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = RowOf(warpgroup, thread, half);
      if (row >= rows.num_rows) continue;
      if (thread % 4 == 0) {
        part[row] = own.maximum[half] * factor;
        part[store.rows + row] = sums[half];
      }
      float* values = part + 2 * store.rows + int64_t{row} * store.v_head_dim;
      DUNLIN_UNROLL
      for (int i = 2 * half; i < Shape::kColumns / 2; i += 4) {
        const int dim = ColumnOf(warpgroup, thread, i);
        if (dim >= store.v_head_dim) continue;
        values[dim] = own.out[i];
        values[dim + 1] = own.out[i + 1];
      }
    }
  }

  // The outputs, divided by the sums; a row that saw no key gives zeros.
  DUNLIN_DEVICE void StoreRows(int warpgroup, int thread, const State& own) const {
    const RowBlock rows = at.RowsAgain();
    thread = at.block.Again(thread);
    const AttentionCall& call = at.flash.call;
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = RowOf(warpgroup, thread, half);
      if (row >= rows.num_rows) continue;
      float sum = own.total_sum[half];
      sum += SinkTerm(call, rows, row, own.total_maximum[half], sum);
      const float inverse = sum == 0.0F ? 0.0F : 1.0F / sum;
      const int64_t start = OutputAt(call, rows, row);
      DUNLIN_UNROLL
      for (int i = 2 * half; i < Shape::kColumns / 2; i += 4) {
        const int dim = ColumnOf(warpgroup, thread, i);
        if (dim < call.values.dim) StorePair(start + dim, own.out[i] * inverse, own.out[i + 1] * inverse);
      }
    }
  }

  // Of a task whose rows see no key.
  DUNLIN_DEVICE void StoreZeros(int warpgroup, int thread, State* own) const {
    DUNLIN_UNROLL
    for (float& value : own->out) value = 0.0F;
    StoreRows(warpgroup, thread, *own);
  }
  DUNLIN_DEVICE void Store(int warpgroup, int thread, const State& own) const {
    if (at.flash.parts.data == nullptr) {
      StoreRows(warpgroup, thread, own);
    } else {
      StorePart(warpgroup, thread, own);
    }
  }

  DUNLIN_DEVICE void StorePair(int64_t to, float first, float second) const {
    const RowTensor<unsigned char>& out = at.flash.call.out;
    if (at.flash.paired_outputs && out.dtype == DType::kF32) {
      struct alignas(8) Pair {
        float values[2];
      };
      *reinterpret_cast<Pair*>(out.data + to * 4) = {{first, second}};
    } else if (at.flash.paired_outputs && out.dtype == Format::kDType) {
      *reinterpret_cast<uint32_t*>(out.data + to * 2) = PackPair<Format>(first, second);
    } else {
      StoreElement(out.dtype, out.data, to, first);
      StoreElement(out.dtype, out.data, to + 1, second);
    }
  }
};

}  // namespace dunlin::kernels::cuda
