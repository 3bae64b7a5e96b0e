// Streams of the BF16 dot product's tables: what their kernels ask for beside a tile, and that no bit of a result
// depends on it.
#include "kernels/cpu/attention/ask_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/cpu_features.h"

namespace dunlin::kernels::cpu {
namespace {

struct Table {
  const TileOps& ops;
  DType dtype;
  int tile_blocks;
  int tiles_after;  // that the algorithms list behind those that are read, at least where a plan reaches so far
};
constexpr Table kTables[] = {{kAvx512Bf16DotTiles, DType::kBF16, 8, 1},
                             {kAvx512Bf16DotL2Tiles, DType::kBF16, 8, 1},
                             {kAvx512F8DotTiles, DType::kF8E4M3, 4, 2},
                             {kAvx512F8DotL2Tiles, DType::kF8E4M3, 4, 2}};
constexpr int kMostTiles = 2;

// Floats of the buffers, 64-byte aligned, all written before they are read.
struct alignas(64) Line {
  float at[16];
};
using Lines = std::vector<Line>;
float* Floats(Lines* lines) {
  return lines->front().at;
}

// Tiles of random keys and values, read by rows that see `seen` keys of the last one.
class Tiles {
 public:
  Tiles(const Table& table, int rows, int head_dim, int tiles, int seen)
      : table_(table),
        rows_(rows),
        head_dim_(head_dim),
        tiles_(tiles),
        seen_(seen),
        layout_(MakeKvLayout(table.dtype, {.num_layers = 1, .num_kv_heads = 1, .head_dim = head_dim})),
        blocks_(static_cast<size_t>(Listed() * layout_.key_block_bytes / 64)),
        q_(static_cast<size_t>((rows * head_dim + 31) / 32)) {
    uint32_t state = 1;
    const auto fill = [&](Lines* lines) {
      for (Line& line : *lines) {
        for (float& pair : line.at) {
          state = state * 1664525U + 1013904223U;
          // Two BF16 numbers between 1 and 2 or their negatives.
          pair = std::bit_cast<float>((state & 0x807F807FU) | 0x3F803F80U);
        }
      }
    };
    fill(&blocks_);
    fill(&q_);
    if (table.dtype == DType::kF8E4M3) MakeCodes();
    const auto* first = reinterpret_cast<const std::byte*>(blocks_.data());
    for (int i = 0; i < Listed(); ++i) list_.push_back(first + i * layout_.key_block_bytes);
  }

  AskStream Stream(const AskPlan& plan) const {
    return {plan, layout_, list_.data(), tiles_, table_.tile_blocks, Following()};
  }
  // Blocks that are listed behind those that are read.
  int Following() const { return 2 * table_.tile_blocks * table_.tiles_after; }
  // Of the list's first block.
  int64_t BlocksTo(const AskStream& stream) const { return stream.blocks - list_.data(); }

  // The rows' maxima, sums and O of one pass over all tiles, as FLASH has it for one tile and EFFICIENT for two.
  std::vector<float> Run(AskStream* stream) const {
    const int64_t stride = int64_t{kTileKeys} * tiles_;
    Lines s(static_cast<size_t>(rows_ * stride / 16));
    Lines p(static_cast<size_t>(rows_ * stride / 32));
    Lines o(static_cast<size_t>(rows_ * head_dim_ / 16));
    Lines sums(static_cast<size_t>(rows_));
    std::vector<float> max(static_cast<size_t>(rows_), -std::numeric_limits<float>::infinity());
    std::vector<float> alpha(max.size(), 1.0F);
    const std::vector<float> scales(static_cast<size_t>(stride), 1.5F);
    std::vector<int32_t> all(max.size(), kTileKeys * (tiles_ - 1) + seen_);
    const auto valid = [&](int tile) {
      return std::vector<int32_t>(max.size(), tile + 1 < tiles_ ? kTileKeys : seen_);
    };
    for (int i = 0; i < tiles_; ++i) {
      const auto of_tile = valid(i);
      table_.ops.scores({.q = reinterpret_cast<const std::byte*>(q_.data()),
                         .q_stride = head_dim_ * 2,
                         .rows = rows_,
                         .head_dim = head_dim_,
                         .valid = of_tile.data(),
                         .keys = list_.data() + i * table_.tile_blocks,
                         .next = list_.data() + (i + 1) * table_.tile_blocks,
                         .stream = stream,
                         .wide = nullptr,
                         .s = Floats(&s) + i * kTileKeys,
                         .s_stride = stride});
    }
    constexpr float kScale = 0.01F;
    if (tiles_ == 1) {
      table_.ops.running_softmax({.s = Floats(&s),
                                  .s_stride = stride,
                                  .rows = rows_,
                                  .valid = all.data(),
                                  .scale = kScale,
                                  .row_max = max.data(),
                                  .lane_sum = Floats(&sums),
                                  .alpha = alpha.data(),
                                  .p = p.data(),
                                  .p_stride = stride,
                                  .p_scale = table_.ops.scales_p ? scales.data() : nullptr,
                                  .stream = stream});
    } else {
      table_.ops.chunk_softmax({.s = Floats(&s),
                                .s_stride = stride,
                                .rows = rows_,
                                .valid = all.data(),
                                .scale = kScale,
                                .row_max = max.data(),
                                .row_sum = Floats(&sums),
                                .p = p.data(),
                                .p_stride = stride,
                                .p_scale = table_.ops.scales_p ? scales.data() : nullptr,
                                .stream = stream});
    }
    for (int i = 0; i < tiles_; ++i) {
      const auto of_tile = valid(i);
      table_.ops.values({.p = reinterpret_cast<const uint16_t*>(p.data()) + i * kTileKeys,
                         .p_stride = stride,
                         .rows = rows_,
                         .valid = of_tile.data(),
                         .begin = nullptr,
                         .alpha = nullptr,
                         .head_dim = head_dim_,
                         .values = list_.data() + (tiles_ + i) * table_.tile_blocks,
                         .next = list_.data() + (tiles_ + i + 1) * table_.tile_blocks,
                         .stream = stream,
                         .wide = nullptr,
                         .o = Floats(&o),
                         .o_stride = head_dim_});
    }
    std::vector<float> out = max;
    for (const Lines* part : {&sums, &o}) {
      for (const Line& line : *part) out.insert(out.end(), line.at, line.at + 16);
    }
    return out;
  }

