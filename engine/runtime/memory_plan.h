// SPDX-License-Identifier: Apache-2.0
// What a model's runtime will hold in device memory, computed before anything is allocated, so that start-up can print
// it, or refuse it with the config key to change. Weights are not part of it (Model::weight_bytes).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/kv_groups.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Every buffer of device memory that a runtime owns. T = max_tokens_per_step, S = max_sequences.
enum class BufferId : uint8_t {
  kKvPool,       // num_pages * page_bytes
  kState,        // [num_state_slots, state_floats] floats of a recurrent model, of the same memory as kKvPool
  kHidden,       // [T, hidden_dim] floats: the residual stream
  kQkv,          // [T, qkv_features] floats; of an encoder of images its patches, and its rows, too
  kAttention,    // [T, num_heads * value_dim] floats
  kMlp,          // [T, up_features] floats, or the input of the MLP's second matrix (GemmParams::next); of experts, too
  kLayerInputs,  // [T, layer_input_features] floats
  kTerm,         // [T, hidden_dim] floats where NormSpec::has_post(): a term before its norm
  kActivation,   // GEMM input: T rows of the widest, or all rows of the experts, in the largest resident precision
  kKeptRows,     // [K, hidden_dim] floats, then [K, num_heads * head_dim], K = max_kept_rows: see KeepRows
  kExperts,      // ExpertBufferBytes of T tokens
  kLatent,       // LatentBufferBytes of T tokens
  kIndexer,      // IndexerBufferBytes of T tokens
  kCompressed,   // CompressedBufferBytes of T tokens
  kStreams,      // StreamBufferBytes of T tokens
  kDelta,        // DeltaBufferBytes of T tokens
  kMamba,        // MambaBufferBytes of T tokens
  kPredictor,    // PredictorBufferFloats of T tokens
  kPredictorHidden,  // [HiddenRows::NumRows, hidden_dim] floats where a layer predicts
  kGate,             // [T, num_heads * head_dim] floats with AttentionSpec::output_gate
  kUnfused,        // [T, max(hidden_dim, max_ffn_dim)] floats or all rows of the experts, eager only: rows between two
                   // steps of a module
  kAdapterInput,   // [T, max(hidden_dim, ffn_dim)] floats where adapters are served: a product's input in FP32, of the
                   // experts' one of [T * num_chosen] rows
  kAdapterHidden,  // [max(T, T * num_chosen), AdapterRanks * max_rank] floats, as that: rows between two matrices
  kFp8Scales,      // [1 + 1 + amax_history_len, NumInputs] floats: see Fp8Scaling; when the recipe shares scales
  kRotary,         // [rotary count, T, rotary dim] floats: cos and sin of the step's positions
  kFrequencies,    // floats of ModelConfig::position_constants, written once
  kIndices,        // five arrays [T] of int32, and one for each of kv_groups, and those of a layer that predicts: see
                   // StepInputs, RaggedBatch
  kSpans,          // [kSpansPerSequence S] SequenceSpan, of some models up to 2 T more: see StepInputs, RaggedBatch
  kPageTable,      // [kv_groups, S, max_pages_per_sequence] int32
  kLogits,         // [kMaxLogitRows, vocab_size] floats
  kSampleRows,     // [kMaxLogitRows] SampleRow, then words for their lists: see SampleStage
  kSampled,        // [kMaxLogitRows] SampledToken; with takes_drawn_tokens [steps in flight, T]
  kWorkspace,      // of sampling, or the attention backend and precision that need most
  kGathered,       // of a divided model's rank 0, of linked ranks each: LayerBuffers::gathered, one after the other
  kRankColumns,    // of a rank: LayerBuffers::rank_columns and rank_sum
  kGraphs,         // num_graphs times what a device's driver takes of a recorded step at most: StepGraphs has it
};
inline constexpr int kNumBuffers = 36;

// Rows of logits that exist at once. More rows share the head's weights in cache, fewer keep the buffer small:
// 64 rows of a 128k vocabulary take 33 MB, and a head of 4 KB rows is then read once per 64 sequences.
inline constexpr int32_t kMaxLogitRows = 64;

