// SPDX-License-Identifier: Apache-2.0
// Names of a runtime's buffers, and the config keys that make them smaller.
#include "engine/runtime/memory_plan.h"

namespace dunlin::engine {
namespace {

constexpr const char* kPoolKey = "models[].kv_cache.memory_bytes";
constexpr const char* kStepKey = "scheduler.max_tokens_per_step";
constexpr const char* kSequencesKey = "scheduler.max_sequences";

constexpr BufferTraits kBufferTable[kNumBuffers] = {
    {BufferId::kKvPool, "kv pool", kPoolKey},
    {BufferId::kState, "state slots", kPoolKey},
    {BufferId::kHidden, "hidden", kStepKey},
    {BufferId::kQkv, "qkv", kStepKey},
    {BufferId::kAttention, "attention", kStepKey},
    {BufferId::kMlp, "mlp", kStepKey},
    {BufferId::kLayerInputs, "layer inputs", kStepKey},
    {BufferId::kTerm, "layer term", kStepKey},
    {BufferId::kActivation, "activation", kStepKey},
    {BufferId::kKeptRows, "kept rows", kStepKey},
    {BufferId::kExperts, "experts", kStepKey},
    {BufferId::kLatent, "latent attention", kStepKey},
    {BufferId::kIndexer, "indexer", kStepKey},
    {BufferId::kCompressed, "compressed attention", kStepKey},
    {BufferId::kStreams, "residual streams", kStepKey},
    {BufferId::kDelta, "delta nets", kStepKey},
    {BufferId::kMamba, "mamba layers", kStepKey},
    {BufferId::kPredictor, "predictor", kStepKey},
    {BufferId::kPredictorHidden, "hidden rows of steps", kStepKey},
    {BufferId::kGate, "output gate", kStepKey},
    {BufferId::kUnfused, "unfused rows", "models[].execution"},
    {BufferId::kAdapterInput, "adapter inputs", kStepKey},
    {BufferId::kAdapterHidden, "adapter ranks", kStepKey},
    {BufferId::kFp8Scales, "fp8 scales", "models[].fp8.recipe"},
    {BufferId::kRotary, "rotary", kStepKey},
    {BufferId::kFrequencies, "position constants", "models[].path"},
    {BufferId::kIndices, "indices", kStepKey},
    {BufferId::kSpans, "spans", kSequencesKey},
    {BufferId::kPageTable, "page table", kSequencesKey},
    {BufferId::kLogits, "logits", "models[].path"},
    {BufferId::kSampleRows, "sampled rows", kSequencesKey},
    {BufferId::kSampled, "sampled tokens", "models[].path"},
    {BufferId::kWorkspace, "workspace", kStepKey},
    {BufferId::kGathered, "gathered columns", kStepKey},
    {BufferId::kRankColumns, "rank columns", kStepKey},
    {BufferId::kGraphs, "step graphs", "compute.cuda_graphs"},
};

}  // namespace

const BufferTraits& Traits(BufferId id) {
  return kBufferTable[static_cast<size_t>(id)];
}

}  // namespace dunlin::engine
