// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/classifier.h"

#include "engine/layers/rank_rows.h"

namespace dunlin::engine {
namespace {

constexpr char kHead[] = "head";

}  // namespace

using kernels::DeviceOps;

bool Head::Run(int32_t first, int32_t count) const {
  const ModelConfig& config = context_->config;
  const KeptRows& kept = context_->inputs.kept;
  const float* hidden = context_->rows.hidden;
  const NormRows rows = kept.spans.count > 0 ? NormRows{hidden + int64_t{first} * config.hidden_dim, nullptr, count}
                                             : NormRows{hidden, kept.index + first, count};
  // Of several ranks the first one, which samples, may still read the logits of the rows before.
  return (first == 0 || !context_->divided() || Meet(context_, kHead)) &&
         Run(context_->weights.final_norm, context_->weights.head, rows, first);
}

bool Head::Run(const NormWeights& final_norm, const LinearWeights& weights, const NormRows& rows,
               int32_t first_kept) const {
  const ModelConfig& config = context_->config;
  const Linear head(context_, weights, HeadInputIndex(config));
  float* logits = context_->buffers.logits;
  const kernels::SoftcapParams cap{
      .values = logits, .cap = config.head.softcap, .num_rows = rows.count, .columns = config.vocab_size};
  if (!Norm(context_, final_norm).Run("final norm", &head, rows)) return false;
  const bool ran =
      context_->divided()
          ? RunDivided(head, rows.count, first_kept)
          : head.Run(kHead, nullptr, logits, rows.count) &&
                (first_kept < 0 || head.AddHeadAdapters(first_kept, rows.count, {logits, config.vocab_size}));
  const bool capped = config.head.softcap > 0.0F && config.rank == 0;  // of several ranks the first one samples
  return ran && (!capped || context_->Run(&DeviceOps::softcap, cap, "logit softcap"));
}

bool Head::RunDivided(const Linear& head, int32_t count, int32_t first_kept) const {
  const ModelConfig& config = context_->config;
  kernels::GemmParams params = head.Params(count);
  params.bias = head.bias();
  params.out = context_->buffers.logits + config.part(config.vocab_size).first;
  params.out_stride = config.vocab_size;
  return context_->Run(&DeviceOps::gemm, params, kHead) &&
         (first_kept < 0 || head.AddHeadAdapters(first_kept, count, {params.out, params.out_stride})) &&
         ShareColumns(context_, kHead, context_->buffers.logits, config.vocab_size, config.part(config.vocab_size),
                      count, 0);
}

Classifier::Classifier(LayerContext* context)
    : context_(context),
      dense_(context, context->weights.classifier_dense, HeadInputIndex(context->config)),
      out_(context, context->weights.classifier_out, HeadInputIndex(context->config)) {}

bool Classifier::Run(int32_t num_rows) const {
  float* rows = context_->rows.hidden;
  return dense_.Quantize("classifier input", rows, num_rows) &&
         dense_.Run("classifier dense", nullptr, rows, num_rows) && RunActivation(num_rows) &&
         out_.Run("classifier", nullptr, context_->buffers.qkv, num_rows);
}

bool Classifier::RunActivation(int32_t num_rows) const {
  const ModelConfig& config = context_->config;
  float* rows = context_->rows.hidden;
  if (!config.classifier.norm) {  // tanh is the soft cap of 1
    const kernels::SoftcapParams tanh{.values = rows, .cap = 1.0F, .num_rows = num_rows, .columns = config.hidden_dim};
    return context_->Run(&DeviceOps::softcap, tanh, "classifier tanh") &&
           out_.Quantize("classifier tanh", rows, num_rows);
  }
  kernels::Activation width{.columns = config.hidden_dim};
  const kernels::ActivateParams activate{.kind = config.classifier.activation,
                                         .gated = false,
                                         .in = rows,
                                         .out = &width,
                                         .num_rows = num_rows,
                                         .rows_out = rows};
  return context_->Run(&DeviceOps::activate, activate, "classifier activation") &&
         Norm(context_, context_->weights.classifier_norm).Run("classifier norm", &out_, {rows, nullptr, num_rows});
}

}  // namespace dunlin::engine
