// SPDX-License-Identifier: Apache-2.0
// Plain loops that the compiler vectorises or that stay in the L1 cache; the same bytes on every variant.
#include "kernels/cpu/gemm/pack_slice.h"

#include <cstring>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels::cpu {
namespace {

// Branch-free, so that the loop over it vectorises; the values of Fp16ToFloat, bit for bit but for the payload of NaN.
float WidenFp16(uint16_t bits) {
  const int32_t magnitude = bits & 0x7FFF;
  const int32_t sign = static_cast<int32_t>(static_cast<uint32_t>(bits & 0x8000) << 16);
  const int32_t normal = (magnitude << 13) + (magnitude >= 0x7C00 ? 0x70000000 : 0x38000000);
  const auto small = std::bit_cast<int32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  return std::bit_cast<float>(sign | (magnitude < 0x0400 ? small : normal));
}

template <DType kDType>
struct SourceElement;
template <>
struct SourceElement<DType::kF32> {
  using Type = float;
  static float Widen(float value) { return value; }
};
template <>
struct SourceElement<DType::kF16> {
  using Type = uint16_t;
  static float Widen(uint16_t bits) { return WidenFp16(bits); }
};
template <>
struct SourceElement<DType::kBF16> {
  using Type = uint16_t;
  static float Widen(uint16_t bits) { return Bf16ToFloat(bits); }
};
template <>
struct SourceElement<DType::kF8E4M3> {
  using Type = uint8_t;
  static float Widen(uint8_t code) { return E4M3ToFloat(code); }
};

// staged[c][k] = convert(source element). Walks the source in the direction in which it is contiguous.
template <typename In, typename Out, typename Convert>
void Stage(const SliceSource& source, int64_t columns, int64_t count, Out* staged, const Convert& convert) {
  const auto* in = reinterpret_cast<const In*>(source.data);
  if (source.column_stride == 1) {
    for (int64_t c = 0; c < columns; ++c) {
      const In* row = in + c * source.row_stride;
      Out* out = staged + c * kStagedStride;
      for (int64_t k = 0; k < count; ++k) out[k] = convert(row[k]);
    }
    return;
  }
  for (int64_t k = 0; k < count; ++k) {
    const In* row = in + k * source.column_stride;
    for (int64_t c = 0; c < columns; ++c) staged[c * kStagedStride + k] = convert(row[c * source.row_stride]);
  }
}

template <DType kDType>
void StageFloatsOf(const SliceSource& source, int64_t columns, int64_t count, float* floats) {
  using Element = SourceElement<kDType>;
  Stage<typename Element::Type>(source, columns, count, floats, [](auto bits) { return Element::Widen(bits); });
}

template <typename Element>
void StageAsTheyAre(const SliceSource& source, int64_t columns, int64_t count, std::byte* staged) {
  Stage<Element>(source, columns, count, reinterpret_cast<Element*>(staged), [](Element element) { return element; });
}

// One staged element per (k, column): fp32 and fp16 panels, and bf16 panels as pairs.
template <typename Element>
void ScatterElements(const std::byte* staged, int64_t columns, int64_t count, int64_t stride, Element* out) {
  const auto* in = reinterpret_cast<const Element*>(staged);
  for (int64_t k = 0; k < count; ++k, out += kPanelColumns) {
    for (int64_t c = 0; c < columns; ++c) out[c] = in[c * stride + k];
  }
}

// Rows k and k + 1 of a source whose rows are K: one pair per column.
void CopyPairs(const SliceSource& source, int64_t columns, int64_t depth, uint32_t* out) {
  const auto* row = reinterpret_cast<const uint16_t*>(source.data);
  int64_t k = 0;
  for (; k + 2 <= depth; k += 2, row += 2 * source.column_stride, out += kPanelColumns) {
    const uint16_t* next = row + source.column_stride;
    for (int64_t c = 0; c < columns; ++c) out[c] = row[c] | static_cast<uint32_t>(next[c]) << 16;
  }
  for (int64_t c = 0; k < depth && c < columns; ++c) out[c] = row[c];
}

template <typename Word>
Word WordAt(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Four K of four columns that are stored together: the first pair of each column, then the second.
void ScatterQuarter(const std::byte* in, int64_t stride, std::byte* out) {
  uint64_t pairs[2] = {};
  for (int64_t c = 0; c < 4; ++c) {
    const auto codes = WordAt<uint32_t>(in + c * stride);
    pairs[0] |= uint64_t{codes & 0xFFFFU} << (16 * c);
    pairs[1] |= uint64_t{codes >> 16} << (16 * c);
  }
  std::memcpy(out, pairs, sizeof(pairs));
}

// Two pairs of K per column, 8 bytes apart.
void ScatterBytes(const std::byte* codes, int64_t stride, int64_t first_column, int64_t columns, int64_t first,
                  int64_t count, std::byte* panel) {
  for (int64_t k = 0; k < count; k += 4) {
    for (int64_t c = 0; c < columns;) {
      std::byte* out = panel + ElementIndex(WeightFormat::kE4M3, first + k, first_column + c);
      const std::byte* in = codes + c * stride + k;
      if ((first_column + c) % 4 == 0 && c + 4 <= columns) {
        ScatterQuarter(in, stride, out);
        c += 4;
        continue;
      }
      std::memcpy(out, in, 2);
      std::memcpy(out + 8, in + 2, 2);
      ++c;
    }
  }
}
static_assert(ElementIndex(WeightFormat::kE4M3, 2, 0) == 8 && ElementIndex(WeightFormat::kE4M3, 1, 0) == 1);
static_assert(DepthUnit(WeightFormat::kE4M3) == 4 && DepthUnit(WeightFormat::kBf16) == 2);

// The low four bits of eight codes, a byte each, in the order of a column's word. Shifts alone, so that the loop over
// it vectorises without wide multiplications.
constexpr uint32_t NibbleWord(uint64_t codes) {
  const uint64_t nibbles = codes & 0x0F0F0F0F0F0F0F0F;
  const uint64_t pairs =
      nibbles | nibbles >> 12;  // bytes 0 and 1: K 0 with 2, 1 with 3; bytes 4 and 5: 4 with 6, 5 with 7
  return static_cast<uint32_t>((pairs & 0xFF) | (pairs >> 24 & 0xFF00) | (pairs & 0xFF00) << 8 |
                               (pairs >> 16 & 0xFF000000));
}
static_assert([] {
  bool placed = true;
  for (int64_t k = 0; k < 8; ++k) {
    placed = placed && NibbleWord(uint64_t{0xFB} << (8 * k)) == 0xBU << (4 * ElementIndex(WeightFormat::kInt4, k, 0));
  }
  return placed;
}());

// Packs a slice column by column, so that codes are read in the order of memory: kGroup of them become kWords words,
// which `put` stores. The slice's part of the panel stays in the L1 cache meanwhile.
template <int64_t kGroup, int64_t kWords, typename PackGroup, typename Put>
void PackColumns(const std::byte* codes, int64_t stride, int64_t columns, int64_t count, const PackGroup& pack,
                 const Put& put) {
  const int64_t groups = count / kGroup;
  for (int64_t c = 0; c < columns; ++c) {
    const std::byte* in = codes + c * stride;
    uint32_t words[kSliceDepth / kGroup * kWords];
    for (int64_t i = 0; i < groups; ++i) pack(in + i * kGroup, words + i * kWords);
    for (int64_t i = 0; i < groups; ++i) put(i, c, words + i * kWords);
  }
}

void ScatterNibbles(const std::byte* codes, int64_t stride, int64_t first_column, int64_t columns, int64_t first,
                    int64_t count, std::byte* panel) {
  uint32_t* out = reinterpret_cast<uint32_t*>(panel) + first / 8 * kPanelColumns + first_column;
  PackColumns<8, 1>(
      codes, stride, columns, count,
      [](const std::byte* in, uint32_t* word) { *word = NibbleWord(WordAt<uint64_t>(in)); },
      [out](int64_t group, int64_t c, const uint32_t* word) { out[group * kPanelColumns + c] = *word; });
}

// Two words, each with the low six bits of four codes, a byte each: K 0 and 2 in the low half, 1 and 3 in the high one.
constexpr uint64_t SixBitPairs(uint64_t codes) {
  constexpr uint64_t kBoth = uint64_t{1} << 32 | 1;
  return (codes & kBoth * 0x3F) | (codes << 8 & kBoth * 0x3F0000) | (codes >> 10 & kBoth * 0xFC0) |
         (codes >> 2 & kBoth * 0xFC00000);
}

// The words of K 0 to 7 and 8 to 15 of a column. K 12 to 15 are spread over the four bits left in each half.
constexpr void PutSixBitCodes(uint64_t front_codes, uint64_t back_codes, uint32_t* words) {
  const uint64_t front = SixBitPairs(front_codes);
  const uint64_t back = SixBitPairs(back_codes);
  const auto last = static_cast<uint32_t>(back >> 32);
  words[0] = static_cast<uint32_t>(front) | (last & 0x000F000FU) << 12;
  words[1] = static_cast<uint32_t>(front >> 32) | (last & 0x00F000F0U) << 8;
  words[2] = static_cast<uint32_t>(back) | (last & 0x0F000F00U) << 4;
}
static_assert([] {
  bool placed = true;
  for (int64_t k = 0; k < 16; ++k) {
    const uint64_t code = uint64_t{0xD7} << (k % 8 * 8);  // of six bits: 23
    uint32_t words[3] = {};
    PutSixBitCodes(k < 8 ? code : 0, k < 8 ? 0 : code, words);
    for (int64_t i = 0; i < 16; ++i) placed = placed && SixBitCode(words, i) == (i == k ? 23 : 0);
  }
  return placed;
}());

void ScatterSixBits(const std::byte* codes, int64_t stride, int64_t first_column, int64_t columns, int64_t first,
                    int64_t count, std::byte* panel) {
  PackColumns<16, 3>(
      codes, stride, columns, count,
      [](const std::byte* in, uint32_t* words) {
        PutSixBitCodes(WordAt<uint64_t>(in), WordAt<uint64_t>(in + 8), words);
      },
      [=](int64_t group, int64_t c, const uint32_t* words) {
        std::byte* out = panel + SixBitWords(first + group * 16, first_column + c);
        for (int64_t w = 0; w < 3; ++w) std::memcpy(out + w * kSixBitWordStride, words + w, sizeof(uint32_t));
      });
}

}  // namespace

void StageFloats(const SliceSource& source, int64_t columns, int64_t count, float* floats) {
  switch (source.dtype) {
    case DType::kF32:
      return StageFloatsOf<DType::kF32>(source, columns, count, floats);
    case DType::kF16:
      return StageFloatsOf<DType::kF16>(source, columns, count, floats);
    case DType::kBF16:
      return StageFloatsOf<DType::kBF16>(source, columns, count, floats);
    case DType::kF8E4M3:
      return StageFloatsOf<DType::kF8E4M3>(source, columns, count, floats);
  }
}

void StageElements(const SliceSource& source, int64_t columns, int64_t count, std::byte* staged) {
  switch (SizeOf(source.dtype)) {
    case 4:
      return StageAsTheyAre<uint32_t>(source, columns, count, staged);
    case 2:
      return StageAsTheyAre<uint16_t>(source, columns, count, staged);
    default:
      return StageAsTheyAre<uint8_t>(source, columns, count, staged);
  }
}

void RoundGroups(WeightFormat format, const float* floats, int64_t columns, int64_t count, int8_t* codes,
                 uint16_t* words) {
  const auto round = format == WeightFormat::kInt4 ? RoundGroupToInt4 : RoundGroupToInt8;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t k = 0; k < count; k += kWeightGroup) {
      const int64_t at = c * kStagedStride + k;
      words[k / kWeightGroup * kPanelColumns + c] = round(floats + at, codes + at);
    }
  }
}

