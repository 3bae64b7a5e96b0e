// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/timed_device.h"

#include "tools/bench/timing.h"

namespace dunlin::tools::bench {
namespace {

using kernels::DeviceContext;
using kernels::DeviceOps;
using kernels::KernelStatus;

TimedDevice::State* StateOf(DeviceContext* context) {
  return reinterpret_cast<TimedDevice::State*>(context);
}
const kernels::Device& InnerOf(const DeviceContext* context) {
  return *reinterpret_cast<const TimedDevice::State*>(context)->inner;
}

template <OpKind kKind, typename Params, KernelStatus (*DeviceOps::*kOp)(DeviceContext*, const Params&)>
KernelStatus Timed(DeviceContext* context, const Params& params) {
  TimedDevice::State* state = StateOf(context);
  const DeviceOps& ops = *state->inner->ops;
  DeviceContext* inner = state->inner->context;
  if (!state->timed) return (ops.*kOp)(inner, params);
  const double begin = Now();
  KernelStatus status = (ops.*kOp)(inner, params);
  if (status == KernelStatus::kOk && state->waits) status = ops.synchronize(inner);
  state->seconds[static_cast<size_t>(kKind)] += Now() - begin;
  return status;
}

// The operations of a graph cannot be timed one by one.
bool SupportsGraphs(const DeviceContext* context) {
  const kernels::Device& inner = InnerOf(context);
  return !reinterpret_cast<const TimedDevice::State*>(context)->timed && inner.ops->supports_graphs(inner.context);
}

// An entry that is forwarded unchanged.
template <auto kOp>
struct Forwarded;
template <typename Result, typename... Args, Result (*DeviceOps::*kOp)(DeviceContext*, Args...)>
struct Forwarded<kOp> {
  static Result Call(DeviceContext* c, Args... args) { return (InnerOf(c).ops->*kOp)(InnerOf(c).context, args...); }
};
template <typename Result, typename... Args, Result (*DeviceOps::*kOp)(const DeviceContext*, Args...)>
struct Forwarded<kOp> {
  static Result Call(const DeviceContext* c, Args... args) {
    return (InnerOf(c).ops->*kOp)(InnerOf(c).context, args...);
  }
};

// Of entries of groups of tokens, and of residual streams.
void TimeStreams(DeviceOps* ops) {
  ops->rotate_heads = Timed<OpKind::kStoreKv, kernels::RotateHeadsParams, &DeviceOps::rotate_heads>;
  ops->compress_keys = Timed<OpKind::kStoreKv, kernels::CompressKeysParams, &DeviceOps::compress_keys>;
  ops->select_entries = Timed<OpKind::kAttention, kernels::SelectEntriesParams, &DeviceOps::select_entries>;
  ops->compressed_attention =
      Timed<OpKind::kAttention, kernels::CompressedAttentionParams, &DeviceOps::compressed_attention>;
  ops->read_streams = Timed<OpKind::kNorm, kernels::ReadStreamsParams, &DeviceOps::read_streams>;
  ops->write_streams = Timed<OpKind::kActivate, kernels::WriteStreamsParams, &DeviceOps::write_streams>;
}

// Entries without a context are copied from the inner table.
DeviceOps TimedOps(const DeviceOps& inner) {
  static_assert(sizeof(DeviceOps) == 72 * sizeof(void*), "forward a new entry that takes a context below");
  DeviceOps ops = inner;
  ops.prefill_matches_decode = Forwarded<&DeviceOps::prefill_matches_decode>::Call;
  ops.allocate = Forwarded<&DeviceOps::allocate>::Call;
  ops.release = Forwarded<&DeviceOps::release>::Call;
  ops.reserve = nullptr;  // what is measured has its memory from the start
  ops.back = nullptr;
  ops.copy_to_device = Forwarded<&DeviceOps::copy_to_device>::Call;
  ops.copy_to_host = Forwarded<&DeviceOps::copy_to_host>::Call;
  ops.allocate_host = Forwarded<&DeviceOps::allocate_host>::Call;
  ops.release_host = Forwarded<&DeviceOps::release_host>::Call;
  ops.synchronize = Forwarded<&DeviceOps::synchronize>::Call;
  ops.memory = Forwarded<&DeviceOps::memory>::Call;
  ops.create_event = Forwarded<&DeviceOps::create_event>::Call;
  ops.destroy_event = Forwarded<&DeviceOps::destroy_event>::Call;
  ops.record_event = Forwarded<&DeviceOps::record_event>::Call;
  ops.wait_event = Forwarded<&DeviceOps::wait_event>::Call;
  ops.supports_graphs = SupportsGraphs;
  ops.begin_graph = Forwarded<&DeviceOps::begin_graph>::Call;
  ops.end_graph = Forwarded<&DeviceOps::end_graph>::Call;
  ops.launch_graph = Forwarded<&DeviceOps::launch_graph>::Call;
  ops.destroy_graph = Forwarded<&DeviceOps::destroy_graph>::Call;
  ops.pack_weight = Forwarded<&DeviceOps::pack_weight>::Call;
  ops.gemm = Timed<OpKind::kGemm, kernels::GemmParams, &DeviceOps::gemm>;
  ops.gemm_fuses = Forwarded<&DeviceOps::gemm_fuses>::Call;
  ops.grouped_gemm = Timed<OpKind::kGemm, kernels::GroupedGemmParams, &DeviceOps::grouped_gemm>;
  ops.batched_gemm = Timed<OpKind::kGemm, kernels::BatchedGemmParams, &DeviceOps::batched_gemm>;
  ops.set_tuning = Forwarded<&DeviceOps::set_tuning>::Call;
  ops.gather_rows = Timed<OpKind::kGather, kernels::GatherRowsParams, &DeviceOps::gather_rows>;
  ops.norm = Timed<OpKind::kNorm, kernels::NormParams, &DeviceOps::norm>;
  ops.softcap = Timed<OpKind::kActivate, kernels::SoftcapParams, &DeviceOps::softcap>;
  ops.quantize = Timed<OpKind::kQuantize, kernels::QuantizeParams, &DeviceOps::quantize>;
  ops.activate = Timed<OpKind::kActivate, kernels::ActivateParams, &DeviceOps::activate>;
  ops.add = Timed<OpKind::kActivate, kernels::AddParams, &DeviceOps::add>;
  ops.copy_rows = Timed<OpKind::kGather, kernels::CopyRowsParams, &DeviceOps::copy_rows>;
  ops.copy_columns = Timed<OpKind::kGather, kernels::CopyColumnsParams, &DeviceOps::copy_columns>;
  ops.route_experts = Timed<OpKind::kActivate, kernels::RouteExpertsParams, &DeviceOps::route_experts>;
  ops.add_weighted_rows = Timed<OpKind::kActivate, kernels::AddWeightedRowsParams, &DeviceOps::add_weighted_rows>;
  ops.rotary_table = Timed<OpKind::kStoreKv, kernels::RotaryTableParams, &DeviceOps::rotary_table>;
  ops.rotate_and_store_kv = Timed<OpKind::kStoreKv, kernels::RotateAndStoreKvParams, &DeviceOps::rotate_and_store_kv>;
  ops.causal_conv = Timed<OpKind::kState, kernels::CausalConvParams, &DeviceOps::causal_conv>;
  ops.delta_scan = Timed<OpKind::kState, kernels::DeltaScanParams, &DeviceOps::delta_scan>;
  ops.ssm_scan = Timed<OpKind::kState, kernels::SsmScanParams, &DeviceOps::ssm_scan>;
  ops.gated_group_norm = Timed<OpKind::kNorm, kernels::GatedGroupNormParams, &DeviceOps::gated_group_norm>;
  ops.add_low_rank = Timed<OpKind::kGemm, kernels::AddLowRankParams, &DeviceOps::add_low_rank>;
  ops.row_gate = Timed<OpKind::kActivate, kernels::RowGateParams, &DeviceOps::row_gate>;
  ops.store_index_keys = Timed<OpKind::kAttention, kernels::StoreIndexKeysParams, &DeviceOps::store_index_keys>;
  ops.select_keys = Timed<OpKind::kAttention, kernels::SelectKeysParams, &DeviceOps::select_keys>;
  TimeStreams(&ops);
  ops.update_delayed_scaling = Forwarded<&DeviceOps::update_delayed_scaling>::Call;
  ops.supports_attention = Forwarded<&DeviceOps::supports_attention>::Call;
  ops.paged_attention_workspace = Forwarded<&DeviceOps::paged_attention_workspace>::Call;
  ops.paged_attention = Timed<OpKind::kAttention, kernels::PagedAttentionParams, &DeviceOps::paged_attention>;
  ops.attention_fuses = Forwarded<&DeviceOps::attention_fuses>::Call;
  ops.dense_attention_workspace = Forwarded<&DeviceOps::dense_attention_workspace>::Call;
  ops.dense_attention = Timed<OpKind::kAttention, kernels::DenseAttentionParams, &DeviceOps::dense_attention>;
  ops.measure_roofs = Forwarded<&DeviceOps::measure_roofs>::Call;
  ops.probe_roof = Forwarded<&DeviceOps::probe_roof>::Call;
  ops.link_ranks = nullptr;  // one device is measured
  ops.unlink_ranks = nullptr;
  ops.stop_ranks = nullptr;
  ops.share_columns = nullptr;
  ops.sample_workspace = Forwarded<&DeviceOps::sample_workspace>::Call;
  ops.sample = Forwarded<&DeviceOps::sample>::Call;
  ops.take_drawn = Timed<OpKind::kGather, kernels::TakeDrawnParams, &DeviceOps::take_drawn>;
  return ops;
}

}  // namespace

TimedDevice::TimedDevice(kernels::Device* inner)
    : state_{.inner = inner,
             .seconds = {},
             .waits = inner->ops->kind != kernels::DeviceKind::kCpu,
             .timed = inner->ops->kind == kernels::DeviceKind::kCpu},
      ops_(TimedOps(*inner->ops)) {
  device_.ops = &ops_;
  device_.context = reinterpret_cast<DeviceContext*>(&state_);
  device_.description = inner->description;
}

}  // namespace dunlin::tools::bench
