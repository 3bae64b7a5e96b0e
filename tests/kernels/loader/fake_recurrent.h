// SPDX-License-Identifier: Apache-2.0
// The fake device's operations of recurrent layers and of sparse attention, and workspaces.
#pragma once

#include <cstddef>

#include "tests/kernels/loader/fake_context.h"
#include "tests/kernels/loader/fake_translation.h"

namespace dunlin::kernels {

// Adds an operation of the CPU to the stream. translate(to_host, &params) gives its pointers the host's addresses.
template <typename Params, typename Translate>
KernelStatus Defer(DeviceContext* context, KernelStatus (*DeviceOps::*operation)(DeviceContext*, const Params&),
                   Params params, const Translate& translate) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  Translation to_host;
  translate(to_host, params);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  Of(context).stream.Add([operation, params] { return (Cpu().ops->*operation)(Cpu().context, params); });
  return KernelStatus::kOk;
}

inline KernelStatus CausalConv(DeviceContext* context, const CausalConvParams& params) {
  return Defer(context, &DeviceOps::causal_conv, params, [](Translation& to_host, CausalConvParams& p) {
    to_host(&p.in, &p.weight, &p.state.pool, &p.state.slots, &p.sequences, &p.out, &p.bias, &p.in_gate, &p.out_gate);
  });
}

inline KernelStatus DeltaScan(DeviceContext* context, const DeltaScanParams& params) {
  return Defer(context, &DeviceOps::delta_scan, params, [](Translation& to_host, DeltaScanParams& p) {
    to_host(&p.in, &p.gates, &p.rate, &p.dt_bias, &p.state.pool, &p.state.slots, &p.sequences, &p.out, &p.steps);
  });
}

inline KernelStatus SsmScan(DeviceContext* context, const SsmScanParams& params) {
  return Defer(context, &DeviceOps::ssm_scan, params, [](Translation& to_host, SsmScanParams& p) {
    to_host(&p.in, &p.step, &p.rate, &p.step_bias, &p.skip, &p.state.pool, &p.state.slots, &p.sequences, &p.out);
  });
}

inline KernelStatus GatedGroupNorm(DeviceContext* context, const GatedGroupNormParams& params) {
  return Defer(context, &DeviceOps::gated_group_norm, params, [](Translation& to_host, GatedGroupNormParams& p) {
    to_host(&p.in, &p.gate, &p.rows, &p.weight, &p.out);
  });
}

inline KernelStatus RowGate(DeviceContext* context, const RowGateParams& params) {
  return Defer(context, &DeviceOps::row_gate, params,
               [](Translation& to_host, RowGateParams& p) { to_host(&p.values, &p.gate, &p.rows); });
}

inline KernelStatus StoreIndexKeys(DeviceContext* context, const StoreIndexKeysParams& params) {
  return Defer(context, &DeviceOps::store_index_keys, params, [](Translation& to_host, StoreIndexKeysParams& p) {
    to_host(&p.queries, &p.keys, &p.cos_sin, &p.kv_pool, &p.token_page, &p.token_slot);
  });
}

inline KernelStatus SelectKeys(DeviceContext* context, const SelectKeysParams& params) {
  return Defer(context, &DeviceOps::select_keys, params, [](Translation& to_host, SelectKeysParams& p) {
    to_host(&p.queries, &p.weights, &p.kv_pool, &p.page_table, &p.sequences, &p.scores, &p.selected);
  });
}

inline size_t PagedAttentionWorkspace(const DeviceContext* /*context*/, AttentionBackend backend,
                                      const PagedAttentionPlan& plan) {
  return Cpu().ops->paged_attention_workspace(Cpu().context, backend, plan);
}

inline size_t DenseAttentionWorkspace(const DeviceContext* /*context*/, const DenseAttentionParams& params) {
  return Cpu().ops->dense_attention_workspace(Cpu().context, params);
}

}  // namespace dunlin::kernels
