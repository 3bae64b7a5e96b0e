// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/rotary.h"
#include "kernels/cpu/context/context.h"
#include "kernels/cpu/context/cpu_features.h"
#include "kernels/cpu/context/memory.h"
#include "kernels/cpu/experts.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/packed_layout.h"
#include "kernels/cpu/low_rank/low_rank.h"
#include "kernels/cpu/recurrent/recurrent.h"
#include "kernels/cpu/residual_streams.h"
#include "kernels/cpu/roofs/roofs.h"
#include "kernels/cpu/rows/layer_ops.h"
#include "kernels/cpu/sampling/sample.h"
#include "kernels/shared/device_entry.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kThreadsMax = 1024;

KernelStatus Copy(DeviceContext*, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return KernelStatus::kOk;
  if (to == nullptr || from == nullptr) return KernelStatus::kInvalidArgument;
  std::memcpy(to, from, bytes);
  return KernelStatus::kOk;
}

void* Allocate(DeviceContext* context, size_t bytes) {
  void* memory = AllocateZeroed(bytes, &context->pool);
  if (memory != nullptr) context->memory.Take(bytes);
  return memory;
}

void Release(DeviceContext* context, void* memory, size_t bytes) {
  if (memory != nullptr) context->memory.Give(bytes);
  ReleaseMemory(memory, bytes);
}

void* ReserveMapped(DeviceContext* context, size_t bytes) {
  void* memory = ReserveZeroed(bytes);
  if (memory != nullptr) context->memory.Take(bytes);
  return memory;
}

void* AllocateHost(DeviceContext* context, size_t bytes) {
  void* memory = AllocateZeroed(bytes);
  if (memory != nullptr) context->memory.TakeHost();
  return memory;
}

KernelStatus UpdateDelayedScaling(DeviceContext* /*context*/, const DelayedScalingParams& params) {
  if (params.num_inputs < 0 || params.history_len < 1) return KernelStatus::kInvalidArgument;
  for (int32_t input = 0; input < params.num_inputs; ++input) UpdateDelayedInput(params, input);
  return KernelStatus::kOk;
}

// A call has finished when it returns: there is nothing to record or to wait for.
DeviceEvent* CreateEvent(DeviceContext* context) {
  return reinterpret_cast<DeviceEvent*>(context);
}
KernelStatus NoEvent(DeviceContext* /*context*/, DeviceEvent* /*event*/) {
  return KernelStatus::kOk;
}

constexpr DeviceOps kCpuOps = {
    .kind = DeviceKind::kCpu,
    .prefill_matches_decode = [](const kernels::DeviceContext*, Precision, bool) { return true; },
    .supports_model = [](const ModelTraits&, std::vector<std::string>*) { return true; },
    .allocate = kEntry<Allocate>,
    .release = kEntry<Release>,
    .copy_to_device = kEntry<Copy>,
    .copy_to_host = kEntry<Copy>,
    .allocate_host = kEntry<AllocateHost>,
    .release_host = [](kernels::DeviceContext*, void* memory, size_t bytes) { ReleaseMemory(memory, bytes); },
    .synchronize = [](kernels::DeviceContext*) { return KernelStatus::kOk; },
    .memory = [](const kernels::DeviceContext* context) { return ContextOf(context).memory.Read(); },
    .reserve = kEntry<ReserveMapped>,
    .back = [](kernels::DeviceContext*, void* data, size_t bytes) { return BackMemory(data, bytes); },
    .create_event = kEntry<CreateEvent>,
    .destroy_event = [](kernels::DeviceContext*, DeviceEvent*) {},
    .record_event = kEntry<NoEvent>,
    .wait_event = kEntry<NoEvent>,
    .supports_graphs = [](const kernels::DeviceContext*) { return false; },
    .begin_graph = [](kernels::DeviceContext*) { return false; },
    .end_graph = [](kernels::DeviceContext*) -> DeviceGraph* { return nullptr; },
    .launch_graph = [](kernels::DeviceContext*, DeviceGraph*) { return KernelStatus::kUnsupported; },
    .destroy_graph = [](kernels::DeviceContext*, DeviceGraph*) {},
    .packed_weight_bytes = PackedBytes,
    .pack_weight = kEntry<PackWeight>,
    .activation_bytes = [](Precision precision, int32_t rows,
                           int32_t columns) { return ActivationBytes(precision, rows, columns); },
    .gemm = kEntry<Gemm>,
    .gemm_fuses = kEntry<GemmFuses>,
    .grouped_gemm = kEntry<GroupedGemm>,
    .batched_gemm = kEntry<BatchedGemm>,
    .add_low_rank = kEntry<AddLowRank>,
    .set_tuning = [](kernels::DeviceContext*, bool, std::string*) { return false; },
    .gather_rows = kEntry<GatherRows>,
    .norm = kEntry<Norm>,
    .softcap = kEntry<Softcap>,
    .quantize = kEntry<Quantize>,
    .activate = kEntry<Activate>,
    .add = kEntry<Add>,
    .copy_rows = kEntry<CopyRows>,
    .copy_columns = kEntry<CopyColumns>,
    .route_experts = kEntry<RouteExperts>,
    .add_weighted_rows = kEntry<AddWeightedRows>,
    .update_delayed_scaling = kEntry<UpdateDelayedScaling>,
    .rotary_table = kEntry<RotaryTable>,
    .rotate_and_store_kv = kEntry<RotateAndStoreKv>,
    .causal_conv = kEntry<CausalConv>,
    .delta_scan = kEntry<DeltaScan>,
    .ssm_scan = kEntry<SsmScan>,
    .gated_group_norm = kEntry<GatedGroupNorm>,
    .row_gate = kEntry<RowGate>,
    .store_index_keys = kEntry<StoreIndexKeys>,
    .select_keys = kEntry<SelectKeys>,
    .rotate_heads = kEntry<RotateHeads>,
    .compress_keys = kEntry<CompressKeys>,
    .select_entries = kEntry<SelectEntries>,
    .compressed_attention = kEntry<CompressedAttention>,
    .read_streams = kEntry<ReadStreams>,
    .write_streams = kEntry<WriteStreams>,
    .supports_attention = kEntry<SupportsAttention>,
    .paged_attention_workspace = kEntry<PagedAttentionWorkspace>,
    .paged_attention = kEntry<PagedAttention>,
    .attention_fuses = kEntry<AttentionFuses>,
    .dense_attention_workspace = kEntry<DenseAttentionWorkspace>,
    .dense_attention = kEntry<DenseAttention>,
    .measure_roofs = kEntry<MeasureRoofs>,
    .probe_roof = kEntry<ProbeRoof>,
    .sample_workspace = kEntry<SampleWorkspace>,
    .sample = kEntry<Sample>,
    .take_drawn = kEntry<TakeDrawn>,
};

