// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/loader/fake_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device_module.h"
#include "tests/kernels/loader/fake_compressed.h"
#include "tests/kernels/loader/fake_context.h"
#include "tests/kernels/loader/fake_events.h"
#include "tests/kernels/loader/fake_graphs.h"
#include "tests/kernels/loader/fake_groups.h"
#include "tests/kernels/loader/fake_ranks.h"
#include "tests/kernels/loader/fake_recurrent.h"
#include "tests/kernels/loader/fake_translation.h"

namespace dunlin::kernels {
namespace {

// Parameters of a deferred call, with the host memory that they point to.
template <typename Params>
struct Held {
  Params params;
  PackedWeight weight;
  Activation in;
  Activation out;
};

// Enqueues an operation of the CPU device on the translated parameters.
template <typename Params, typename Translate>
KernelStatus Run(DeviceContext* context, KernelStatus (*operation)(DeviceContext*, const Params&), const Params& params,
                 const Translate& translate) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  auto held = std::make_shared<Held<Params>>();
  held->params = params;
  Translation to_host;
  translate(to_host, *held);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  Of(context).stream.Add([held, operation] { return operation(Cpu().context, held->params); });
  return KernelStatus::kOk;
}

template <typename Params>
void HoldWeight(Translation& to_host, Held<Params>& held) {
  held.weight = *held.params.weight;
  to_host(&held.weight.data);
  held.params.weight = &held.weight;
}

// *activation: the operation's output; it then points to `held.out`.
template <typename Params>
void HoldActivation(Translation& to_host, Held<Params>& held, Activation** activation) {
  held.out = **activation;
  *activation = &held.out;
  to_host(&held.out.data);
  to_host(&held.out.shared_scale);
  to_host(&held.out.amax);
}

// The same for an operation that fills an activation.
template <typename Params, typename Translate>
KernelStatus RunFilling(DeviceContext* context, KernelStatus (*operation)(DeviceContext*, const Params&),
                        const Params& params, const Translate& translate) {
  return Run(context, operation, params, [&](Translation& to_host, Held<Params>& held) {
    HoldActivation(to_host, held, &held.params.out);
    translate(to_host, held.params);
  });
}

// A Translate that needs only the parameters.
template <typename Translate>
auto Plain(const Translate& translate) {
  return [translate](Translation& to_host, auto& held) { translate(to_host, held.params); };
}

void* Allocate(DeviceContext* context, size_t bytes) {
  void* memory = HasRoom(context, bytes) ? Cpu().ops->allocate(Cpu().context, bytes) : nullptr;
  if (memory == nullptr) return nullptr;
  Of(context).memory.Take(bytes);
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) | kFakeDeviceTag);
}

void Release(DeviceContext* context, void* memory, size_t bytes) {
  (void)Of(context).stream.DoAll();
  if (memory != nullptr) Of(context).memory.Give(bytes);
  Translation to_host;
  to_host(&memory);
  if (to_host.valid()) Cpu().ops->release(Cpu().context, memory, bytes);
}

void* AllocateHost(DeviceContext* context, size_t bytes) {
  void* memory = Cpu().ops->allocate_host(Cpu().context, bytes);
  if (memory == nullptr) return nullptr;
  Of(context).memory.TakeHost();
  Of(context).pinned.Add(memory, bytes);
  return memory;
}

void ReleaseHost(DeviceContext* context, void* memory, size_t bytes) {
  (void)Of(context).stream.DoAll();
  Of(context).pinned.Remove(memory);
  Cpu().ops->release_host(Cpu().context, memory, bytes);
}

KernelStatus CopyToDevice(DeviceContext* context, void* device, const void* host, size_t bytes) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  void* to = const_cast<void*>(HostAddress(device));
  if (to == nullptr || host == nullptr) return KernelStatus::kInvalidArgument;
  Of(context).stream.Spoil();
  if (Of(context).pinned.Hold(host)) {
    Of(context).stream.Add([=] { return Cpu().ops->copy_to_device(Cpu().context, to, host, bytes); });
    return KernelStatus::kOk;
  }
  const auto* from = static_cast<const unsigned char*>(host);
  Of(context).stream.Add([to, own = std::vector<unsigned char>(from, from + bytes)] {
    return Cpu().ops->copy_to_device(Cpu().context, to, own.data(), own.size());
  });
  return KernelStatus::kOk;
}

