// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/model_work.h"

#include <algorithm>
#include <cmath>

#include "engine/cache/page.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/profiles.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/options.h"

namespace dunlin::tools::bench {
namespace {

using engine::MixerKind;
using engine::ModelConfig;

double WeightElementBytes(const engine::ExecutionProfile& profile) {
  return BytesPerElement(Traits(profile.precision).format);
}

double HeadParameters(const ModelConfig& config) {
  return config.is_encoder() ? 0.0 : static_cast<double>(config.vocab_size) * config.hidden_dim;
}

// Operations of a layer's attention, for the (query, key) pairs of one head; 0 of a layer that does not attend. Sliding
// windows are ignored: none of the benched models has one shorter than its context.
double AttentionFlops(const ModelConfig& config, int32_t layer, double pairs) {
  if (!config.attends(layer)) return 0.0;
  const engine::HeadShape heads = config.attention.heads(layer);
  const int32_t value_dim = config.attention.is_latent() ? config.attention.value_dim() : heads.head_dim;
  return 2.0 * pairs * (heads.head_dim + value_dim) * heads.num_heads;
}

// Operations of a recurrent layer for a token: its convolution, and the products of its heads' states with a key, a
// query and (of a delta net) a change.
double StateFlops(const ModelConfig& config, int32_t layer) {
  const auto products = [](double rows, double columns, double heads) { return heads * rows * columns; };
  switch (config.mixer(layer)) {
    case MixerKind::kAttention:
    case MixerKind::kNone:
      return 0.0;
    case MixerKind::kShortConv:
      return 2.0 * config.short_conv.taps * config.short_conv.channels;
    case MixerKind::kDelta: {
      const kernels::DeltaShape& shape = config.delta.shape;
      return 2.0 * config.delta.conv_taps * config.delta.channels() +
             6.0 * products(shape.key_dim, shape.value_dim, shape.value_heads);
    }
    case MixerKind::kParallel:
    case MixerKind::kMamba: {
      const kernels::SsmShape& shape = config.mamba.shape;
      return 2.0 * config.mamba.conv_taps * config.mamba.channels() +
             4.0 * products(shape.state_dim, shape.head_dim, shape.num_heads);
    }
  }
  return 0.0;
}

// Parameters of an attention layer: of what makes queries, keys and values.
double QkvParameters(const ModelConfig& config, int32_t layer) {
  const double hidden = config.hidden_dim;
  const engine::LatentAttentionSpec& latent = config.attention.latent;
  if (!config.attention.values_in_keys()) return hidden * config.attention.qkv_features(layer);
  const double rank = latent.query_rank;
  const double query = (rank > 0 ? rank : hidden) * config.attention.latent_query_features() + rank * hidden;
  const double rows = config.attention.compressed_row_features(layer);  // of entries
  return hidden * (config.attention.head_dim + rows) + query +
         static_cast<double>(config.attention.num_heads) * latent.plain_dim * latent.kv_rank;
}
// Parameters of what a layer multiplies its input with to mix tokens.
double MixerParameters(const ModelConfig& config, int32_t layer) {
  const double hidden = config.hidden_dim;
  switch (config.mixer(layer)) {
    case MixerKind::kAttention:
      return QkvParameters(config, layer);
    case MixerKind::kNone:
      return 0.0;
    case MixerKind::kShortConv:
      return hidden * config.short_conv.input_features();
    case MixerKind::kDelta:  // two numbers of each head beside the fused projection
      return hidden * (config.delta.input_features() + 2.0 * config.delta.shape.value_heads);
    case MixerKind::kMamba:
      return hidden * config.mamba.input_features();
    case MixerKind::kParallel:
      return QkvParameters(config, layer) + hidden * config.mamba.input_features();
  }
  return 0.0;
}
// Parameters of the matrix after the mixing.
double OutputParameters(const ModelConfig& config, int32_t layer) {
  const double hidden = config.hidden_dim;
  switch (config.mixer(layer)) {
    case MixerKind::kAttention: {
      const double value_matrices = static_cast<double>(config.attention.latent.kv_rank) *
                                    config.attention.latent.value_dim * config.attention.num_heads;
      const double of_groups =
          static_cast<double>(config.attention.out_group_features()) * config.attention.compressed.out_features();
      return value_matrices + of_groups + hidden * config.attention.output_features(layer);
    }
    case MixerKind::kNone:
      return 0.0;
    case MixerKind::kShortConv:
      return hidden * config.short_conv.channels;
    case MixerKind::kDelta:
      return hidden * config.delta.output_features();
    case MixerKind::kMamba:
      return hidden * config.mamba.output_features();
    case MixerKind::kParallel:
      return hidden * (config.attention.output_features(layer) + config.mamba.output_features());
  }
  return 0.0;
}
double MlpParameters(const ModelConfig& config, double dim, int32_t ffn_dim) {
  return dim * (config.mlp.up_features(ffn_dim) + ffn_dim);
}
// num_experts: of a layer that has experts.
double ParametersAfterMixing(const ModelConfig& config, int32_t layer, double num_experts) {
  const double hidden = config.hidden_dim;
  const double mixing = OutputParameters(config, layer) + 2.0 * hidden * config.layer_inputs.width;
  if (!config.has_mlp(layer)) return mixing;
  const double mlp = MlpParameters(config, hidden, config.mlp.dim_of(layer));
  if (!config.experts.in_layer(layer)) return mixing + mlp;
  return mixing + (config.experts.beside_mlp ? mlp : 0.0) + hidden * config.experts.router_features() +
         2.0 * hidden * config.experts.latent_dim + MlpParameters(config, hidden, config.experts.shared_ffn_dim) +
         num_experts * MlpParameters(config, config.expert_dim(), config.experts.ffn_dim);
}

// The experts that `tokens` tokens are sent to, on average over routers that prefer none.
double ExpertsOf(const ModelConfig& config, double tokens) {
  if (!config.has_experts()) return 0.0;
  const double others =
      1.0 - static_cast<double>(config.experts.routing.num_chosen) / config.experts.routing.num_experts;
  return config.experts.routing.num_experts * (1.0 - std::pow(others, tokens));
}

// Of the projection that makes per-layer embeddings of a token's embedding.
double InputParameters(const ModelConfig& config) {
  return static_cast<double>(config.hidden_dim) * config.layer_input_features();
}

// Parameters that a step of `tokens` tokens reads, without the head.
double ParametersRead(const ModelConfig& config, double tokens) {
  double sum = InputParameters(config);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    sum += MixerParameters(config, layer) + ParametersAfterMixing(config, layer, ExpertsOf(config, tokens));
  }
  return sum;
}

}  // namespace

