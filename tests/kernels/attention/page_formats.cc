// SPDX-License-Identifier: Apache-2.0
// The devices' page formats, by their own index arithmetic.
#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cuda/ops/kv_store.h"
#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {
namespace {

void StoreCpu(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
              const float* key, const float* value) {
  std::byte* block = cpu::KeyBlock(pool, layout, page, layer, kv_head);
  if (value != nullptr) return cpu::StoreToken(layout, block, slot, key, value);
  for (int32_t d = 0; d < layout.shape.head_dim; ++d) {
    cpu::StoreKvElement(layout, block, cpu::KeyIndex(layout, slot, d), key[d]);
  }
}

void FillCpu(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
             float value) {
  const int32_t dim = layout.shape.head_dim;
  std::byte* block = cpu::KeyBlock(pool, layout, page, layer, kv_head);
  if (layout.dtype == DType::kF8E4M3) {
    cpu::StoreFp8Scale(block, dim, slot, value);
    cpu::StoreFp8Scale(block + layout.key_block_bytes, dim, slot, value);
  }
  for (int32_t d = 0; d < dim; ++d) {
    cpu::StoreKvElement(layout, block, cpu::KeyIndex(layout, slot, d), value);
    cpu::StoreKvElement(layout, block + layout.key_block_bytes, cpu::ValueIndex(layout, slot, d), value);
  }
}

void StoreCuda(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
               const float* key, const float* value) {
  auto* bytes = reinterpret_cast<unsigned char*>(pool);
  const cuda::SingleLane lane;
  const int32_t dim = layout.shape.head_dim;
  cuda::StoreHead(lane, layout, bytes + cuda::KeyBlockOffset(layout, page, layer, kv_head), dim, slot, key);
  if (value == nullptr) return;
  cuda::StoreHead(lane, layout, bytes + cuda::ValueBlockOffset(layout, page, layer, kv_head), dim, slot, value);
}

void FillCuda(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
              float value) {
  const int32_t dim = layout.shape.head_dim;
  for (const int64_t offset :
       {cuda::KeyBlockOffset(layout, page, layer, kv_head), cuda::ValueBlockOffset(layout, page, layer, kv_head)}) {
    auto* block = reinterpret_cast<unsigned char*>(pool) + offset;
    for (int64_t d = 0; d < cuda::PaddedHeadDim(dim); ++d) {
      const int64_t at = cuda::KvElement(dim, slot, 0) + d;
      if (layout.dtype == DType::kF32) reinterpret_cast<float*>(block)[at] = value;
      if (layout.dtype == DType::kF16) reinterpret_cast<uint16_t*>(block)[at] = FloatToFp16(value);
      if (layout.dtype == DType::kBF16) reinterpret_cast<uint16_t*>(block)[at] = FloatToBf16(value);
      if (layout.dtype == DType::kF8E4M3) block[at] = FloatToE4M3(value);
    }
    if (layout.dtype != DType::kF8E4M3) continue;
    *reinterpret_cast<float*>(block + cuda::KvScaleOffset(dim, layout.tokens_per_page, slot)) = value;
  }
}

}  // namespace

const PageFormat kCpuPages = {StoreCpu, FillCpu};
const PageFormat kCudaPages = {StoreCuda, FillCuda};

}  // namespace dunlin::kernels::testing
