// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/expert_adapters.h"

#include <algorithm>

namespace dunlin::engine {

using kernels::DeviceOps;
using kernels::KernelStatus;

namespace {

// Of a call of add_low_rank, whose launcher looks for a task's use among all of them.
constexpr size_t kMaxUses = 64;

}  // namespace

void ExpertAdapters::Reserve(const ModelConfig& config, int32_t max_tokens, int32_t max_adapters) {
  if (!config.has_experts()) return;
  const auto rows = static_cast<size_t>(NumExpertRows(config, max_tokens));
  experts_.resize(static_cast<size_t>(config.experts.routing.num_experts));
  batch_rows_.reserve(rows);
  row_uses_.reserve(static_cast<size_t>(max_tokens));
  rows_.reserve(rows);
  ends_.reserve(static_cast<size_t>(max_adapters));
  parts_.reserve(rows);
  list_.reserve(kMaxUses);
}

bool ExpertAdapters::Collect(LayerContext* context, const ExpertBuffers& buffers) {
  if (!Read(context, buffers)) return false;
  MarkUses(*context);
  rows_.clear();
  parts_.clear();
  for (size_t expert = 0; expert < experts_.size(); ++expert) Divide(static_cast<int32_t>(expert));
  return true;
}

bool ExpertAdapters::Read(LayerContext* context, const ExpertBuffers& buffers) {
  const kernels::Device& device = *context->buffers.device;
  batch_rows_.resize(static_cast<size_t>(NumExpertRows(context->config, context->rows.count)));
  const KernelStatus experts = device.ops->copy_to_host(device.context, experts_.data(), buffers.experts,
                                                        experts_.size() * sizeof(kernels::ExpertRows));
  if (!context->Check(experts, "copy of the routing")) return false;
  const KernelStatus rows =
      device.ops->copy_to_host(device.context, batch_rows_.data(), buffers.rows, batch_rows_.size() * sizeof(int32_t));
  return context->Check(rows, "copy of the routing") &&
         context->Check(device.ops->synchronize(device.context), "copy of the routing");
}

void ExpertAdapters::MarkUses(const LayerContext& context) {
  const AdapterRows& adapters = *context.inputs.adapters;
  uses_ = context.rows.picked != nullptr ? adapters.kept : adapters.all;
  row_uses_.assign(static_cast<size_t>(context.rows.count), -1);
  for (size_t u = 0; u < uses_.size(); ++u) {
    for (int32_t i = 0; i < uses_[u].num_rows; ++i) {
      row_uses_[static_cast<size_t>(uses_[u].rows[i])] = static_cast<int32_t>(u);
    }
  }
}

// Counts, then places. rows_ has room for all, so that parts may point into it.
void ExpertAdapters::Divide(int32_t expert) {
  const kernels::ExpertRows& group = experts_[static_cast<size_t>(expert)];
  const auto use_of = [this](int32_t row) {
    return row_uses_[static_cast<size_t>(batch_rows_[static_cast<size_t>(row)])];
  };
  ends_.assign(uses_.size(), 0);
  for (int32_t row = group.first; row < group.first + group.count; ++row) {
    if (use_of(row) >= 0) ++ends_[static_cast<size_t>(use_of(row))];
  }
  auto next = static_cast<int32_t>(rows_.size());
  for (size_t u = 0; u < uses_.size(); ++u) {
    if (ends_[u] > 0) parts_.push_back({uses_[u].adapter, expert, rows_.data() + next, ends_[u]});
    const int32_t count = ends_[u];
    ends_[u] = next;
    next += count;
  }
  rows_.resize(static_cast<size_t>(next));
  for (int32_t row = group.first; row < group.first + group.count; ++row) {
    if (use_of(row) >= 0) rows_[static_cast<size_t>(ends_[static_cast<size_t>(use_of(row))]++)] = row;
  }
}

bool ExpertAdapters::Add(LayerContext* context, Projection projection, const float* in, int32_t columns,
                         const Columns& out) {
  kernels::AddLowRankParams params{.in = in,
                                   .in_stride = columns,
                                   .in_features = columns,
                                   .uses = nullptr,
                                   .num_uses = 0,
                                   .out = out.data,
                                   .out_stride = out.stride,
                                   .scratch = context->buffers.adapter_hidden};
  list_.clear();
  for (const Part& part : parts_) {
    const std::span pairs = part.adapter->expert_pairs(projection, context->layer, part.expert, context->config.rank);
    if (pairs.empty()) continue;
    list_.push_back({.pairs = pairs.data(),
                     .num_pairs = static_cast<int32_t>(pairs.size()),
                     .rows = part.rows,
                     .num_rows = part.num_rows});
    if (list_.size() == kMaxUses && !Flush(context, &params)) return false;
  }
  return Flush(context, &params);
}

bool ExpertAdapters::Flush(LayerContext* context, kernels::AddLowRankParams* params) {
  if (list_.empty()) return true;
  params->uses = list_.data();
  params->num_uses = static_cast<int32_t>(list_.size());
  const bool ran = context->Run(&DeviceOps::add_low_rank, *params, "adapters of experts");
  list_.clear();
  return ran;
}

}  // namespace dunlin::engine
