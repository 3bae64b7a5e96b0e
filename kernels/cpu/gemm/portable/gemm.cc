// SPDX-License-Identifier: Apache-2.0
// GEMM without vector intrinsics. A slice of K of the panel is decoded to FP32 in scratch (exact for every format),
// then multiplied by tiles of rows; partial sums wait in scratch between slices, so each sum stays one chain over K.
// With block scales a slice is a block: its sums are scaled and added to totals, in ascending order.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "kernels/api/code_levels.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/input_rounding.h"
#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/context/gemm_kernels.h"
#include "kernels/cpu/gemm/group_numbers.h"
#include "kernels/cpu/gemm/packed_layout.h"

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

// The decoders: K elements [first, first + count) of a panel to out[count][48]. first is a multiple of 4.
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
        out[k * kColumns + c] = kE4M3Table[static_cast<size_t>(in[ElementIndex(WeightFormat::kE4M3, k, c)])];
      }
    }
  }
};

// first is a multiple of 16 from here on.
struct Int8Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    const std::byte* in = panel + first * kColumns;
    for (int64_t k = 0; k < count; ++k) {
      for (int c = 0; c < kColumns; ++c) {
        out[k * kColumns + c] = static_cast<float>(static_cast<int8_t>(in[ElementIndex(WeightFormat::kInt8, k, c)]));
      }
    }
  }
};

// What a code of 4 bits stands for.
template <bool kSigned>
struct PlainCodes {
  static int32_t Integer(uint32_t code) {
    const auto integer = static_cast<int32_t>(code);
    return kSigned ? (integer ^ 8) - 8 : integer;
  }
};
template <CodeLevels kLevels>
struct TableCodes {
  static int32_t Integer(uint32_t code) { return RowOf(kLevels).values[code]; }
};

template <typename Codes>
struct Int4Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    const std::byte* in = panel + first * kColumns / 2;
    for (int64_t k = 0; k < count; ++k) {
      const auto bit = static_cast<int>(4 * ElementIndex(WeightFormat::kInt4, k % 8, 0));
      for (int c = 0; c < kColumns; ++c) {
        uint32_t word = 0;
        std::memcpy(&word, in + ElementIndex(WeightFormat::kInt4, k / 8 * 8, c) / 2, sizeof(word));
        out[k * kColumns + c] = static_cast<float>(Codes::Integer(word >> bit & 0xF));
      }
    }
  }
};

struct Int6Panel {
  static void Decode(const std::byte* panel, int64_t first, int64_t count, float* out) {
    for (int64_t k = 0; k < count; k += 16, out += 16 * kColumns) {
      for (int c = 0; c < kColumns; ++c) {
        const std::byte* in = panel + SixBitWords(first + k, c);
        uint32_t words[3];
        for (int64_t w = 0; w < 3; ++w) std::memcpy(words + w, in + w * kSixBitWordStride, sizeof(uint32_t));
        for (int64_t i = 0; i < 16; ++i) out[i * kColumns + c] = static_cast<float>(SixBitCode(words, i));
      }
    }
  }
};