KernelStatus CopyToHost(DeviceContext* context, void* host, const void* device, size_t bytes) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  const void* from = HostAddress(device);
  if (from == nullptr || host == nullptr) return KernelStatus::kInvalidArgument;
  Of(context).stream.Spoil();
  Of(context).stream.Add([=] { return Cpu().ops->copy_to_host(Cpu().context, host, from, bytes); });
  return Of(context).pinned.Hold(host) ? KernelStatus::kOk : Synchronize(context);
}

// The source is the caller's again on return, and a refusal is the call's.
KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params) {
  Held<PackWeightParams> held{};
  held.params = params;
  Translation to_host;
  HoldWeight(to_host, held);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  const KernelStatus status = Synchronize(context);
  return status == KernelStatus::kOk ? Cpu().ops->pack_weight(Cpu().context, held.params) : status;
}

bool SetTuning(DeviceContext* context, bool on, std::string* notice) {
  return Of(context).tuning.Set(on, notice);
}

KernelStatus Gemm(DeviceContext* context, const GemmParams& params) {
  Of(context).tuning.Note(params);
  if (Idle()) return KernelStatus::kOk;
  return Run(context, Cpu().ops->gemm, params, [](Translation& to_host, Held<GemmParams>& held) {
    HoldWeight(to_host, held);
    held.in = *held.params.in;
    to_host(&held.in.data);
    held.params.in = &held.in;
    to_host(&held.params.bias);
    to_host(&held.params.residual);
    to_host(&held.params.out);
    if (held.params.next != nullptr) HoldActivation(to_host, held, &held.params.next);
  });
}

bool GemmFuses(DeviceContext*, const GemmParams& params) {
  return params.heads == nullptr && Cpu().ops->gemm_fuses(Cpu().context, params);
}

KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params) {
  return Run(context, GatherKnownRows, params, [](Translation& to_host, Held<GatherRowsParams>& held) {
    HoldWeight(to_host, held);
    to_host(&held.params.ids);
    to_host(&held.params.out);
  });
}

KernelStatus Norm(DeviceContext* context, const NormParams& params) {
  return RunFilling(context, Cpu().ops->norm, params, [](Translation& to_host, NormParams& p) {
    to_host(&p.in, &p.rows, &p.weight, &p.bias, &p.rows_out, &p.residual, &p.factor);
  });
}

KernelStatus Activate(DeviceContext* context, const ActivateParams& params) {
  return RunFilling(context, Cpu().ops->activate, params,
                    [](Translation& to_host, ActivateParams& p) { to_host(&p.in, &p.rows_out, &p.curve); });
}

KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params) {
  return RunFilling(context, Cpu().ops->quantize, params,
                    [](Translation& to_host, QuantizeParams& p) { to_host(&p.in, &p.rows); });
}

KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params) {
  return Run(context, Cpu().ops->softcap, params,
             Plain([](Translation& to_host, SoftcapParams& p) { to_host(&p.values); }));
}

KernelStatus Add(DeviceContext* context, const AddParams& params) {
  return Run(context, Cpu().ops->add, params,
             Plain([](Translation& to_host, AddParams& p) { to_host(&p.rows, &p.bias, &p.residual, &p.factor); }));
}

KernelStatus CopyRows(DeviceContext* context, const CopyRowsParams& params) {
  return Run(context, Cpu().ops->copy_rows, params,
             Plain([](Translation& to_host, CopyRowsParams& p) { to_host(&p.in, &p.rows, &p.out); }));
}

KernelStatus CopyColumns(DeviceContext* context, const CopyColumnsParams& params) {
  return Run(context, Cpu().ops->copy_columns, params,
             Plain([](Translation& to_host, CopyColumnsParams& p) { to_host(&p.in, &p.out); }));
}

KernelStatus RouteExperts(DeviceContext* context, const RouteExpertsParams& params) {
  return Run(context, Cpu().ops->route_experts, params, Plain([](Translation& to_host, RouteExpertsParams& p) {
               to_host(&p.logits, &p.correction, &p.expert_scales, &p.chosen, &p.chosen_weights, &p.experts, &p.rows,
                       &p.weights, &p.places, &p.token_experts, &p.tokens);
             }));
}

KernelStatus AddWeightedRows(DeviceContext* context, const AddWeightedRowsParams& params) {
  return Run(context, Cpu().ops->add_weighted_rows, params, Plain([](Translation& to_host, AddWeightedRowsParams& p) {
               to_host(&p.in, &p.places, &p.weights, &p.out);
             }));
}

