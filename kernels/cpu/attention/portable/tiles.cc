// SPDX-License-Identifier: Apache-2.0
// Scores and values of the portable variant, plain C++ built with -ffp-contract=off, and its four tables.
// A K or V row is widened to FP32 once and used for every query row. Instantiations: 4 KV dtypes.
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cpu/attention/portable/rows.h"
#include "kernels/cpu/attention/portable/softmax.h"
#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::portable {
namespace {

constexpr int kDimStep = 64;  // dimensions of V widened at a time

// How a KV dtype's blocks are read (kv_block.h): the keys' element d of all tokens of a page, and a token's value.
struct F32Blocks {
  static constexpr int kTokens = 8;
  static void Keys(const std::byte* block, int d, float* out) {
    std::memcpy(out, block + static_cast<size_t>(d) * kTokens * sizeof(float), kTokens * sizeof(float));
  }
  static void Values(const std::byte* block, int slot, int head_dim, int d, int count, float* out) {
    const int64_t start = static_cast<int64_t>(slot) * head_dim + d;
    std::memcpy(out, block + static_cast<size_t>(start) * sizeof(float), static_cast<size_t>(count) * sizeof(float));
  }
};

struct F16Blocks {
  static constexpr int kTokens = 16;
  static void Keys(const std::byte* block, int d, float* out) {
    const auto* keys = reinterpret_cast<const uint16_t*>(block) + static_cast<ptrdiff_t>(d) * kTokens;
    for (int t = 0; t < kTokens; ++t) out[t] = Fp16ToFloat(keys[t]);
  }
  static void Values(const std::byte* block, int slot, int head_dim, int d, int count, float* out) {
    const auto* row = reinterpret_cast<const uint16_t*>(block) + static_cast<ptrdiff_t>(slot) * head_dim + d;
    for (int i = 0; i < count; ++i) out[i] = Fp16ToFloat(row[i]);
  }
};

struct Bf16Blocks {
  static constexpr int kTokens = 16;
  static void Keys(const std::byte* block, int d, float* out) {
    const auto* keys = reinterpret_cast<const uint16_t*>(block) + static_cast<ptrdiff_t>(d / 2) * kTokens * 2 + d % 2;
    for (int t = 0; t < kTokens; ++t) out[t] = Bf16ToFloat(keys[2 * t]);
  }
  static void Values(const std::byte* block, int slot, int head_dim, int d, int count, float* out) {
    const int64_t padded_dim = (head_dim + 1) / 2 * 2;
    const auto* row = reinterpret_cast<const uint16_t*>(block) + (slot / 2 * padded_dim + d) * 2 + slot % 2;
    for (int i = 0; i < count; ++i) out[i] = Bf16ToFloat(row[2 * i]);
  }
};

constexpr std::array<float, 256> kE4M3Values = [] {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) values[code] = E4M3ToFloat(static_cast<uint8_t>(code));
  return values;
}();

struct F8Blocks {
  static constexpr int kTokens = 32;
  static void Keys(const std::byte* block, int d, float* out) {
    const std::byte* codes = block + static_cast<ptrdiff_t>(d) * kTokens;
    for (int t = 0; t < kTokens; ++t) out[t] = kE4M3Values[static_cast<uint8_t>(codes[t])];
  }
  static void Values(const std::byte* block, int slot, int head_dim, int d, int count, float* out) {
    const std::byte* row = block + static_cast<ptrdiff_t>(slot) * head_dim + d;
    const float scale = LoadFp8Scale(block, head_dim, slot);
    for (int i = 0; i < count; ++i) out[i] = kE4M3Values[static_cast<uint8_t>(row[i])] * scale;
  }
};

// The scales of a page's keys, on their scores.
template <typename Blocks>
void ScaleScores(const std::byte* block, int head_dim, float* sums) {
  if constexpr (std::is_same_v<Blocks, F8Blocks>) {
    for (int t = 0; t < Blocks::kTokens; ++t) sums[t] *= LoadFp8Scale(block, head_dim, t);
  }
}

template <typename Blocks>
void Scores(const ScoreArgs& args) {
  constexpr int kTokens = Blocks::kTokens;
  float sums[kMaxRows][kTokens];
  for (int page = 0; page < kTileKeys / kTokens; ++page) {
    std::memset(sums, 0, sizeof(float) * kTokens * static_cast<size_t>(args.rows));
    for (int d = 0; d < args.head_dim; ++d) {
      float keys[kTokens];
      Blocks::Keys(args.keys[page], d, keys);
      for (int r = 0; r < args.rows; ++r) {
        const float q = reinterpret_cast<const float*>(args.q + r * args.q_stride)[d];
        for (int t = 0; t < kTokens; ++t) sums[r][t] += q * keys[t];
      }
    }
    for (int r = 0; r < args.rows; ++r) {
      ScaleScores<Blocks>(args.keys[page], args.head_dim, sums[r]);
      std::memcpy(args.s + r * args.s_stride + page * kTokens, sums[r], sizeof(float) * kTokens);
    }
  }
}

template <typename Blocks>
void Values(const ValueArgs& args) {
  const auto* p = static_cast<const float*>(args.p);
  if (args.alpha != nullptr) {
    for (int r = 0; r < args.rows; ++r) {
      float* o = args.o + r * args.o_stride;
      for (int64_t d = 0; d < args.o_stride; ++d) o[d] *= args.alpha[r];
    }
  }
  const int last = args.valid[args.rows - 1];
  int first_row = 0;
  int end_row = args.begin == nullptr ? args.rows : 0;
  for (int j = args.begin == nullptr ? 0 : args.begin[0]; j < last; ++j) {
    while (args.valid[first_row] <= j) ++first_row;  // rows end in order, and begin in order
    while (end_row < args.rows && args.begin[end_row] <= j) ++end_row;
    const std::byte* block = args.values[j / Blocks::kTokens];
    for (int d = 0; d < args.head_dim; d += kDimStep) {
      const int count = args.head_dim - d < kDimStep ? args.head_dim - d : kDimStep;
      float value[kDimStep];
      Blocks::Values(block, j % Blocks::kTokens, args.head_dim, d, count, value);
      for (int r = first_row; r < end_row; ++r) {
        const float weight = p[r * args.p_stride + j];
        float* o = args.o + r * args.o_stride + d;
        for (int i = 0; i < count; ++i) o[i] += weight * value[i];
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu::portable

namespace dunlin::kernels::cpu {

namespace {

template <typename Blocks>
constexpr TileOps TilesOf() {
  return {.bf16_pairs = false,
          .scales_p = false,
          .score_rows = kMaxRows,
          .block_bytes = 0,
          .load_query = portable::LoadQuery,
          .store_output = portable::StoreOutput,
          .scores = portable::Scores<Blocks>,
          .adjust_row = portable::AdjustRow,
          .running_softmax = portable::RunningSoftmax,
          .chunk_softmax = portable::ChunkSoftmax,
          .full_softmax = portable::FullSoftmax,
          .values = portable::Values<Blocks>,
          .values_f32 = portable::Values<Blocks>,
          .merge = portable::Merge};
}

}  // namespace

const TileOps kPortableF32Tiles = TilesOf<portable::F32Blocks>();
const TileOps kPortableF16Tiles = TilesOf<portable::F16Blocks>();
const TileOps kPortableBf16Tiles = TilesOf<portable::Bf16Blocks>();
const TileOps kPortableF8Tiles = TilesOf<portable::F8Blocks>();

}  // namespace dunlin::kernels::cpu