void ScatterCodes(WeightFormat format, const int8_t* codes, int64_t stride, int64_t first_column, int64_t columns,
                  int64_t first, int64_t count, std::byte* panel) {
  const auto* bytes = reinterpret_cast<const std::byte*>(codes);
  switch (Traits(format).code_bits) {
    case 4:
      return ScatterNibbles(bytes, stride, first_column, columns, first, count, panel);
    case 6:
      return ScatterSixBits(bytes, stride, first_column, columns, first, count, panel);
    default:
      return ScatterBytes(bytes, stride, first_column, columns, first, count, panel);
  }
}

void ScatterStaged(WeightFormat format, const std::byte* staged, int64_t first_column, int64_t columns, int64_t first,
                   int64_t count, std::byte* panel) {
  switch (Traits(format).code_bits) {
    case 32:
      return ScatterElements(staged, columns, count, kStagedStride,
                             reinterpret_cast<uint32_t*>(panel) + first * kPanelColumns + first_column);
    case 16:
      if (format == WeightFormat::kF16) {
        return ScatterElements(staged, columns, count, kStagedStride,
                               reinterpret_cast<uint16_t*>(panel) + first * kPanelColumns + first_column);
      }
      return ScatterElements(staged, columns, count / 2, kStagedStride / 2,
                             reinterpret_cast<uint32_t*>(panel) + first / 2 * kPanelColumns + first_column);
    default:
      return ScatterBytes(staged, kStagedStride, first_column, columns, first, count, panel);
  }
}

void CopyTransposed(WeightFormat format, const SliceSource& source, int64_t first_column, int64_t columns,
                    int64_t depth, std::byte* panel) {
  const size_t element = SizeOf(source.dtype);
  const size_t source_stride = static_cast<size_t>(source.column_stride) * element;
  std::byte* out = panel + static_cast<size_t>(ElementIndex(format, 0, first_column)) * element;
  if (format == WeightFormat::kBf16) return CopyPairs(source, columns, depth, reinterpret_cast<uint32_t*>(out));
  for (int64_t k = 0; k < depth; ++k, out += static_cast<size_t>(kPanelColumns) * element) {
    std::memcpy(out, source.data + static_cast<size_t>(k) * source_stride, static_cast<size_t>(columns) * element);
  }
}

}  // namespace dunlin::kernels::cpu
