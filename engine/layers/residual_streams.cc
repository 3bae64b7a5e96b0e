// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/residual_streams.h"

#include "engine/layers/buffer_cut.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

StreamBuffers PlaceStreams(const ModelConfig& config, int64_t tokens, void* memory, size_t* taken) {
  BufferCut cut(memory);
  const StreamBuffers buffers{.streams = cut.Take<float>(tokens * config.streams.count * config.hidden_dim),
                              .mixes = cut.Take<float>(tokens * config.stream_mixes()),
                              .weights = cut.Take<float>(tokens * kernels::StreamWeights(config.streams.count))};
  *taken = cut.taken();
  return buffers;
}

StreamBuffers StreamBuffersOf(const LayerContext& context) {
  size_t taken = 0;
  return PlaceStreams(context.config, context.buffers.max_tokens, context.buffers.streams, &taken);
}

}  // namespace

size_t StreamBufferBytes(const ModelConfig& config, int32_t max_tokens) {
  if (!config.has_streams()) return 0;
  size_t taken = 0;
  (void)PlaceStreams(config, max_tokens, nullptr, &taken);
  return taken;
}

ResidualStreams::ResidualStreams(LayerContext* context)
    : context_(context), spec_(context->config.streams), buffers_(StreamBuffersOf(*context)) {}

bool ResidualStreams::Begin() const {
  const int32_t columns = context_->config.hidden_dim;
  const kernels::CopyColumnsParams params{.in = context_->rows.hidden,
                                          .in_stride = columns,
                                          .in_block_stride = 0,
                                          .out = buffers_.streams,
                                          .out_stride = int64_t{spec_.count} * columns,
                                          .out_block_stride = columns,
                                          .num_rows = context_->rows.count,
                                          .num_blocks = spec_.count,
                                          .columns = columns};
  return context_->Run(&DeviceOps::copy_columns, params, "residual streams");
}

bool ResidualStreams::Read(const StreamWeights& weights, bool last) const {
  const int32_t count = context_->rows.count;
  const Linear mixes(context_, weights.mixes, kUnobservedInput);
  const kernels::ReadStreamsParams params{.streams = buffers_.streams,
                                          .mixes = buffers_.mixes,
                                          .base = weights.base,
                                          .scale = weights.scale,
                                          .norm_epsilon = context_->config.norm.epsilon,
                                          .epsilon = spec_.epsilon,
                                          .iterations = spec_.iterations,
                                          .out = context_->rows.hidden,
                                          .weights = last ? nullptr : buffers_.weights,
                                          .num_rows = count,
                                          .num_streams = spec_.count,
                                          .hidden_dim = context_->config.hidden_dim};
  return mixes.Quantize("streams", buffers_.streams, count) &&
         mixes.Run("stream weights", nullptr, buffers_.mixes, count) &&
         context_->Run(&DeviceOps::read_streams, params, "read of the streams");
}

bool ResidualStreams::Write() const {
  const kernels::WriteStreamsParams params{.streams = buffers_.streams,
                                           .output = context_->rows.hidden,
                                           .weights = buffers_.weights,
                                           .num_rows = context_->rows.count,
                                           .num_streams = spec_.count,
                                           .hidden_dim = context_->config.hidden_dim};
  return context_->Run(&DeviceOps::write_streams, params, "write of the streams");
}

}  // namespace dunlin::engine
