// SPDX-License-Identifier: Apache-2.0
// The fake device's operations of entries of groups of tokens, and of residual streams, which the CUDA device lacks.
#pragma once

#include "tests/kernels/loader/fake_recurrent.h"

namespace dunlin::kernels {

inline KernelStatus RotateHeads(DeviceContext* context, const RotateHeadsParams& params) {
  return Defer(context, &DeviceOps::rotate_heads, params,
               [](Translation& to_host, RotateHeadsParams& p) { to_host(&p.rows, &p.norm, &p.cos_sin); });
}

inline KernelStatus CompressKeys(DeviceContext* context, const CompressKeysParams& params) {
  return Defer(context, &DeviceOps::compress_keys, params, [](Translation& to_host, CompressKeysParams& p) {
    to_host(&p.rows, &p.bias, &p.norm, &p.inv_freq, &p.kv_pool, &p.row_place.page_table, &p.entries.place.page_table,
            &p.sequences);
  });
}

inline KernelStatus SelectEntries(DeviceContext* context, const SelectEntriesParams& params) {
  return Defer(context, &DeviceOps::select_entries, params, [](Translation& to_host, SelectEntriesParams& p) {
    to_host(&p.queries, &p.weights, &p.kv_pool, &p.entries.place.page_table, &p.sequences, &p.scores, &p.selected);
  });
}

inline KernelStatus CompressedAttention(DeviceContext* context, const CompressedAttentionParams& params) {
  return Defer(context, &DeviceOps::compressed_attention, params,
               [](Translation& to_host, CompressedAttentionParams& p) {
                 to_host(&p.window.query, &p.window.out, &p.window.kv_pool, &p.window.page_table, &p.window.sequences,
                         &p.window.sinks, &p.window.selection.bits, &p.window.workspace, &p.entries.place.page_table);
               });
}

inline KernelStatus ReadStreams(DeviceContext* context, const ReadStreamsParams& params) {
  return Defer(context, &DeviceOps::read_streams, params, [](Translation& to_host, ReadStreamsParams& p) {
    to_host(&p.streams, &p.mixes, &p.base, &p.scale, &p.out, &p.weights);
  });
}

inline KernelStatus WriteStreams(DeviceContext* context, const WriteStreamsParams& params) {
  return Defer(context, &DeviceOps::write_streams, params,
               [](Translation& to_host, WriteStreamsParams& p) { to_host(&p.streams, &p.output, &p.weights); });
}

}  // namespace dunlin::kernels
