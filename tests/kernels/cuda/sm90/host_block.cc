// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/sm90/host_block.h"

#include <algorithm>

namespace dunlin::kernels::cuda {
namespace {

static_assert(sizeof(TensorShape) <= sizeof(TensorMap));

// Calls visit(element's linear byte in the box, its address in the tensor or null outside) for each element of a box.
template <typename Visit>
void ForBox(const TensorShape& shape, const std::vector<int32_t>& at, const Visit& visit) {
  const uint32_t bytes = BytesOf(shape.element);
  uint64_t elements = 1;
  for (int i = 0; i < shape.rank; ++i) elements *= shape.box[i];
  for (uint64_t index = 0; index < elements; ++index) {
    uint64_t rest = index;
    uint64_t offset = 0;
    bool inside = true;
    for (int i = 0; i < shape.rank; ++i) {
      const int64_t place = at[static_cast<size_t>(i)] + static_cast<int64_t>(rest % shape.box[i]);
      rest /= shape.box[i];
      inside = inside && place >= 0 && place < static_cast<int64_t>(shape.dims[i]);
      offset += static_cast<uint64_t>(place) * (i == 0 ? bytes : shape.strides[i - 1]);
    }
    visit(static_cast<uint32_t>(index * bytes), inside ? offset : UINT64_MAX);
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
  machine_->LoadLater(barrier, BoxBytes(shape), [machine = machine_, to, shape, at] {
    const auto* data = static_cast<const unsigned char*>(shape.data);
    const unsigned char zeros[4] = {};
    ForBox(shape, at, [&](uint32_t byte, uint64_t offset) {
      const unsigned char* from = offset == UINT64_MAX ? zeros : data + offset;
      machine->Write(PlaceIn(shape, to + byte), from, BytesOf(shape.element), true);
    });
  });
}

void HostBlock::LoadBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) const {
  CheckAligned(to, 16);
  CheckAligned(bytes, 16);
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) machine_->Fail("a bulk load from an address that is not aligned");
  machine_->LoadLater(barrier, bytes, [machine = machine_, to, from, bytes] { machine->Write(to, from, bytes, true); });
}

void HostBlock::StoreBox(const TensorMap& map, uint32_t from, int32_t x, int32_t y) const {
  const TensorShape shape = ShapeOf(map);
  CheckAligned(from, shape.swizzled ? kSwizzleAlignment : 128);
  if (shape.rank != 2) machine_->Fail("a store of another rank than its map's");
  machine_->StoreLater([machine = machine_, shape, from, x, y] {
    auto* data = static_cast<unsigned char*>(const_cast<void*>(shape.data));
    ForBox(shape, {x, y}, [&](uint32_t byte, uint64_t offset) {
      unsigned char element[4];
      machine->Read(PlaceIn(shape, from + byte), element, BytesOf(shape.element), true);
      if (offset != UINT64_MAX) std::memcpy(data + offset, element, BytesOf(shape.element));
    });
  });
}

void HostBlock::StoreMatrices(uint32_t row, const uint32_t (&values)[4]) const {
  CheckAligned(row, 16);
  const int lane = thread_ % 32;
  uint32_t piece[4];  // of row lane % 8 of matrix lane / 8, from the four lanes that hold it
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int quad = 0; quad < 4; ++quad) {
      const auto value = static_cast<uint32_t>(machine_->Exchange(values[matrix], lane % 8 * 4 + quad));
      if (matrix == lane / 8) piece[quad] = value;
    }
  }
  machine_->Write(row, piece, 16, false);
}

}  // namespace dunlin::kernels::cuda
