// GEMM without vector intrinsics. A slice of K of the panel is decoded to FP32 in scratch (exact for every format),
// then multiplied by tiles of rows; partial sums wait in scratch between slices, so each sum stays one chain over K.
#include <array>
#include <bit>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/packed_layout.h"
#include "kernels/cpu/portable/kernels.h"

namespace dunlin::kernels::cpu::portable {
namespace {

constexpr int kColumns = static_cast<int>(kPanelColumns);
constexpr int kTileRows = 4;

uint16_t Load16(const std::byte* at) {
  uint16_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Without a branch per element: the exponent is rebased by an exact product; infinity and NaN keep an all-ones
// exponent.
float Fp16Lane(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7FFFU;
  const float rebased = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const uint32_t special = magnitude >= 0x7C00U ? 0x7F800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(rebased) | special | static_cast<uint32_t>(bits & 0x8000U) << 16);
}

constexpr std::array<float, 256> MakeE4M3Table() {
  std::array<float, 256> table{};
  for (size_t code = 0; code < table.size(); ++code) table[code] = E4M3ToFloat(static_cast<uint8_t>(code));
  return table;
}
constexpr std::array<float, 256> kE4M3Table = MakeE4M3Table();

// The four decoders: K elements [first, first + count) of a panel to out[count][48]. first is a multiple of 4.
struct Fp32Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    std::memcpy(out, panel + first * kColumns * 4, static_cast<size_t>(count * kColumns) * 4);
  }
};

struct Fp16Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    const std::byte* in = panel + first * kColumns * 2;
    for (int64_t i = 0; i < count * kColumns; ++i) out[i] = Fp16Lane(Load16(in + i * 2));
  }
};

struct Bf16Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    const std::byte* in = panel + first * kColumns * 2;
    for (int64_t k = 0; k < count; k += 2, in += kColumns * 4, out += kColumns * 2) {
      for (int c = 0; c < kColumns; ++c) {
        out[c] = Bf16ToFloat(Load16(in + c * 4));
        out[c + kColumns] = Bf16ToFloat(Load16(in + c * 4 + 2));
      }
    }
  }
};

struct Fp8Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    const std::byte* in = panel + first * kColumns;
    for (int64_t k = 0; k < count; ++k) {
      for (int c = 0; c < kColumns; ++c) {
        out[k * kColumns + c] = kE4M3Table[static_cast<size_t>(in[ElementIndex(Precision::kFp8, k, c)])];
      }
    }
  }
};

// sums[rows][48] += activation[rows][first .. first + count) times slice[count][48].
void MultiplyTile(const GemmBlock& block, int row, int rows, int64_t first, int64_t count, const float* slice,
                  float* sums) {
  const std::byte* in = block.activation + static_cast<size_t>(row) * block.activation_stride;
  for (int64_t k = 0; k < count; ++k) {
    const float* weight = slice + k * kColumns;
    for (int r = 0; r < rows; ++r) {
      float value = 0;
      std::memcpy(&value, in + static_cast<size_t>(r) * block.activation_stride + (first + k) * 4, sizeof(value));
      float* sum = sums + r * kColumns;
      for (int c = 0; c < kColumns; ++c) sum[c] += value * weight[c];
    }
  }
}

// out = sums (scaled) + bias + residual of one row and panel.
void StoreRow(const GemmBlock& block, int row, int64_t first_column, const float* sums) {
  const int64_t left = block.columns - first_column;
  const int64_t columns = left < kColumns ? left : kColumns;
  const int64_t offset = row * block.out_stride + first_column;
  for (int64_t c = 0; c < columns; ++c) {
    float value = sums[c];
    if (block.weight_scale != nullptr)
      value = value * block.activation_scale[row] * block.weight_scale[first_column + c];
    if (block.bias != nullptr) value += block.bias[first_column + c];
    if (block.residual != nullptr) value += block.residual[offset + c];
    block.out[offset + c] = value;
  }
}

template <typename Panel>
void GemmBlockOf(const GemmBlock& block) {
  float* sums = reinterpret_cast<float*>(block.scratch);
  float* slice = reinterpret_cast<float*>(block.scratch + kGemmSumBytes);
  const std::byte* panel = block.panels;
  for (int64_t column = 0; column < block.columns; column += kColumns, panel += block.panel_bytes) {
    std::memset(sums, 0, static_cast<size_t>(block.rows) * kColumns * sizeof(float));
    for (int64_t first = 0; first < block.padded_depth; first += kGemmDepthBlock) {
      const int64_t left = block.padded_depth - first;
      const int64_t count = left < kGemmDepthBlock ? left : kGemmDepthBlock;
      Panel::Decode(panel, first, count, slice);
      for (int row = 0; row < block.rows; row += kTileRows) {
        const int rows = block.rows - row < kTileRows ? block.rows - row : kTileRows;
        MultiplyTile(block, row, rows, first, count, slice, sums + row * kColumns);
      }
    }
    for (int row = 0; row < block.rows; ++row) StoreRow(block, row, column, sums + row * kColumns);
  }
}

}  // namespace

void GemmFp32(const GemmBlock& block) {
  GemmBlockOf<Fp32Panel>(block);
}
void GemmBf16(const GemmBlock& block) {
  GemmBlockOf<Bf16Panel>(block);
}
void GemmFp16(const GemmBlock& block) {
  GemmBlockOf<Fp16Panel>(block);
}
void GemmFp8(const GemmBlock& block) {
  GemmBlockOf<Fp8Panel>(block);
}

}  // namespace dunlin::kernels::cpu::portable