absl::StatusOr<engine::ExecutionProfile> ProfileOf(const engine::Model& model, engine::Precision precision,
                                                   std::optional<engine::AttentionBackend> backend) {
  const engine::ProfileTable table(model.config(), {precision}, *model.device(), engine::EngineOptions(),
                                   model.own_precision(), model.int8_inputs());
  engine::ExecutionChoice choice;
  choice.attention_backend = backend;
  choice.precision = precision;
  return table.Resolve(choice);
}

std::string NameOf(std::optional<engine::AttentionBackend> backend) {
  return backend.has_value() ? Name(*backend) : "auto";
}

engine::EngineOptions OptionsWithOnly(engine::AttentionBackend backend) {
  engine::EngineOptions options;
  options.attention_backends.reset();
  options.Enable(backend, true);
  return options;
}

int32_t PagesOf(const ModelConfig& config, const engine::ExecutionProfile& profile, int32_t tokens) {
  const auto layout = engine::KvLayoutOf(config, profile.precision);
  return engine::PagesFor(tokens, layout.tokens_per_page) * engine::KvGroupsOf(config).count();
}

engine::EngineOptions OptionsFor(const ModelConfig& config, const engine::ExecutionProfile& profile, int32_t batch,
                                 int32_t tokens) {
  engine::EngineOptions options = OptionsWithOnly(profile.attention_backend);
  options.max_sequences = batch;
  options.max_tokens_per_step = std::max(kStepTokens, batch);
  options.max_context_tokens = tokens;
  const size_t page_bytes = engine::KvLayoutOf(config, profile.precision).page_bytes;
  const auto pages = static_cast<size_t>(PagesOf(config, profile, tokens));
  const size_t bytes = static_cast<size_t>(batch) * (pages * page_bytes + engine::StateBytesOf(config));
  options.kv_memory_bytes = config.is_recurrent() ? 2 * bytes : bytes;
  return options;
}

