// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter.h"
#include "engine/layers/compressed_buffers.h"
#include "engine/layers/delta_buffers.h"
#include "engine/layers/expert_buffers.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/layers/indexer_buffers.h"
#include "engine/layers/latent_buffers.h"
#include "engine/layers/mamba_buffers.h"
#include "engine/layers/predictor.h"
#include "engine/layers/residual_streams.h"
#include "engine/model/spec/rank_config.h"
#include "engine/runtime/hidden_rows.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/step_graphs.h"
#include "engine/sampling/logit_edits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kKvKey = "models[].kv_cache.memory_bytes";

size_t Floats(int64_t rows, int64_t columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns) * sizeof(float);
}

bool HasFp8(const std::vector<Precision>& resident) {
  return std::find(resident.begin(), resident.end(), Precision::kFp8) != resident.end();
}

// Precisions that the input of a product may have: FP8 checkpoints keep some matrices wider, a router is FP32.
std::vector<Precision> InputPrecisions(const ModelConfig& config, const std::vector<Precision>& resident) {
  std::vector<Precision> inputs;
  inputs.reserve(resident.size() + 3);
  if (config.has_experts()) inputs.push_back(Precision::kFp32);
  for (Precision precision : resident) inputs.push_back(kernels::ComputeOf(precision));
  if (HasFp8(resident)) inputs.insert(inputs.end(), {Precision::kBf16, Precision::kFp16});
  return inputs;
}

size_t MlpBytes(const ModelConfig& config, const std::vector<Precision>& resident, const kernels::Device& device,
                int32_t rows) {
  const auto expert_rows = static_cast<int32_t>(NumExpertRows(config, rows));
  size_t most = std::max(Floats(rows, config.mlp.up_features(config.max_ffn_dim())),
                         Floats(expert_rows, config.mlp.up_features(config.experts.ffn_dim)));
  most = std::max(most, Floats(rows, std::max({config.layer_input_features(), 2 * config.layer_inputs.width,
                                               config.image.projector_features_per_patch()})));
  for (Precision precision : InputPrecisions(config, resident)) {
    most = std::max(most, device.ops->activation_bytes(precision, rows, config.max_ffn_dim()));
    if (expert_rows == 0) continue;
    most = std::max(most, device.ops->activation_bytes(precision, expert_rows, config.experts.ffn_dim));
  }
  return most;
}

size_t ActivationBytes(const ModelConfig& config, const std::vector<Precision>& resident, const kernels::Device& device,
                       int32_t rows) {
  size_t most = 0;
  const ModelConfig& whole = config.undivided();  // a rank's products have all inputs
  for (Precision precision : InputPrecisions(config, resident)) {
    for (int32_t columns :
         {config.hidden_dim, whole.attention.output_features(), whole.max_ffn_dim(), config.attention.latent.query_rank,
          config.attention.latent.plain_dim, config.attention.latent.kv_rank, config.streams.count * config.hidden_dim,
          config.attention.out_group_features(), whole.delta.output_features(), config.delta.gate_rank,
          whole.mamba.output_features(), config.experts.latent_dim, 2 * config.hidden_dim * config.num_predictors,
          config.image.patch_inputs(), config.image.patches_per_row() * config.hidden_dim,
          config.image.projector_dim}) {
      if (columns == 0) continue;
      most = std::max(most, device.ops->activation_bytes(precision, rows, columns));
    }
    const auto expert_rows = static_cast<int32_t>(NumExpertRows(config, rows));
    if (expert_rows == 0) continue;
    const int32_t columns = std::max(config.expert_dim(), whole.experts.ffn_dim);
    most = std::max(most, device.ops->activation_bytes(precision, expert_rows, columns));
  }
  return most;
}

// One of LayerBuffers::gathered.
size_t GatheredBytes(const ModelConfig& config, int32_t rows) {
  const ModelConfig& whole = config.undivided();
  const AttentionSpec& attention = whole.attention;
  const int32_t normed = attention.qk_norm_joint ? attention.qkv_features() : 0;  // queries and keys at once
  const int32_t widest = std::max({normed, whole.layer_input_features(), whole.attention.output_features(),
                                   whole.delta.output_features(), whole.mamba.output_features(),
                                   whole.short_conv.channels, whole.experts.latent_dim, whole.max_ffn_dim()});
  return std::max(Floats(rows, widest), Floats(NumExpertRows(whole, rows), whole.experts.ffn_dim));
}

