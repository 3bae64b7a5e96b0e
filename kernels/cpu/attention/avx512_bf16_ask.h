// How the kernels of the BF16 dot product ask memory for lines: one at a time, in slices, or by a stream. prefetcht0,
// the one hint that a Zen 5 does not drop when its queues are full, or, by streams and slices of a table that does so,
// prefetcht1. Included by the files of that product's tables only.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/ask_stream.h"
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::dot {

inline constexpr int kPageTokens = 16;
inline constexpr int kTilePages = kTileKeys / kPageTokens;

// In its place: the compiler gathers calls of __builtin_prefetch before a block's loads, and memory gets them at once.
DUNLIN_INLINE void Ask(const std::byte* line) {
  asm volatile("prefetcht0 %0" : : "m"(*line));
}
DUNLIN_INLINE void AskIntoL2(const std::byte* line) {
  asm volatile("prefetcht1 %0" : : "m"(*line));
}

// Asks for a line into L2, or L1.
template <bool kIntoL2>
DUNLIN_INLINE void AskInto(const std::byte* line) {
  kIntoL2 ? AskIntoL2(line) : Ask(line);
}

// Lines of the next tile's blocks, in order, a few at a time: what many rows ask for.
template <bool kIntoL2>
class Asker {
 public:
  // blocks: num_blocks of them, or null for none. parts: how many calls of Part ask for all.
  Asker(const std::byte* const* blocks, int num_blocks, int64_t block_bytes, int64_t parts)
      : blocks_(blocks), block_lines_(block_bytes / 64), left_(blocks == nullptr ? 0 : num_blocks * block_lines_) {
    per_part_ = (left_ + parts - 1) / parts;
  }
  __attribute__((always_inline)) void Part() {
    for (int64_t i = left_ < per_part_ ? left_ : per_part_; i > 0; --i) {
      AskInto<kIntoL2>(*blocks_ + line_ * 64);
      --left_;
      if (++line_ == block_lines_) {
        line_ = 0;
        ++blocks_;
      }
    }
  }

 private:
  const std::byte* const* blocks_;
  int64_t block_lines_;
  int64_t left_;
  int64_t per_part_;
  int64_t line_ = 0;
};

// What rows ask for while they read: nothing, the same line of the next pages at each line, or a stream, into L1 or L2.
enum class Asks { kNothing, kLines, kStream, kStreamIntoL2 };
constexpr bool Streams(Asks asks) {
  return asks == Asks::kStream || asks == Asks::kStreamIntoL2;
}

// Calls body.operator()<asks>(): a stream's where there is one, else of lines where there are next pages.
template <typename Body>
DUNLIN_INLINE void ForAsks(const AskStream* stream, bool next, const Body& body) {
  if (stream != nullptr && stream->into_l2) return body.template operator()<Asks::kStreamIntoL2>();
  if (stream != nullptr) return body.template operator()<Asks::kStream>();
  if (next) return body.template operator()<Asks::kLines>();
  body.template operator()<Asks::kNothing>();
}

// A stream's next round, of kSide blocks side by side.
template <bool kIntoL2, int kSide>
DUNLIN_INLINE void AskRound(AskStream* stream) {
  static_assert(kRoundLines % kSide == 0);
  constexpr int kLines = kRoundLines / kSide;
#pragma GCC unroll 4
  for (int i = 0; i < kRoundLines; ++i) {
    AskInto<kIntoL2>(stream->blocks[i / kLines] + stream->offset + i % kLines * 64);
  }
  stream->offset += kLines * 64;
  if (stream->offset == stream->block_bytes) {
    stream->offset = 0;
    stream->blocks += kSide;
  }
}

// What a stream asks for at step 0 to 7 of eight that read kLines lines each: 3 rounds of 2 lines a step, which is six
// lines for eight; of 4 lines 6 rounds, or 7; of 8 lines 12, or 14.
template <int kLines, bool kIntoL2, int kSide>
DUNLIN_INLINE void AskAtStep(int step, AskStream* stream) {
  static_assert(kLines == 2 || kLines == 4 || kLines == 8);
  if constexpr (kLines == 2) {
    if (step % 3 == 0) AskRound<kIntoL2, kSide>(stream);
  } else if constexpr (kLines == 4) {
    if (step % 4 != 3 || (step == 3 && stream->eighths == 7)) AskRound<kIntoL2, kSide>(stream);
  } else {
    AskRound<kIntoL2, kSide>(stream);
    if (step % 2 == 0 || (step % 4 == 1 && stream->eighths == 7)) AskRound<kIntoL2, kSide>(stream);
  }
}

// Part r of `parts` of what a stream asks for beside a softmax. stream: or null.
DUNLIN_INLINE void AskBesideSoftmax(int r, int parts, AskStream* stream) {
  if (stream == nullptr) return;
  const int rounds = stream->softmax_rounds;
  const auto ask = [&]<bool kIntoL2, int kSide>() __attribute__((always_inline)) {
    for (int i = rounds * r / parts; i < rounds * (r + 1) / parts; ++i) AskRound<kIntoL2, kSide>(stream);
  };
  if (!stream->into_l2) return ask.template operator()<false, kRoundLines>();
  stream->side == 1 ? ask.template operator()<true, 1>() : ask.template operator()<true, kRoundLines>();
}

}  // namespace dunlin::kernels::cpu::dot
