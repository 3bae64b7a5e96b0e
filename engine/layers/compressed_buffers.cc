// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/compressed_buffers.h"

#include <algorithm>

#include "engine/layers/buffer_cut.h"
#include "kernels/api/key_selection.h"

namespace dunlin::engine {
namespace {

CompressedBuffers PlaceCompressed(const AttentionSpec& attention, int64_t tokens, int32_t max_context, BufferCut* cut) {
  const int32_t entries = NumEntries(attention, max_context);
  const bool chooses = entries > 0;
  const int64_t row = int64_t{chooses ? 4 : 2} * std::max(attention.head_dim, attention.indexer.dim);
  return {.down = cut->Take<float>(tokens * attention.latent.query_rank),
          .groups = cut->Take<float>(tokens * attention.compressed.out_features()),
          .rows = cut->Take<float>(tokens * row),
          .index_queries = cut->Take<float>(chooses ? tokens * attention.indexer.query_features() : 0),
          .index_weights = cut->Take<float>(chooses ? tokens * attention.indexer.num_heads : 0),
          .scores = cut->Take<float>(int64_t{kernels::kSelectionRows} * entries),
          .selected = cut->Take<uint32_t>(tokens * EntryWords(entries))};
}

}  // namespace

int32_t NumEntries(const AttentionSpec& attention, int32_t max_context) {
  const CompressedAttentionSpec& compressed = attention.compressed;
  int32_t entries = 0;
  for (size_t layer = 0; layer < compressed.rates.size(); ++layer) {
    if (compressed.chooses[layer]) entries = std::max(entries, max_context / compressed.rates[layer]);
  }
  return entries;
}

size_t CompressedBufferBytes(const ModelConfig& config, int32_t max_tokens, int32_t max_context) {
  if (!config.attention.is_compressed()) return 0;
  BufferCut cut(nullptr);
  (void)PlaceCompressed(config.attention, max_tokens, max_context, &cut);
  return cut.taken();
}

CompressedBuffers PlaceCompressedBuffers(const ModelConfig& config, int32_t max_tokens, int32_t max_context,
                                         void* memory) {
  BufferCut cut(memory);
  return PlaceCompressed(config.attention, max_tokens, max_context, &cut);
}

}  // namespace dunlin::engine
