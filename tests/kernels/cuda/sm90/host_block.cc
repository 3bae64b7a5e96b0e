// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/sm90/host_block.h"

#include <algorithm>

namespace dunlin::kernels::cuda {
namespace {

static_assert(sizeof(TensorShape) <= sizeof(TensorMap));

// 16 bytes of a box: those from `begin` to `end` are in the tensor, at offset + begin and on; the others are outside.
struct BoxPiece {
  uint32_t byte;  // of the box's bytes in a row
  int64_t offset;
  uint32_t begin;
  uint32_t end;
};

template <typename Visit>
void ForPieces(const TensorShape& shape, const std::vector<int32_t>& at, const Visit& visit) {
  const uint32_t bytes = BytesOf(shape.element);
  const uint32_t row_bytes = shape.box[0] * bytes;
  uint32_t rows = 1;
  for (int i = 1; i < shape.rank; ++i) rows *= shape.box[i];
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t rest = row;
    int64_t offset = int64_t{at[0]} * bytes;
    bool inside = true;
    for (int i = 1; i < shape.rank; ++i) {
      const int64_t place = at[static_cast<size_t>(i)] + static_cast<int64_t>(rest % shape.box[i]);
      rest /= shape.box[i];
      inside = inside && place >= 0 && place < static_cast<int64_t>(shape.dims[i]);
      offset += place * static_cast<int64_t>(shape.strides[i - 1]);
    }
    for (uint32_t byte = 0; byte < row_bytes; byte += 16) {
      const int64_t start = int64_t{at[0]} * bytes + byte;
      const int64_t size = inside ? static_cast<int64_t>(shape.dims[0]) * bytes : 0;
      visit(BoxPiece{row * row_bytes + byte, offset + byte, static_cast<uint32_t>(std::clamp<int64_t>(-start, 0, 16)),
                     static_cast<uint32_t>(std::clamp<int64_t>(size - start, 0, 16))});
    }
  }
}

uint32_t BoxBytes(const TensorShape& shape) {
  uint32_t bytes = BytesOf(shape.element);
  for (int i = 0; i < shape.rank; ++i) bytes *= shape.box[i];
  return bytes;
}

uint32_t PlaceIn(const TensorShape& shape, uint32_t address) {
  return shape.swizzled ? Swizzled(address) : address;
}

struct Layout {
  explicit Layout(uint64_t bits)
      : address(static_cast<uint32_t>(bits & 0x3FFF) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3FFF) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3FFF) << 4),
        swizzled((bits >> 62) == 1) {}
  uint32_t address;
  uint32_t leading;
  uint32_t stride;
  bool swizzled;
};

}  // namespace

// Four columns at a time: a row's sums stay in registers.
void AddProducts(const float* const (&left)[2], const float* right, int depth, int columns, float* const (&sums)[2]) {
  using Four = float __attribute__((vector_size(16), aligned(4), may_alias));
  const auto four = [](auto* values, int index) { return reinterpret_cast<Four*>(const_cast<float*>(values + index)); };
  for (int n = 0; n < columns; n += 8) {
    Four low0 = *four(sums[0], n);
    Four high0 = *four(sums[0], n + 4);
    Four low1 = *four(sums[1], n);
    Four high1 = *four(sums[1], n + 4);
    for (int k = 0; k < depth; ++k) {
      const Four low = *four(right, k * columns + n);
      const Four high = *four(right, k * columns + n + 4);
      low0 += left[0][k] * low;
      high0 += left[0][k] * high;
      low1 += left[1][k] * low;
      high1 += left[1][k] * high;
    }
    *four(sums[0], n) = low0;
    *four(sums[0], n + 4) = high0;
    *four(sums[1], n) = low1;
    *four(sums[1], n + 4) = high1;
  }
}

// Refuses what cuTensorMapEncodeTiled documents as invalid.
int EncodeTensorMap(const TensorShape& shape, TensorMap* map) {
  constexpr int kInvalid = 1;
  const uint32_t bytes = BytesOf(shape.element);
  if (shape.rank < 1 || shape.rank > kTensorRanks || reinterpret_cast<uintptr_t>(shape.data) % 16 != 0) return kInvalid;
  if (shape.box[0] * bytes % 16 != 0 || (shape.swizzled && shape.box[0] * bytes > kSwizzleRowBytes)) return kInvalid;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.dims[i] < 1 || shape.dims[i] > uint64_t{1} << 32) return kInvalid;
    if (shape.box[i] < 1 || shape.box[i] > 256) return kInvalid;
    if (i > 0 && (shape.strides[i - 1] % 16 != 0 || shape.strides[i - 1] >= uint64_t{1} << 40)) return kInvalid;
  }
  std::memcpy(map->bytes, &shape, sizeof(shape));
  return 0;
}