// sums[rows][48] += activation[rows][first .. first + count) times slice[count][48]. Input: of an activation row's
// elements; sums of products of integers stay below 2^24, where floats are exact.
template <typename Input>
void MultiplyTile(const GemmBlock& block, int row, int rows, int64_t first, int64_t count, const float* slice,
                  float* sums) {
  const std::byte* in = block.activation + static_cast<size_t>(row) * block.activation_stride;
  for (int64_t k = 0; k < count; ++k) {
    const float* weight = slice + k * kColumns;
    for (int r = 0; r < rows; ++r) {
      Input input = 0;
      std::memcpy(
          &input,
          in + static_cast<size_t>(r) * block.activation_stride + (first + k) * static_cast<int64_t>(sizeof(Input)),
          sizeof(input));
      const auto value = static_cast<float>(input);
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
    if (block.weight_scale != nullptr && block.scales_per_row == 1) {
      value = value * block.activation_scale[row] * block.weight_scale[first_column + c];
    }
    if (block.bias != nullptr) value += block.bias[first_column + c];
    if (block.residual != nullptr) value += block.residual[offset + c];
    block.out[offset + c] = value;
  }
}

// totals[rows][48] += sums * (activation scale * weight scale), for scale `index` of each row.
void AddScaled(const GemmBlock& block, const float* weight_scales, int64_t index, const float* sums, float* totals) {
  const float* weight_scale = weight_scales + index * kColumns;
  for (int row = 0; row < block.rows; ++row, sums += kColumns, totals += kColumns) {
    const float activation_scale = block.activation_scale[row * block.scales_per_row + index];
    for (int c = 0; c < kColumns; ++c) totals[c] += sums[c] * (activation_scale * weight_scale[c]);
  }
}

template <typename Panel, typename Input = float>
void MultiplySlice(const GemmBlock& block, const std::byte* panel, int64_t first, int64_t count, float* sums,
                   float* slice) {
  Panel::Decode(panel, first, count, slice);
  for (int row = 0; row < block.rows; row += kTileRows) {
    const int rows = block.rows - row < kTileRows ? block.rows - row : kTileRows;
    MultiplyTile<Input>(block, row, rows, first, count, slice, sums + row * kColumns);
  }
}

template <typename Panel>
void BlockScaledGemm(const GemmBlock& block) {
  static_assert(kScaleBlock * kColumns * sizeof(float) + 2 * kGemmSumBytes <= kScratchBytes);
  const size_t sum_bytes = static_cast<size_t>(block.rows) * kColumns * sizeof(float);
  float* sums = reinterpret_cast<float*>(block.scratch);
  float* totals = reinterpret_cast<float*>(block.scratch + kGemmSumBytes);
  float* slice = reinterpret_cast<float*>(block.scratch + 2 * kGemmSumBytes);
  const std::byte* panel = block.panels;
  const float* scales = block.weight_scale;
  for (int64_t column = 0; column < block.columns; column += kColumns, panel += block.panel_bytes) {
    std::memset(totals, 0, sum_bytes);
    for (int64_t index = 0; index < block.scales_per_row; ++index) {
      const int64_t first = index * kScaleBlock;
      const int64_t left = block.padded_depth - first;
      std::memset(sums, 0, sum_bytes);
      MultiplySlice<Panel>(block, panel, first, left < kScaleBlock ? left : kScaleBlock, sums, slice);
      AddScaled(block, scales, index, sums, totals);
    }
    for (int row = 0; row < block.rows; ++row) StoreRow(block, row, column, totals + row * kColumns);
    scales += block.scales_per_row * kColumns;
  }
}

// totals[rows][48] += (sums - zero point * group sum) * scale - minimum * group sum, for group `group` of each row;
// sums of inputs in 8 bits times the row's scale first.
template <WeightFormat kFormat, typename Input>
void AddGroup(const GemmBlock& block, const std::byte* scales, int64_t group, const float* sums, float* totals) {
  GroupNumbers numbers[kColumns];
  for (int c = 0; c < kColumns; ++c) numbers[c] = ReadGroup<kFormat>(scales, group, c);
  for (int row = 0; row < block.rows; ++row, sums += kColumns, totals += kColumns) {
    const std::byte* groups =
        block.activation + static_cast<size_t>(row) * block.activation_stride + block.group_sum_offset;
    float group_sum = 0;
    float input_scale = 1;
    if constexpr (std::is_same_v<Input, int8_t>) {
      const auto inputs = NumberAt<InputGroup>(groups + static_cast<size_t>(group) * sizeof(InputGroup));
      group_sum = inputs.sum;
      input_scale = inputs.scale;
    } else if (Traits(kFormat).offsets()) {
      group_sum = NumberAt<float>(groups + static_cast<size_t>(group) * sizeof(float));
    }
    for (int c = 0; c < kColumns; ++c) {
      float sum = sums[c] * input_scale;
      if (Traits(kFormat).zero_points()) sum -= numbers[c].zero_point * group_sum;
      totals[c] += sum * numbers[c].scale;
      if (Traits(kFormat).offsets() && !Traits(kFormat).zero_points()) totals[c] -= numbers[c].minimum * group_sum;
    }
  }
}

template <typename Panel, WeightFormat kFormat, typename Input = float>
void GroupedGemm(const GemmBlock& block) {
  constexpr int64_t kGroup = Traits(kFormat).group;
  const size_t sum_bytes = static_cast<size_t>(block.rows) * kColumns * sizeof(float);
  float* sums = reinterpret_cast<float*>(block.scratch);
  float* totals = reinterpret_cast<float*>(block.scratch + kGemmSumBytes);
  float* slice = reinterpret_cast<float*>(block.scratch + 2 * kGemmSumBytes);
  const std::byte* panel = block.panels;
  const std::byte* scales = block.group_scales;
  for (int64_t column = 0; column < block.columns; column += kColumns, panel += block.panel_bytes) {
    std::memset(totals, 0, sum_bytes);
    for (int64_t group = 0; group < block.groups; ++group) {
      const int64_t first = group * kGroup;
      const int64_t left = block.padded_depth - first;
      std::memset(sums, 0, sum_bytes);
      MultiplySlice<Panel, Input>(block, panel, first, left < kGroup ? left : kGroup, sums, slice);
      AddGroup<kFormat, Input>(block, scales, group, sums, totals);
    }
    for (int row = 0; row < block.rows; ++row) StoreRow(block, row, column, totals + row * kColumns);
    scales += block.group_scale_bytes;
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
      MultiplySlice<Panel>(block, panel, first, left < kGemmDepthBlock ? left : kGemmDepthBlock, sums, slice);
    }
    for (int row = 0; row < block.rows; ++row) StoreRow(block, row, column, sums + row * kColumns);
  }
}

