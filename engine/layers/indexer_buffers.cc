// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/indexer_buffers.h"

#include "engine/layers/buffer_cut.h"
#include "kernels/api/key_selection.h"

namespace dunlin::engine {
namespace {

IndexerBuffers PlaceIndexer(const IndexerSpec& indexer, int64_t tokens, int32_t max_context, BufferCut* cut) {
  return {.queries = cut->Take<float>(tokens * indexer.query_features()),
          .keys = cut->Take<float>(tokens * indexer.dim),
          .weights = cut->Take<float>(indexer.by_blocks() ? 0 : tokens * indexer.num_heads),
          .scores = cut->Take<float>(int64_t{kernels::kSelectionRows} * max_context),
          .selected = cut->Take<uint32_t>(tokens * indexer.num_choices() * SelectionWords(max_context))};
}

}  // namespace

size_t IndexerBufferBytes(const ModelConfig& config, int32_t max_tokens, int32_t max_context) {
  if (!config.attention.has_indexer()) return 0;
  BufferCut cut(nullptr);
  (void)PlaceIndexer(config.attention.indexer, max_tokens, max_context, &cut);
  return cut.taken();
}

IndexerBuffers PlaceIndexerBuffers(const ModelConfig& config, int32_t max_tokens, int32_t max_context, void* memory) {
  if (!config.attention.has_indexer()) return {};
  BufferCut cut(memory);
  return PlaceIndexer(config.attention.indexer, max_tokens, max_context, &cut);
}

}  // namespace dunlin::engine