// One row per variant that the build has (DUNLIN_CPU_VARIANTS), best first on ARM and on Intel's processors
// (AvailableCpuVariants).
struct VariantRow {
  CpuVariant variant;
  const char* name;
  const KernelTable& (*kernels)();
  bool (*available)();
};
constexpr VariantRow kVariants[] = {
#ifdef DUNLIN_CPU_AMX
    {CpuVariant::kAmxBf16, "amx_bf16", AmxKernels, HasAmxVariant},
#endif
#ifdef DUNLIN_CPU_AVX512
    {CpuVariant::kAvx512, "avx512", Avx512Kernels, HasAvx512Variant},
#endif
#ifdef DUNLIN_CPU_AVX512_BF16
    {CpuVariant::kAvx512Bf16, "avx512_bf16", Avx512Bf16Kernels, HasAvx512Bf16Variant},
#endif
#ifdef DUNLIN_CPU_AVX2
    {CpuVariant::kAvx2, "avx2", Avx2Kernels, HasAvx2Variant},
#endif
#ifdef DUNLIN_CPU_NEON_BF16
    {CpuVariant::kNeonBf16, "neon_bf16", NeonBf16Kernels, HasNeonBf16Variant},
#endif
#ifdef DUNLIN_CPU_NEON_I8MM
    {CpuVariant::kNeonI8mm, "neon_i8mm", NeonI8mmKernels, HasNeonI8mmVariant},
#endif
#ifdef DUNLIN_CPU_NEON_DOT
    {CpuVariant::kNeonDot, "neon_dot", NeonDotKernels, HasNeonDotVariant},
#endif
#ifdef DUNLIN_CPU_NEON
    {CpuVariant::kNeon, "neon", NeonKernels, [] { return true; }},
#endif
    {CpuVariant::kPortable, "portable", PortableKernels, [] { return true; }},
};

std::string Known() {
  std::string names;
  for (const VariantRow& row : kVariants) names += (names.empty() ? "\"" : ", \"") + std::string(row.name) + "\"";
  return names;
}

const VariantRow* FindVariant(const std::string& requested, std::string* error) {
  const std::vector<std::string> available = AvailableCpuVariants();
  const std::string& name = requested.empty() ? available.front() : requested;
  for (const VariantRow& row : kVariants) {
    if (name != row.name) continue;
    if (row.available()) return &row;
    *error =
        "this processor cannot run CPU variant \"" + name + "\"; the best it runs is \"" + available.front() + "\"";
    return nullptr;
  }
  *error = "unknown CPU variant \"" + name + "\"; this build has " + Known();
  return nullptr;
}

}  // namespace

std::unique_ptr<Device> OpenCpuDevice(const DeviceOptions& options, std::string* error) {
  const VariantRow* row = FindVariant(options.cpu_variant, error);
  if (row == nullptr) return nullptr;
  if (options.num_threads < 0 || options.num_threads > kThreadsMax) {
    *error = "number of compute threads is " + std::to_string(options.num_threads) + "; limit is 0 to " +
             std::to_string(kThreadsMax) + ", 0 for what the process may use";
    return nullptr;
  }
  const int threads = options.num_threads == 0 ? UsableCpus() : options.num_threads;
  auto context = std::make_unique<DeviceContext>(row->variant, row->kernels(), threads);
  if (context->scratch_memory.data() == nullptr) {
    *error = "out of memory for the scratch of " + std::to_string(threads) + " compute threads";
    return nullptr;
  }
  auto device = std::make_unique<Device>();
  device->ops = &kCpuOps;
  device->context = reinterpret_cast<kernels::DeviceContext*>(context.release());
  device->close = [](kernels::DeviceContext* opened) { delete reinterpret_cast<DeviceContext*>(opened); };
  device->description =
      std::string("cpu (") + row->name + ", " + std::to_string(threads) + (threads == 1 ? " thread)" : " threads)");
  return device;
}

}  // namespace dunlin::kernels::cpu

namespace dunlin::kernels {

std::vector<std::string> AvailableCpuVariants() {
  std::vector<std::string> names;
  for (const cpu::VariantRow& row : cpu::kVariants) {
    if (row.available()) names.emplace_back(row.name);
  }
  const auto floats = std::find(names.begin(), names.end(), "avx512");
  const auto pairs = std::find(names.begin(), names.end(), "avx512_bf16");
  if (cpu::HasFastBf16Dot() && floats != names.end() && pairs != names.end()) std::iter_swap(floats, pairs);
  return names;
}

}  // namespace dunlin::kernels