size_t RankColumnBytes(const ModelConfig& config, int32_t rows) {
  return std::max(Floats(rows, std::max(config.max_ffn_dim(), config.layer_inputs.width)),
                  Floats(NumExpertRows(config, rows), config.experts.ffn_dim));
}

size_t UnfusedBytes(const ModelConfig& config, const EngineOptions& options) {
  if (options.execution != ExecutionMode::kEager) return 0;
  const int32_t rows = options.max_tokens_per_step;
  return std::max(Floats(rows, std::max(config.hidden_dim, config.max_ffn_dim())),
                  Floats(NumExpertRows(config, rows), config.experts.ffn_dim));
}

size_t Fp8ScaleBytes(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options) {
  if (!HasFp8(resident) || options.fp8.recipe == Fp8Recipe::kPerToken) return 0;
  const bool delayed = options.fp8.recipe == Fp8Recipe::kDelayed;
  const size_t rows = delayed ? 2 + static_cast<size_t>(options.fp8.amax_history_len) : 1;
  return rows * static_cast<size_t>(NumInputs(config)) * sizeof(float);
}

// Room for the lists of the longest row, and for a mask of every sequence: rows that need more wait for the device.
size_t SampleRowBytes(const ModelConfig& config, const EngineOptions& options) {
  const size_t masks =
      static_cast<size_t>(options.max_sequences) * static_cast<size_t>(kernels::MaskWords(config.vocab_size));
  const size_t words =
      masks + MaxEditWords(config.vocab_size, ContextLimit(config, options), config.eos_token_ids.size());
  return kMaxLogitRows * sizeof(kernels::SampleRow) + words * sizeof(uint32_t);
}

size_t WorkspaceBytes(const ModelConfig& config, const std::vector<Precision>& resident, const kernels::Device& device,
                      const EngineOptions& options, const MemoryPlan& memory) {
  size_t most =
      config.is_encoder() ? 0 : device.ops->sample_workspace(device.context, kMaxLogitRows, config.vocab_size);
  const int32_t gathered = config.attention.gathered_keys(memory.max_context_tokens);
  for (Precision precision : resident) {
    const kernels::DType dtype = KvLayoutOf(config, precision, memory.kv_fp8).dtype;
    for (const kernels::AttentionTraits& traits : AttentionTraitsOf(config, dtype)) {
      const kernels::PagedAttentionPlan plan{
          .traits = traits,
          .max_query_tokens = std::min(options.max_tokens_per_step, memory.max_context_tokens),
          .max_kv_tokens = std::max(memory.max_context_tokens, gathered),
          .selected_keys = gathered};
      for (kernels::AttentionBackend backend : kernels::kAutoOrder) {
        if (!options.enabled(backend)) continue;
        if (!device.ops->supports_attention(device.context, backend, traits, nullptr)) continue;
        most = std::max(most, device.ops->paged_attention_workspace(device.context, backend, plan));
      }
    }
  }
  return most;
}

// Pages and states, which share the KV memory; of all ranks of a divided model as many.
struct KvCounts {
  int32_t pages;
  int32_t state_slots;
};

absl::StatusOr<KvCounts> CountKv(const ModelConfig& config, const std::vector<Precision>& resident,
                                 const EngineOptions& options, int32_t num_ranks) {
  const size_t state_bytes = StateBytesOf(config, num_ranks);
  const size_t page_bytes = PageBytesOf(config, resident, options, num_ranks);
  const auto num_groups = static_cast<size_t>(KvGroupsOf(config).count());
  if (state_bytes > 0 && options.kv_memory_bytes < state_bytes + num_groups * page_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the KV cache of ", options.kv_memory_bytes, " bytes holds no sequence: its state takes ",
                     state_bytes, " bytes and its first pages ", num_groups * page_bytes, " (", kKvKey, ")"));
  }
  const int32_t slots = StateSlotsIn(config, resident, options, options.kv_memory_bytes, num_ranks);
  const size_t slot_bytes = static_cast<size_t>(slots) * state_bytes;
  const size_t num_pages = (options.kv_memory_bytes - slot_bytes) / page_bytes;
  if (num_pages < num_groups || num_pages > static_cast<size_t>(INT32_MAX)) {
    return absl::ResourceExhaustedError(absl::StrCat("the KV cache of ", options.kv_memory_bytes, " bytes holds ",
                                                     num_pages, " pages of ", page_bytes, " bytes; it needs ",
                                                     num_groups, " to 2^31 - 1 (", kKvKey, ")"));
  }
  return KvCounts{static_cast<int32_t>(num_pages), slots};
}