double LayerParameters(const ModelConfig& config) {
  return ParametersRead(config, 1.0);
}

Work PrefillWork(const ModelConfig& config, const engine::ExecutionProfile& profile, int32_t first, int32_t count,
                 int32_t sampled) {
  const double pairs = SeenPairs(count, first + count, !config.is_encoder());
  const int32_t kept = config.is_encoder() ? count : sampled;
  const double kept_pairs = config.is_encoder() ? pairs : SeenPairs(kept, first + count, true);
  const int32_t last = config.last_storing_layer();  // after whose K and V only sampled rows of a decoder go on
  const double head = HeadParameters(config);
  double products = head * sampled + InputParameters(config) * count;
  double read = (sampled > 0 ? head : 0.0) + InputParameters(config);
  double mixing = 0.0;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const int32_t rows = layer <= last ? count : kept;
    const int32_t rows_after = layer < last ? count : kept;
    products += MixerParameters(config, layer) * rows +
                ParametersAfterMixing(config, layer, ExpertsOf(config, 1.0)) * rows_after;
    if (rows > 0) read += MixerParameters(config, layer);
    if (rows_after > 0) read += ParametersAfterMixing(config, layer, ExpertsOf(config, count));
    mixing += AttentionFlops(config, layer, layer < last ? pairs : kept_pairs) + count * StateFlops(config, layer);
  }
  return {
      .flops = 2.0 * products + mixing, .bytes = read * WeightElementBytes(profile), .peak = PeakOf(profile.precision)};
}

Work PromptWork(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t prompt_tokens,
                int32_t step_tokens) {
  Work work{.flops = 0.0, .bytes = 0.0, .peak = PeakOf(profile.precision)};
  for (int32_t first = 0; first < prompt_tokens; first += step_tokens) {
    const int32_t count = std::min(step_tokens, prompt_tokens - first);
    const Work chunk = PrefillWork(config, profile, first, count, first + count == prompt_tokens ? 1 : 0);
    work.flops += chunk.flops;
    work.bytes += chunk.bytes;
  }
  return work;
}

Work DecodeWork(const ModelConfig& config, const engine::ExecutionProfile& profile, int32_t sequences, double context) {
  const double parameters = LayerParameters(config) + HeadParameters(config);
  const double read = ParametersRead(config, sequences) + HeadParameters(config);
  const auto layout = engine::KvLayoutOf(config, profile.precision, profile.kv_fp8);
  const double token_bytes = engine::KvGroupsOf(config).count() * static_cast<double>(kernels::KvBytesPerToken(layout));
  const double state_bytes = 2.0 * static_cast<double>(engine::StateBytesOf(config));  // read and written
  double mixing = 0.0;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    mixing += AttentionFlops(config, layer, context) + StateFlops(config, layer);
  }
  return {.flops = sequences * (2.0 * parameters + mixing),
          .bytes = read * WeightElementBytes(profile) + sequences * (context * token_bytes + state_bytes),
          .peak = PeakOf(profile.precision)};
}

}  // namespace dunlin::tools::bench