// The decoder of a format in groups.
template <WeightFormat kFormat>
auto PanelOf() {
  if constexpr (Traits(kFormat).levels != CodeLevels::kIntegers) {
    return Int4Panel<TableCodes<Traits(kFormat).levels>>();
  } else if constexpr (Traits(kFormat).code_bits == 4) {
    return Int4Panel<PlainCodes<UnsignedBias(kFormat) != 0>>();
  } else if constexpr (Traits(kFormat).code_bits == 6) {
    return Int6Panel();
  } else {
    return Int8Panel();
  }
}

struct GroupedProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    GroupedGemm<decltype(PanelOf<kFormat>()), kFormat>(block);
  }
};

// Inputs of 8 bits (MakeInt8Kernels).
struct Int8Products {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    GroupedGemm<decltype(PanelOf<kFormat>()), kFormat, int8_t>(block);
  }
  // The codes in ascending order of K; codes of weights stay signed.
  static void Round(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
    const int64_t group = Traits(format).group;
    auto* codes = reinterpret_cast<int8_t*>(coded);
    auto* groups = reinterpret_cast<InputGroup*>(coded + InputGroupOffset(columns));
    for (int64_t first = 0; first < columns; first += group) {
      const int64_t count = std::min(group, columns - first);
      const float scale = RoundInputGroup(reinterpret_cast<const float*>(row) + first, count, codes + first);
      const int32_t sum = std::accumulate(codes + first, codes + first + count, int32_t{0});
      *groups++ = {scale, scale * static_cast<float>(sum), 0};
    }
    std::memset(codes + columns, 0, InputGroupOffset(columns) - static_cast<size_t>(columns));
  }
};

}  // namespace

const GemmKernelArray kGroupedKernels = MakeGemmKernels<GroupedProducts, HasGroups>();
const Int8GemmKernels kInt8Kernels = MakeInt8Kernels<Int8Products>();

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
  if (block.scales_per_row > 1) return BlockScaledGemm<Fp8Panel>(block);
  GemmBlockOf<Fp8Panel>(block);
}

}  // namespace dunlin::kernels::cpu::portable