void PlanKv(const ModelConfig& config, const std::vector<Precision>& resident, const KvCounts& counts,
            MemoryPlan* plan) {
  plan->kv_groups = KvGroupsOf(config);
  plan->kv_shapes = KvShapesOf(config);
  plan->kv_places = KvPlacesOf(config);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    plan->attention_chunk = std::max(plan->attention_chunk, config.attention.chunk(layer));
  }
  plan->num_pages = counts.pages;
  plan->num_state_slots = counts.state_slots;
  for (Precision precision : resident) {
    const int32_t per_page = KvLayoutOf(config, precision, plan->kv_fp8).tokens_per_page;
    plan->max_pages_per_sequence =
        std::max(plan->max_pages_per_sequence, (plan->max_context_tokens + per_page - 1) / per_page);
  }
  const size_t page_bytes = KvLayoutOf(config, resident.front(), plan->kv_fp8).page_bytes;
  plan->bytes[static_cast<size_t>(BufferId::kKvPool)] = static_cast<size_t>(counts.pages) * page_bytes;
  plan->bytes[static_cast<size_t>(BufferId::kState)] = static_cast<size_t>(counts.state_slots) * StateBytesOf(config);
}

// Steps of an encoder, of a model with states, of one that runs unfused and of ranks that wait for each other on the
// host are not those of one recording.
void PlanGraphs(const ModelConfig& config, const kernels::Device& device, const EngineOptions& options,
                MemoryPlan* plan) {
  const bool waits = config.num_ranks > 1 && device.ops->link_ranks == nullptr;
  if (config.is_encoder() || config.is_recurrent() || waits) return;
  if (options.execution == ExecutionMode::kEager || !device.ops->supports_graphs(device.context)) return;
  plan->num_graphs = kMaxGraphs;
  plan->bytes[static_cast<size_t>(BufferId::kGraphs)] = kMaxGraphs * GraphBytes(config.num_layers);
}

// What a rank has in addition, and what it uses of rank 0's; linked ranks have copies, and gather embeddings apart.
void PlanRankBuffers(const ModelConfig& config, bool linked, const EngineOptions& options, MemoryPlan* plan) {
  const int32_t tokens = options.max_tokens_per_step;
  const bool sums_apart = config.has_experts() || options.execution == ExecutionMode::kEager;
  const auto bytes = [plan](BufferId id) -> size_t& { return plan->bytes[static_cast<size_t>(id)]; };
  const size_t columns = RankColumnBytes(config, tokens);
  plan->rank_sum_offset = columns / sizeof(float);
  bytes(BufferId::kRankColumns) = columns + Floats(tokens, sums_apart ? config.part(config.hidden_dim).count : 0);
  const size_t gathered = std::max(GatheredBytes(config, tokens), linked ? Floats(tokens, config.hidden_dim) : 0);
  if (linked) plan->first_token = config.part(config.vocab_size).first;
  if (linked || config.rank == 0) {
    bytes(BufferId::kGathered) = 2 * gathered;
    return;
  }
  for (const BufferId shared :
       {BufferId::kHidden, BufferId::kLayerInputs, BufferId::kTerm, BufferId::kLogits, BufferId::kSampled}) {
    bytes(shared) = 0;
  }
  if (!config.is_encoder()) {
    bytes(BufferId::kSampleRows) = kMaxLogitRows * sizeof(kernels::SampleRow);  // without lists: rank 0 samples
  }
  bytes(BufferId::kKeptRows) = Floats(plan->max_kept_rows, config.attention.query_features());
}

// Whether steps are planned over tokens that the device has not drawn yet: where it computes while the host goes on. A
// row that turns out to be in vain must change nothing: no state of a recurrent model is behind it.
bool TakesDrawnTokens(const ModelConfig& config, const kernels::Device& device, const EngineOptions& options) {
  const bool overlaps =
      options.steps_in_flight == 0 ? device.ops->kind == kernels::DeviceKind::kCuda : options.steps_in_flight == 2;
  return overlaps && options.plan_ahead && !config.is_encoder() && !config.is_recurrent() && config.num_ranks == 1 &&
         config.num_predictors == 0;
}

