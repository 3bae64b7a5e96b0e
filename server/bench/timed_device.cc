#include "server/bench/timed_device.h"

#include "server/bench/timing.h"

namespace dunlin::server::bench {
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

// The entries that take no context are the inner table's own.
DeviceOps TimedOps(const DeviceOps& inner) {
  static_assert(sizeof(DeviceOps) == 25 * sizeof(void*), "an entry that takes a context is passed on below");
  DeviceOps ops = inner;
  ops.allocate = [](DeviceContext* c, size_t bytes) { return InnerOf(c).ops->allocate(InnerOf(c).context, bytes); };
  ops.release = [](DeviceContext* c, void* memory, size_t bytes) {
    InnerOf(c).ops->release(InnerOf(c).context, memory, bytes);
  };
  ops.copy_to_device = [](DeviceContext* c, void* to, const void* from, size_t bytes) {
    return InnerOf(c).ops->copy_to_device(InnerOf(c).context, to, from, bytes);
  };
  ops.copy_to_host = [](DeviceContext* c, void* to, const void* from, size_t bytes) {
    return InnerOf(c).ops->copy_to_host(InnerOf(c).context, to, from, bytes);
  };
  ops.synchronize = [](DeviceContext* c) { return InnerOf(c).ops->synchronize(InnerOf(c).context); };
  ops.pack_weight = [](DeviceContext* c, const kernels::PackWeightParams& params) {
    return InnerOf(c).ops->pack_weight(InnerOf(c).context, params);
  };
  ops.gemm = Timed<OpKind::kGemm, kernels::GemmParams, &DeviceOps::gemm>;
  ops.gather_rows = Timed<OpKind::kGather, kernels::GatherRowsParams, &DeviceOps::gather_rows>;
  ops.norm = Timed<OpKind::kNorm, kernels::NormParams, &DeviceOps::norm>;
  ops.softcap = Timed<OpKind::kActivate, kernels::SoftcapParams, &DeviceOps::softcap>;
  ops.quantize = Timed<OpKind::kQuantize, kernels::QuantizeParams, &DeviceOps::quantize>;
  ops.activate = Timed<OpKind::kActivate, kernels::ActivateParams, &DeviceOps::activate>;
  ops.add = Timed<OpKind::kActivate, kernels::AddParams, &DeviceOps::add>;
  ops.rotary_table = Timed<OpKind::kStoreKv, kernels::RotaryTableParams, &DeviceOps::rotary_table>;
  ops.rotate_and_store_kv = Timed<OpKind::kStoreKv, kernels::RotateAndStoreKvParams, &DeviceOps::rotate_and_store_kv>;
  ops.supports_attention = [](const DeviceContext* c, kernels::AttentionBackend backend,
                              const kernels::AttentionTraits& traits, std::vector<std::string>* reasons) {
    return InnerOf(c).ops->supports_attention(InnerOf(c).context, backend, traits, reasons);
  };
  ops.paged_attention_workspace = [](const DeviceContext* c, kernels::AttentionBackend backend,
                                     const kernels::PagedAttentionPlan& plan) {
    return InnerOf(c).ops->paged_attention_workspace(InnerOf(c).context, backend, plan);
  };
  ops.paged_attention = Timed<OpKind::kAttention, kernels::PagedAttentionParams, &DeviceOps::paged_attention>;
  ops.dense_attention_workspace = [](const DeviceContext* c, const kernels::DenseAttentionParams& params) {
    return InnerOf(c).ops->dense_attention_workspace(InnerOf(c).context, params);
  };
  ops.dense_attention = Timed<OpKind::kAttention, kernels::DenseAttentionParams, &DeviceOps::dense_attention>;
  ops.measure_roofs = [](DeviceContext* c, const kernels::RoofParams& params) {
    return InnerOf(c).ops->measure_roofs(InnerOf(c).context, params);
  };
  ops.probe_roof = [](DeviceContext* c, const kernels::RoofProbe& probe) {
    return InnerOf(c).ops->probe_roof(InnerOf(c).context, probe);
  };
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

}  // namespace dunlin::server::bench