// Spans of one sequence in a sub-batch: all of its rows, those of the head that score, and the one that draws.
inline constexpr int32_t kSpansPerSequence = 3;
// Arrays of a layer that predicts: its rows' positions, pages, places in them, and hidden rows.
inline constexpr int32_t kPredictorArrays = 4;

// One row per buffer; the index is the enumerator. key is what makes it smaller.
struct BufferTraits {
  BufferId id;
  const char* name;
  const char* key;
};
const BufferTraits& Traits(BufferId id);

struct MemoryPlan {
  std::array<size_t, kNumBuffers> bytes{};  // by BufferId
  int32_t num_pages = 0;
  int32_t num_state_slots = 0;              // of a recurrent model: of those that run, and of the prefix cache; else 0
  KvGroups kv_groups;                       // of the model
  std::vector<kernels::KvShape> kv_shapes;  // of pages: KvShapesOf the model
  std::vector<KvPlace> kv_places;           // [num_layers] of the model
  int32_t max_pages_per_sequence = 0;       // of one group, in the precision that packs fewest tokens into a page
  int32_t max_context_tokens = 0;           // prompt + output
  int32_t attention_chunk = 0;              // positions, of layers that have chunks of them: AttentionSpec::chunk
  RotarySpec image_rotation;                // ModelConfig::rotary where it has axes; else without dimensions
  int32_t max_tokens_per_step = 0;
  int32_t max_sequences = 0;
  int32_t num_graphs = 0;  // recorded decode steps that there may be at once; 0: none is recorded
  int32_t steps_in_flight = 1;
  bool takes_drawn_tokens = false;  // steps may be planned before their tokens are known: SequenceStep::drawn_by
  bool predicts = false;            // ModelConfig::num_predictors
  int32_t predictor_group = 0;      // of kv_groups, whose pages have the keys and values of the layer that predicts
  int32_t max_kept_rows = 0;        // that a last layer may go on with: T, of an encoder S
  bool deterministic = true;        // of EngineOptions: what a row gives does not depend on its neighbours
  size_t rank_sum_offset = 0;       // floats of kRankColumns before LayerBuffers::rank_sum
  int32_t first_token = 0;          // from which PassInputs::token_ids count
  bool kv_fp8 = false;              // the pool holds E4M3 pages, FP8's: asked for, and FP8 is resident

  size_t operator[](BufferId id) const { return bytes[static_cast<size_t>(id)]; }
  size_t total() const;
};

// The model's own limit, cut by options.max_context_tokens when that is set.
int32_t ContextLimit(const ModelConfig& config, const EngineOptions& options);

// resident: precisions whose weights are loaded, >= 1. RESOURCE_EXHAUSTED when the KV memory holds no page of each
// group and, of a recurrent model, no state, or when a buffer's size overflows; the message names
// models[].kv_cache.memory_bytes or scheduler.max_tokens_per_step.
absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                      const kernels::Device& device, const EngineOptions& options);

// The plans of a model's ranks, whose KV pages are as many: each has its own heads' part of a page. What all ranks
// share is in rank 0's. One rank: PlanMemory(config, ...). config: of the undivided model, which is divisible
// (CheckDivisible). Errors: as PlanMemory.
absl::StatusOr<std::vector<MemoryPlan>> PlanRanks(const ModelConfig& config, int32_t num_ranks,
                                                  const std::vector<Precision>& resident, const kernels::Device& device,
                                                  const EngineOptions& options);

// Their first with the bytes of all.
MemoryPlan SumOf(const std::vector<MemoryPlan>& ranks);

// RESOURCE_EXHAUSTED when the plan needs more than available_bytes: names the largest part and its key.
absl::Status CheckFits(const MemoryPlan& plan, size_t available_bytes);

// "kv pool 67108864, hidden 393216, ...; 71303168 bytes", for logs.
std::string Describe(const MemoryPlan& plan);

}  // namespace dunlin::engine