absl::StatusOr<MemoryPlan> PlanBuffers(const ModelConfig& config, const std::vector<Precision>& resident,
                                       const kernels::Device& device, const EngineOptions& options,
                                       const absl::StatusOr<KvCounts>& counts) {
  MemoryPlan plan;
  plan.max_context_tokens = ContextLimit(config, options);
  plan.max_tokens_per_step = options.max_tokens_per_step;
  plan.max_sequences = options.max_sequences;
  plan.max_kept_rows = config.is_encoder() ? options.max_sequences : options.max_tokens_per_step;
  plan.deterministic = options.deterministic;
  plan.takes_drawn_tokens = TakesDrawnTokens(config, device, options);
  plan.steps_in_flight = options.steps_in_flight > 0 ? options.steps_in_flight : plan.takes_drawn_tokens ? 2 : 1;
  plan.predicts = config.num_predictors > 0;
  if (!config.rotary.axes.empty()) plan.image_rotation = config.rotary;
  if (config.is_encoder() && (config.is_recurrent() || config.attention.is_compressed())) {
    return absl::FailedPreconditionError(absl::StrCat(
        config.architecture, config.is_recurrent() ? " has recurrent layers" : " has entries of groups of tokens",
        ", which are served in decoders alone: it cannot embed texts"));
  }
  plan.kv_fp8 = options.kv_fp8 && HasFp8(resident);
  if (plan.kv_fp8 && config.attention.values_in_keys()) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].kv_cache.fp8 is true, but ", config.architecture,
                     " keeps one latent row of a token, whose pages are not E4M3; set it to false"));
  }
  if (!counts.ok()) return counts.status();
  PlanKv(config, resident, *counts, &plan);
  if (plan.predicts) plan.predictor_group = KvPlacesOf(config).back().group;
  const auto num_groups = static_cast<size_t>(plan.kv_groups.count());
  const int32_t tokens = options.max_tokens_per_step;
  const auto set = [&plan](BufferId id, size_t bytes) { plan.bytes[static_cast<size_t>(id)] = bytes; };
  set(BufferId::kHidden, Floats(tokens, config.hidden_dim));
  set(BufferId::kQkv, Floats(tokens, std::max({config.max_mixer_inputs(), config.classifier.num_labels,
                                               config.image.patch_inputs(), config.image.out_features_per_patch()})));
  const int32_t normed_columns = SharesMambaNorm(config) ? config.undivided().mamba.output_features() : 0;
  set(BufferId::kAttention, Floats(tokens, std::max(config.max_mixer_outputs(), normed_columns)));
  set(BufferId::kGate, config.attention.output_gate ? Floats(tokens, config.attention.query_features()) : 0);
  set(BufferId::kMlp, MlpBytes(config, resident, device, tokens));
  set(BufferId::kLayerInputs, Floats(tokens, config.layer_input_features()));
  set(BufferId::kTerm, config.norm.has_post() ? Floats(tokens, config.hidden_dim) : 0);
  set(BufferId::kActivation, ActivationBytes(config, resident, device, tokens));
  set(BufferId::kKeptRows, Floats(plan.max_kept_rows, config.hidden_dim + config.attention.query_features()));
  set(BufferId::kExperts, ExpertBufferBytes(config, tokens));
  set(BufferId::kLatent, LatentBufferBytes(config, tokens));
  set(BufferId::kIndexer, IndexerBufferBytes(config, tokens, plan.max_context_tokens));
  set(BufferId::kCompressed, CompressedBufferBytes(config, tokens, plan.max_context_tokens));
  set(BufferId::kStreams, StreamBufferBytes(config, tokens));
  set(BufferId::kDelta, DeltaBufferBytes(config, tokens));
  set(BufferId::kMamba, MambaBufferBytes(config, tokens));
  set(BufferId::kPredictor, Floats(PredictorBufferFloats(config, tokens), 1));
  if (plan.predicts) {
    set(BufferId::kPredictorHidden,
        Floats(HiddenRows::NumRows(plan.steps_in_flight, tokens, plan.max_sequences), config.hidden_dim));
  }
  set(BufferId::kUnfused, UnfusedBytes(config, options));
  if (options.adapters.max_adapters > 0) {
    const auto of_experts = static_cast<int32_t>(NumExpertRows(config, tokens));
    set(BufferId::kAdapterInput, std::max(Floats(tokens, std::max(config.hidden_dim, config.max_ffn_dim())),
                                          Floats(of_experts, std::max(config.expert_dim(), config.experts.ffn_dim))));
    set(BufferId::kAdapterHidden,
        Floats(std::max(tokens, of_experts), int64_t{AdapterRanks(config.num_ranks)} * options.adapters.max_rank));
  }
  set(BufferId::kFp8Scales, Fp8ScaleBytes(config, resident, options));
  set(BufferId::kRotary, Floats(tokens, config.rotary.dims_before(config.rotary.count())));
  set(BufferId::kFrequencies, config.position_constants().size() * sizeof(float));
  set(BufferId::kIndices,
      (5 + num_groups + (plan.predicts ? kPredictorArrays : 0)) * static_cast<size_t>(tokens) * sizeof(int32_t));
  // Of a recurrent model in addition those of the parts in which its rows go through states (StatePart); of one with
  // chunks of positions those of all rows and of the head's, cut at the chunks' borders.
  const int64_t num_spans = int64_t{kSpansPerSequence} * options.max_sequences + (config.is_recurrent() ? tokens : 0) +
                            (plan.attention_chunk > 0 ? 2 * tokens : 0);
  set(BufferId::kSpans, static_cast<size_t>(num_spans) * sizeof(kernels::SequenceSpan));
  set(BufferId::kPageTable, num_groups * static_cast<size_t>(options.max_sequences) *
                                static_cast<size_t>(plan.max_pages_per_sequence) * sizeof(int32_t));
  set(BufferId::kLogits, Floats(kMaxLogitRows, config.vocab_size));
  if (!config.is_encoder()) {
    set(BufferId::kSampleRows, SampleRowBytes(config, options));
    const int64_t sampled = plan.takes_drawn_tokens ? int64_t{plan.steps_in_flight} * tokens : kMaxLogitRows;
    set(BufferId::kSampled, static_cast<size_t>(sampled) * sizeof(kernels::SampledToken));
  }
  set(BufferId::kWorkspace, WorkspaceBytes(config, resident, device, options, plan));
  PlanGraphs(config, device, options, &plan);
  return plan;
}

}  // namespace

