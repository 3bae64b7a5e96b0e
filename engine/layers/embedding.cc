// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/embedding.h"

#include "engine/layers/decoder_layer.h"
#include "engine/layers/layer_inputs.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {

using kernels::DeviceOps;

float RoundedScale(float scale, Precision precision) {
  if (precision == Precision::kFp32) return scale;
  if (precision == Precision::kFp16) return kernels::Fp16ToFloat(kernels::FloatToFp16(scale));
  return kernels::Bf16ToFloat(kernels::FloatToBf16(scale));
}

namespace {

// Whether rotations by the places of images, if the model has them, are all that reads a token's position.
bool OnlyRotatesByPosition(const ModelConfig& config) {
  const AttentionSpec& attention = config.attention;
  if (config.rotary.axes.empty()) return true;
  return config.rotary.count() == 1 && attention.query_scale_beta == 0.0F && !attention.is_latent() &&
         !attention.is_compressed();
}

}  // namespace

bool TakesRows(const ModelConfig& config, int32_t num_ranks) {
  const EmbeddingSpec& embedding = config.embedding;
  const bool changed = embedding.learned_positions || embedding.num_token_types > 0 || config.has_embedding_norm();
  const bool reads_tokens = config.has_layer_inputs() || !config.experts.by_token.empty();
  return !config.is_encoder() && num_ranks == 1 && !changed && !reads_tokens && !config.has_streams() &&
         OnlyRotatesByPosition(config);
}

// The terms are added in transformers' order: word, type, position.
bool Embedding::Run() const {
  const ModelConfig& config = context_->config;
  const float scale = RoundedScale(config.embedding.scale, context_->profile.precision);
  const bool embedded = context_->divided() ? RunDivided(scale)
                                            : Gather("embedding", context_->weights.embedding,
                                                     context_->inputs.token_ids, false, scale) &&
                                                  CopyPromptRows() && AddTypesAndPositions() && NormSum();
  return embedded && FillRotaryTables() && CopyRotations() &&
         (!config.has_layer_inputs() || LayerInputs(context_).Fill());
}

bool Embedding::AddTypesAndPositions() const {
  const EmbeddingSpec& embedding = context_->config.embedding;
  const PrecisionWeights& weights = context_->weights;
  const PassInputs& inputs = context_->inputs;
  return (embedding.num_token_types == 0 ||
          Gather("token type embedding", weights.token_types, inputs.token_types, true, 1.0F)) &&
         (!embedding.learned_positions ||
          Gather("position embedding", weights.positions, inputs.positions, true, 1.0F));
}

// The pass before may still read the rows, and rank 0 its logits. Linked ranks gather apart from their copy of the
// stream, which the others write at the same time.
bool Embedding::RunDivided(float scale) const {
  static constexpr char kOp[] = "embedding";
  const ModelConfig& config = context_->config;
  const OwnTable table{&context_->weights.embedding, config.part(config.vocab_size), config.hidden_dim};
  float* rows = context_->linked() ? context_->buffers.gathered[0] : context_->rows.hidden;
  return Meet(context_, kOp) && GatherOwnRows(context_, kOp, table, scale, rows) &&
         ShareTokenRows(context_, kOp, rows, context_->rows.hidden, config.hidden_dim) && FinishDivided();
}

bool Embedding::FinishDivided() const {
  static constexpr char kOp[] = "embedding";
  const EmbeddingSpec& embedding = context_->config.embedding;
  const bool adds = embedding.num_token_types > 0 || embedding.learned_positions;
  const bool others_add = context_->config.rank > 0 && !context_->linked();
  if (adds && !((others_add || AddTypesAndPositions()) && MeetOverRows(context_, kOp))) return false;
  const Norm norm(context_, context_->weights.embedding_norm);
  if (!context_->post_norm()) return !embedding.norm || norm.RunInPlace("embedding norm");
  const Linear first = DecoderLayer::InputOf(context_, 0);
  return norm.Run("embedding norm", &first, RowsOf(*context_));
}

bool Embedding::Gather(const char* op, const kernels::PackedWeight& table, const int32_t* ids, bool accumulate,
                       float scale) const {
  const kernels::GatherRowsParams params{.weight = &table,
                                         .ids = ids,
                                         .out = context_->rows.hidden,
                                         .num_rows = context_->rows.count,
                                         .accumulate = accumulate,
                                         .scale = scale};
  return context_->Run(&DeviceOps::gather_rows, params, op);
}

// The host's memory is the request's again when each copy returns (DeviceOps::copy_to_device).
bool Embedding::CopyPromptRows() const {
  const kernels::Device& device = *context_->buffers.device;
  const int64_t columns = context_->config.hidden_dim;
  for (const RowRun& run : context_->inputs.row_runs) {
    const size_t bytes = static_cast<size_t>(run.num_rows * columns) * sizeof(float);
    float* const rows = context_->rows.hidden + run.first_row * columns;
    const auto copied = device.ops->copy_to_device(device.context, rows, run.values, bytes);
    if (!context_->Check(copied, "copy of a prompt's rows")) return false;
  }
  return true;
}

// A post-norm model normalises the sum, which makes the input of the first layer.
bool Embedding::NormSum() const {
  const Norm norm(context_, context_->weights.embedding_norm);
  if (context_->post_norm()) {
    const Linear first = DecoderLayer::InputOf(context_, 0);
    return norm.Run("embedding norm", &first, RowsOf(*context_));
  }
  return !context_->config.embedding.norm || norm.Run("embedding norm", context_->rows.hidden);
}

bool Embedding::FillRotaryTables() const {
  const ModelConfig& config = context_->config;
  const int32_t num_tokens = context_->rows.count;
  for (int32_t i = 0; i < config.rotary.count(); ++i) {
    const kernels::RotaryTableParams rotary{
        .positions = context_->inputs.positions,
        .inv_freq = context_->buffers.position_constants + config.rotary.dims_before(i) / 2,
        .attention_factor = config.rotary.attention_factor(i),
        .rotary_dim = config.rotary.dim_of(i),
        .cos_sin = context_->buffers.rotary + int64_t{config.rotary.dims_before(i)} * num_tokens,
        .num_tokens = num_tokens};
    if (!context_->Run(&DeviceOps::rotary_table, rotary, "rotary table")) return false;
  }
  return true;
}

bool Embedding::CopyRotations() const {
  const kernels::Device& device = *context_->buffers.device;
  const int64_t dim = context_->config.rotary.dim;
  for (const RowRun& run : context_->inputs.row_runs) {
    if (run.rotations == nullptr) continue;
    const size_t bytes = static_cast<size_t>(run.num_rows * dim) * sizeof(float);
    float* const rows = context_->buffers.rotary + run.first_row * dim;
    const auto copied = device.ops->copy_to_device(device.context, rows, run.rotations, bytes);
    if (!context_->Check(copied, "copy of an image's rotations")) return false;
  }
  return true;
}

}  // namespace dunlin::engine