KernelStatus UpdateDelayedScaling(DeviceContext* context, const DelayedScalingParams& params) {
  return Run(context, Cpu().ops->update_delayed_scaling, params,
             Plain([](Translation& to_host, DelayedScalingParams& p) { to_host(&p.history, &p.factors, &p.scales); }));
}

KernelStatus RotaryTable(DeviceContext* context, const RotaryTableParams& params) {
  return Run(context, Cpu().ops->rotary_table, params,
             Plain([](Translation& to_host, RotaryTableParams& p) { to_host(&p.positions, &p.inv_freq, &p.cos_sin); }));
}

KernelStatus RotateAndStoreKv(DeviceContext* context, const RotateAndStoreKvParams& params) {
  return Run(context, Cpu().ops->rotate_and_store_kv, params,
             Plain([](Translation& to_host, RotateAndStoreKvParams& p) {
               to_host(&p.qkv, &p.cos_sin, &p.kv_pool, &p.token_page, &p.token_slot, &p.query_norm, &p.key_norm,
                       &p.query_scale.positions, &p.rows);
             }));
}

// A limit that the CPU lacks: FLASH does not take FP32 here.
bool SupportsAttention(const DeviceContext*, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  const bool refused = backend == AttentionBackend::kFlash && traits.dtype == DType::kF32;
  if (refused && reasons != nullptr) {
    reasons->push_back("flash on cuda supports keys in fp16, bf16 and fp8_e4m3; they are in fp32");
  }
  return Cpu().ops->supports_attention(Cpu().context, backend, traits, reasons) && !refused;
}

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  if (Idle()) return KernelStatus::kOk;
  return Run(context, Cpu().ops->paged_attention, params, Plain([](Translation& to_host, PagedAttentionParams& p) {
               to_host(&p.query, &p.out, &p.kv_pool, &p.page_table, &p.sequences, &p.alibi_slopes, &p.bias.data,
                       &p.sinks, &p.selection.bits, &p.selection.rows, &p.workspace);
             }));
}

KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params) {
  if (Idle()) return KernelStatus::kOk;
  return Run(context, Cpu().ops->dense_attention, params, Plain([](Translation& to_host, DenseAttentionParams& p) {
               to_host(&p.q, &p.k, &p.v, &p.out, &p.alibi_slopes, &p.bias.data, &p.mask.data, &p.workspace);
             }));
}

KernelStatus Sample(DeviceContext* context, const SampleParams& params) {
  return Run(context, Cpu().ops->sample, params, Plain([](Translation& to_host, SampleParams& p) {
               to_host(&p.logits, &p.rows, &p.words, &p.out, &p.workspace);
             }));
}

KernelStatus TakeDrawn(DeviceContext* context, const TakeDrawnParams& params) {
  return Run(context, Cpu().ops->take_drawn, params,
             Plain([](Translation& to_host, TakeDrawnParams& p) { to_host(&p.drawn, &p.rows, &p.token_ids); }));
}

KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params) {
  if (params.out == nullptr) return KernelStatus::kInvalidArgument;
  // Its results are on the host when it returns.
  const KernelStatus status = Run(context, Cpu().ops->measure_roofs, params,
                                  Plain([](Translation& to_host, RoofParams& p) { to_host(&p.memory); }));
  return status == KernelStatus::kOk ? Synchronize(context) : status;
}