size_t MemoryPlan::total() const {
  size_t sum = 0;
  for (size_t part : bytes) sum += part;
  return sum;
}

int32_t ContextLimit(const ModelConfig& config, const EngineOptions& options) {
  return options.max_context_tokens > 0 ? std::min(options.max_context_tokens, config.max_context) : config.max_context;
}

absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                      const kernels::Device& device, const EngineOptions& options) {
  return PlanBuffers(config, resident, device, options, CountKv(config, resident, options, 1));
}

absl::StatusOr<std::vector<MemoryPlan>> PlanRanks(const ModelConfig& config, int32_t num_ranks,
                                                  const std::vector<Precision>& resident, const kernels::Device& device,
                                                  const EngineOptions& options) {
  const absl::StatusOr<KvCounts> counts = CountKv(config, resident, options, num_ranks);
  std::vector<MemoryPlan> plans;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const ModelConfig of_rank = RankConfig(config, rank, num_ranks);
    absl::StatusOr<MemoryPlan> plan = PlanBuffers(of_rank, resident, device, options, counts);
    if (!plan.ok()) return plan.status();
    if (num_ranks > 1) PlanRankBuffers(of_rank, device.ops->link_ranks != nullptr, options, &*plan);
    plans.push_back(*std::move(plan));
  }
  return plans;
}

MemoryPlan SumOf(const std::vector<MemoryPlan>& ranks) {
  MemoryPlan sum = ranks.front();
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < sum.bytes.size(); ++i) sum.bytes[i] += ranks[rank].bytes[i];
  }
  return sum;
}

absl::Status CheckFits(const MemoryPlan& plan, size_t available_bytes) {
  if (plan.total() <= available_bytes) return absl::OkStatus();
  const auto largest = std::max_element(plan.bytes.begin(), plan.bytes.end());
  const BufferTraits& traits = Traits(static_cast<BufferId>(largest - plan.bytes.begin()));
  return absl::ResourceExhaustedError(absl::StrCat("the runtime needs ", plan.total(), " bytes beside the weights; ",
                                                   available_bytes, " are available. Largest part: ", traits.name,
                                                   " with ", *largest, " bytes (", traits.key, ")"));
}

std::string Describe(const MemoryPlan& plan) {
  std::string text;
  for (int i = 0; i < kNumBuffers; ++i) {
    const BufferTraits& traits = Traits(static_cast<BufferId>(i));
    if (plan[traits.id] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", traits.name, " ", plan[traits.id]);
  }
  absl::StrAppend(&text, "; ", plan.total(), " bytes");
  return text;
}

}  // namespace dunlin::engine