TensorShape ShapeOf(const TensorMap& map) {
  TensorShape shape;
  std::memcpy(&shape, map.bytes, sizeof(shape));
  return shape;
}

uint32_t OperandByte(uint64_t descriptor, int row, int byte) {
  const Layout layout(descriptor);
  const auto group = static_cast<uint32_t>(row / 8);
  const auto inner = static_cast<uint32_t>(row % 8);
  const auto at = static_cast<uint32_t>(byte);
  if (layout.swizzled) return Swizzled(layout.address + group * layout.stride + inner * kSwizzleRowBytes + at);
  return layout.address + at / 16 * layout.leading + group * layout.stride + inner * 16 + at % 16;
}

uint32_t TransposedElement(uint64_t descriptor, int row, int k) {
  const Layout layout(descriptor);
  const auto mn = static_cast<uint32_t>(row);
  const auto depth = static_cast<uint32_t>(k);
  return Swizzled(layout.address + mn / 64 * layout.leading + depth / 8 * layout.stride + depth % 8 * kSwizzleRowBytes +
                  mn % 64 * 2);
}

void HostBlock::LoadShape(uint32_t to, const TensorShape& shape, uint32_t barrier, const std::vector<int32_t>& at,
                          size_t rank) const {
  CheckAligned(to, shape.swizzled ? kSwizzleAlignment : 128);
  if (rank != static_cast<size_t>(shape.rank)) machine_->Fail("a load of another rank than its map's");
  machine_->LoadLater(to, barrier, BoxBytes(shape), [machine = machine_, to, shape, at] {
    const auto* data = static_cast<const unsigned char*>(shape.data);
    ForPieces(shape, at, [&](const BoxPiece& piece) {
      unsigned char bytes[16] = {};
      if (piece.begin < piece.end) {
        std::memcpy(bytes + piece.begin, data + piece.offset + piece.begin, piece.end - piece.begin);
      }
      machine->Write(PlaceIn(shape, to + piece.byte), bytes, sizeof(bytes), true);
    });
  });
}

void HostBlock::LoadBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) const {
  CheckAligned(to, 16);
  CheckAligned(bytes, 16);
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) machine_->Fail("a bulk load from an address that is not aligned");
  machine_->LoadLater(to, barrier, bytes,
                      [machine = machine_, to, from, bytes] { machine->Write(to, from, bytes, true); });
}

void HostBlock::StoreBox(const TensorMap& map, uint32_t from, int32_t x, int32_t y) const {
  const TensorShape shape = ShapeOf(map);
  CheckAligned(from, shape.swizzled ? kSwizzleAlignment : 128);
  if (shape.rank != 2) machine_->Fail("a store of another rank than its map's");
  machine_->StoreLater([machine = machine_, shape, from, x, y] {
    auto* data = static_cast<unsigned char*>(const_cast<void*>(shape.data));
    ForPieces(shape, {x, y}, [&](const BoxPiece& piece) {
      unsigned char bytes[16];
      machine->Read(PlaceIn(shape, from + piece.byte), bytes, sizeof(bytes), true);
      if (piece.begin < piece.end) {
        std::memcpy(data + piece.offset + piece.begin, bytes + piece.begin, piece.end - piece.begin);
      }
    });
  });
}

void HostBlock::StoreMatrices(uint32_t row, const uint32_t (&values)[4]) const {
  CheckAligned(row, 16);
  const int lane = thread_ % 32;
  const Machine::Words* lanes = machine_->Exchange(std::to_array(values));
  uint32_t piece[4];  // of row lane % 8 of matrix lane / 8, from the four lanes that hold it
  for (int quad = 0; quad < 4; ++quad) piece[quad] = lanes[lane % 8 * 4 + quad][static_cast<size_t>(lane / 8)];
  machine_->Write(row, piece, 16, false);
}

}  // namespace dunlin::kernels::cuda