constexpr DeviceOps kFakeCudaOps = {
    .kind = DeviceKind::kCuda,
    .prefill_matches_decode = [](const DeviceContext*, Precision, bool) { return true; },
    .supports_model = [](const ModelTraits&, std::vector<std::string>*) { return true; },
    .allocate = Allocate,
    .release = Release,
    .copy_to_device = CopyToDevice,
    .copy_to_host = CopyToHost,
    .allocate_host = AllocateHost,
    .release_host = ReleaseHost,
    .synchronize = Synchronize,
    .memory = [](const DeviceContext* context) { return reinterpret_cast<const FakeContext*>(context)->memory.Read(); },
    .create_event = CreateEvent,
    .destroy_event = DestroyEvent,
    .record_event = RecordEvent,
    .wait_event = WaitEvent,
    .supports_graphs = SupportsGraphs,
    .begin_graph = BeginGraph,
    .end_graph = EndGraph,
    .launch_graph = LaunchGraph,
    .destroy_graph = DestroyGraph,
    .packed_weight_bytes =
        [](WeightFormat format, int64_t out_features, int64_t in_features, int32_t scale_block) {
          return Cpu().ops->packed_weight_bytes(format, out_features, in_features, scale_block);
        },
    .pack_weight = PackWeight,
    .activation_bytes = [](Precision precision, int32_t rows,
                           int32_t columns) { return Cpu().ops->activation_bytes(precision, rows, columns); },
    .gemm = Gemm,
    .gemm_fuses = GemmFuses,
    .grouped_gemm = GroupedGemm,
    .batched_gemm = BatchedGemm,
    .add_low_rank = AddLowRank,
    .set_tuning = SetTuning,
    .gather_rows = GatherRows,
    .norm = Norm,
    .softcap = Softcap,
    .quantize = Quantize,
    .activate = Activate,
    .add = Add,
    .copy_rows = CopyRows,
    .copy_columns = CopyColumns,
    .route_experts = RouteExperts,
    .add_weighted_rows = AddWeightedRows,
    .update_delayed_scaling = UpdateDelayedScaling,
    .rotary_table = RotaryTable,
    .rotate_and_store_kv = RotateAndStoreKv,
    .causal_conv = CausalConv,
    .delta_scan = DeltaScan,
    .ssm_scan = SsmScan,
    .gated_group_norm = GatedGroupNorm,
    .row_gate = RowGate,
    .store_index_keys = StoreIndexKeys,
    .select_keys = SelectKeys,
    .rotate_heads = RotateHeads,
    .compress_keys = CompressKeys,
    .select_entries = SelectEntries,
    .compressed_attention = CompressedAttention,
    .read_streams = ReadStreams,
    .write_streams = WriteStreams,
    .supports_attention = SupportsAttention,
    .paged_attention_workspace = PagedAttentionWorkspace,
    .paged_attention = PagedAttention,
    .attention_fuses = [](DeviceContext*, const PagedAttentionParams&) { return false; },
    .dense_attention_workspace = DenseAttentionWorkspace,
    .dense_attention = DenseAttention,
    .measure_roofs = MeasureRoofs,
    .probe_roof = [](DeviceContext*, const RoofProbe&) { return KernelStatus::kUnsupported; },
    .link_ranks = LinkRanks,
    .unlink_ranks = UnlinkRanks,
    .stop_ranks = StopRanks,
    .share_columns = ShareColumns,
    .sample_workspace =
        [](const DeviceContext*, int32_t num_rows, int32_t vocab_size) {
          return Cpu().ops->sample_workspace(Cpu().context, num_rows, vocab_size);
        },
    .sample = Sample,
    .take_drawn = TakeDrawn,
};

DeviceContext* Open(const DeviceModuleOptions* options, DeviceModuleReply* reply) {
  if (const char* error = std::getenv(kFakeOpenError); error != nullptr) {
    std::snprintf(reply->error, sizeof(reply->error), "%s", error);
    return nullptr;
  }
  if (options->device >= kFakeDevices) {
    std::snprintf(reply->error, sizeof(reply->error), "there is no CUDA device %d; the process sees %d",
                  static_cast<int>(options->device), static_cast<int>(kFakeDevices));
    return nullptr;
  }
  std::snprintf(reply->description, sizeof(reply->description), "cuda (fake, cublas \"%s\")", options->cublas_library);
  std::snprintf(reply->facts, sizeof(reply->facts), "name: fake\nmemory: 1024 MiB\n");
  if (!options->sm90_kernels) std::snprintf(reply->warning, sizeof(reply->warning), "sm_90 kernels are off");
  auto* context = new FakeContext();
  context->graphs = options->cuda_graphs;
  context->tuning.set_path(options->cublas_algorithm_cache);
  return reinterpret_cast<DeviceContext*>(context);
}

constexpr DeviceModule kModule = {
    .abi_version = kDeviceModuleAbi,
    .api_digest = DUNLIN_API_DIGEST,
    .ops = &kFakeCudaOps,
    .open = Open,
    .close = [](DeviceContext* context) { delete reinterpret_cast<FakeContext*>(context); },
};

}  // namespace
}  // namespace dunlin::kernels

extern "C" [[gnu::visibility("default")]] const dunlin::kernels::DeviceModule* dunlin_device_module() {
  return &dunlin::kernels::kModule;
}