 private:
  // Codes that are numbers, and scales near 1 behind them.
  void MakeCodes() {
    auto* bytes = reinterpret_cast<std::byte*>(blocks_.data());
    const int64_t scales = int64_t{layout_.tokens_per_page} * 4;
    for (int64_t i = 0; i < Listed() * static_cast<int64_t>(layout_.key_block_bytes); ++i) {
      const int64_t at = i % static_cast<int64_t>(layout_.key_block_bytes);
      if (at < static_cast<int64_t>(layout_.key_block_bytes) - scales) bytes[i] &= std::byte{0xB7};
    }
  }
  int Listed() const { return 2 * table_.tile_blocks * tiles_ + Following(); }

  const Table& table_;
  int rows_;
  int head_dim_;
  int tiles_;
  int seen_;
  KvLayout layout_;
  Lines blocks_;
  Lines q_;
  std::vector<const std::byte*> list_;
};

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Calls body(table, rows, head_dim, plan) for all that have a plan.
template <typename Body>
void ForPlans(const Body& body) {
  for (const Table& table : kTables) {
    int plans = 0;
    for (const int head_dim : {16, 32, 48, 64, 80, 96, 128, 192, 256, 320}) {
      for (int rows = 1; rows <= 48; ++rows) {
        const AskPlan plan = table.ops.plan_asks(rows, head_dim);
        if (plan.ahead == 0) continue;
        ++plans;
        SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(head_dim) + " " + Name(table.dtype));
        body(table, rows, head_dim, plan);
      }
    }
    EXPECT_GT(plans, 0) << Name(table.dtype);
  }
}

TEST(AskStreamTest, WholeTilesAskForAsManyBlocksAsTheyHave) {
  if (!HasAvx512Bf16Variant()) GTEST_SKIP() << "no AVX512_BF16";
  ForPlans([](const Table& table, int rows, int head_dim, const AskPlan& plan) {
    for (int tiles = 1; tiles <= kMostTiles; ++tiles) {
      const Tiles problem(table, rows, head_dim, tiles, kTileKeys);
      AskStream stream = problem.Stream(plan);
      const int64_t first = problem.BlocksTo(stream);
      EXPECT_EQ(first, std::min(plan.ahead + table.tile_blocks * tiles * (8 - plan.eighths) / 8, problem.Following()));
      problem.Run(&stream);
      EXPECT_EQ(problem.BlocksTo(stream), first + 2 * table.tile_blocks * tiles);
      EXPECT_EQ(stream.offset, 0);
      EXPECT_LE(problem.BlocksTo(stream), 2 * table.tile_blocks * tiles + problem.Following());
    }
  });
}

TEST(AskStreamTest, APartOfThemAsksForLess) {
  if (!HasAvx512Bf16Variant()) GTEST_SKIP() << "no AVX512_BF16";
  ForPlans([](const Table& table, int rows, int head_dim, const AskPlan& plan) {
    for (int tiles = 1; tiles <= kMostTiles; ++tiles) {
      for (const int seen : {1, 17, 97, 127}) {
        if (seen == 127 && table.dtype == DType::kF8E4M3) continue;  // no ask is at its last pair
        const Tiles problem(table, rows, head_dim, tiles, seen);
        AskStream stream = problem.Stream(plan);
        const int64_t whole = problem.BlocksTo(stream) + 2 * table.tile_blocks * tiles;
        problem.Run(&stream);
        EXPECT_LT(problem.BlocksTo(stream), whole) << tiles << " tiles, " << seen;
      }
    }
  });
}

TEST(AskStreamTest, ResultsAreThoseWithoutOne) {
  if (!HasAvx512Bf16Variant()) GTEST_SKIP() << "no AVX512_BF16";
  ForPlans([](const Table& table, int rows, int head_dim, const AskPlan& plan) {
    for (int tiles = 1; tiles <= kMostTiles; ++tiles) {
      for (const int seen : {1, 16, 17, 97, 127, 128}) {
        const Tiles problem(table, rows, head_dim, tiles, seen);
        AskStream stream = problem.Stream(plan);
        EXPECT_EQ(Bits(problem.Run(&stream)), Bits(problem.Run(nullptr))) << tiles << " tiles, " << seen;
      }
    }
  });
}

}  // namespace
}  // namespace dunlin::kernels::cpu
