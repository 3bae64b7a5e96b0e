// SPDX-License-Identifier: Apache-2.0
// The CUDA device's row of the device table, and the entry symbol of its shared library.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device_module.h"
#include "kernels/cuda/attention/check_problem.h"
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/use_device.h"
#include "kernels/cuda/gemm/cublaslt/cublaslt_library.h"
#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/low_rank/low_rank.h"
#include "kernels/cuda/ranks/links.h"
#include "kernels/cuda/recurrent/scan_rules.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kSmVersionMin = 80;

static_assert(kStateRowsMax == 256, "what SupportsModel says");
bool SupportsModel(const ModelTraits& traits, std::vector<std::string>* reasons) {
  const struct {
    bool asked;
    const char* name;
  } absent[] = {{traits.state_rows > kStateRowsMax, "states of more than 256 rows"},
                {traits.block_selection, "choices of blocks of keys"},
                {traits.compressed_keys, "entries of groups of tokens"},
                {traits.residual_streams, "residual streams"},
                {traits.token_experts, "experts by token"}};
  bool supported = true;
  for (const auto& [asked, name] : absent) {
    if (asked && reasons != nullptr) reasons->emplace_back(name);
    supported = supported && !asked;
  }
  return supported;
}

template <typename Params>
KernelStatus Refuse(kernels::DeviceContext* /*context*/, const Params& /*params*/) {
  return KernelStatus::kUnsupported;
}

bool PrefillMatchesDecode(const DeviceContext* context, Precision precision, bool deterministic) {
  return deterministic && PhasesAgree(context->shape.sm_version, precision, context->left_out_gemms);
}

constexpr DeviceOps kCudaOps = {
    .kind = DeviceKind::kCuda,
    .prefill_matches_decode = kOnDevice<PrefillMatchesDecode>,
    .supports_model = SupportsModel,
    .allocate = kOnDevice<Allocate>,
    .release = kOnDevice<Release>,
    .copy_to_device = kOnDevice<CopyToDevice>,
    .copy_to_host = kOnDevice<CopyToHost>,
    .allocate_host = kOnDevice<AllocateHost>,
    .release_host = kOnDevice<ReleaseHost>,
    .synchronize = kOnDevice<Synchronize>,
    .memory = kOnDevice<Memory>,
    .create_event = kOnDevice<CreateEvent>,
    .destroy_event = kOnDevice<DestroyEvent>,
    .record_event = kOnDevice<RecordEvent>,
    .wait_event = kOnDevice<WaitEvent>,
    .supports_graphs = kOnDevice<SupportsGraphs>,
    .begin_graph = kOnDevice<BeginGraph>,
    .end_graph = kOnDevice<EndGraph>,
    .launch_graph = kOnDevice<LaunchGraph>,
    .destroy_graph = kOnDevice<DestroyGraph>,
    .packed_weight_bytes = PackedWeightBytes,
    .pack_weight = kOnDevice<PackWeight>,
    .activation_bytes = ActivationBytes,
    .gemm = kOnDevice<Gemm>,
    .gemm_fuses = kOnDevice<GemmFuses>,
    .grouped_gemm = kOnDevice<GroupedGemm>,
    .batched_gemm = kOnDevice<BatchedGemm>,
    .add_low_rank = kOnDevice<AddLowRank>,
    .set_tuning = kOnDevice<SetTuning>,
    .gather_rows = kOnDevice<GatherRows>,
    .norm = kOnDevice<Norm>,
    .softcap = kOnDevice<Softcap>,
    .quantize = kOnDevice<Quantize>,
    .activate = kOnDevice<Activate>,
    .add = kOnDevice<Add>,
    .copy_rows = kOnDevice<CopyRows>,
    .copy_columns = kOnDevice<CopyColumns>,
    .route_experts = kOnDevice<RouteExperts>,
    .add_weighted_rows = kOnDevice<AddWeightedRows>,
    .update_delayed_scaling = kOnDevice<UpdateDelayedScaling>,
    .rotary_table = kOnDevice<RotaryTable>,
    .rotate_and_store_kv = kOnDevice<RotateAndStoreKv>,
    .causal_conv = kOnDevice<CausalConv>,
    .delta_scan = kOnDevice<DeltaScan>,
    .ssm_scan = kOnDevice<SsmScan>,
    .gated_group_norm = kOnDevice<GatedGroupNorm>,
    .row_gate = kOnDevice<RowGate>,
    .store_index_keys = kOnDevice<StoreIndexKeys>,
    .select_keys = kOnDevice<SelectKeys>,
    .rotate_heads = Refuse<RotateHeadsParams>,
    .compress_keys = Refuse<CompressKeysParams>,
    .select_entries = Refuse<SelectEntriesParams>,
    .compressed_attention = Refuse<CompressedAttentionParams>,
    .read_streams = Refuse<ReadStreamsParams>,
    .write_streams = Refuse<WriteStreamsParams>,
    .supports_attention = kOnDevice<SupportsAttention>,
    .paged_attention_workspace = kOnDevice<PagedAttentionWorkspace>,
    .paged_attention = kOnDevice<PagedAttention>,
    .attention_fuses = kOnDevice<AttentionFuses>,
    .dense_attention_workspace = kOnDevice<DenseAttentionWorkspace>,
    .dense_attention = kOnDevice<DenseAttention>,
    .measure_roofs = kOnDevice<MeasureRoofs>,
    // A bench has the GPU to itself, so the rates measured before and after a case apply to it.
    .probe_roof = [](kernels::DeviceContext*, const RoofProbe&) { return KernelStatus::kUnsupported; },
    .link_ranks = LinkRanks,
    .unlink_ranks = UnlinkRanks,
    .stop_ranks = StopRanks,
    .share_columns = kOnDevice<ShareColumns>,
    .sample_workspace = kOnDevice<SampleWorkspace>,
    .sample = kOnDevice<Sample>,
    .take_drawn = kOnDevice<TakeDrawn>,
};

void Close(DeviceContext* context) {
  if (context->stream.device != nullptr) (void)cudaStreamSynchronize(context->stream.device);
  context->clock.reset();
  context->plans.reset();
  if (context->cublas_handle != nullptr) (void)context->cublas.Destroy(context->cublas_handle);
  for (void* memory :
       {context->gemm_workspace, context->staging, static_cast<void*>(context->current), context->bias}) {
    if (memory != nullptr) (void)cudaFree(memory);
  }
  context->stream.recorder.Destroy();
  if (context->stream.device != nullptr) (void)cudaStreamDestroy(context->stream.device);
  delete context;
}

struct Closer {
  void operator()(DeviceContext* context) const { Close(context); }
};

std::string Reason(const char* what, cudaError_t error) {
  return std::string(what) + ": " + cudaGetErrorString(error);
}

// Empty when the device can run the kernels.
std::string CheckDevice(int32_t device, cudaDeviceProp* properties) {
  int driver = 0;
  if (const cudaError_t error = cudaDriverGetVersion(&driver); error != cudaSuccess) {
    return Reason("the CUDA driver does not answer", error);
  }
  if (driver == 0) return "there is no CUDA driver";
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return Reason("no CUDA device", error);
  }
  if (count == 0) return "there is no CUDA device";
  if (device < 0 || device >= count) {
    return "there is no CUDA device " + std::to_string(device) + "; the process sees " + std::to_string(count);
  }
  if (const cudaError_t error = cudaGetDeviceProperties(properties, device); error != cudaSuccess) {
    return Reason("the CUDA device does not answer", error);
  }
  if (properties->major * 10 + properties->minor >= kSmVersionMin) return "";
  return std::string(properties->name) + " has compute capability " + std::to_string(properties->major) + "." +
         std::to_string(properties->minor) + "; the kernels need 8.0 or later";
}

// What an algorithm's speed depends on besides the GEMM, in one line.
std::string PlatformOf(const cudaDeviceProp& properties, const CublasLt& cublas) {
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  return std::string(properties.name) + " sm_" + std::to_string(properties.major * 10 + properties.minor) + " driver " +
         std::to_string(driver) + " runtime " + std::to_string(runtime) + " cuBLASLt " +
         std::to_string(cublas.GetVersion());
}

// Empty when the stream and the memory were created. *warning: kernels that failed their check.
std::string FillContext(DeviceContext* context, const DeviceModuleOptions& options, std::string* warning) {
  std::string error;
  if (!LoadCublasLt(options.cublas_library, &context->cublas, &error)) return error;
  cudaError_t result = cudaStreamCreateWithFlags(&context->stream.device, cudaStreamNonBlocking);
  if (result == cudaSuccess && options.cuda_graphs) result = context->stream.recorder.Create();
  const auto take = [&](void** memory, size_t bytes) {
    if (result == cudaSuccess) result = cudaMalloc(memory, bytes);
    if (result == cudaSuccess) context->memory.Take(bytes);
  };
  take(&context->gemm_workspace, kGemmWorkspaceBytes);
  take(&context->staging, kStagingBytes);
  take(reinterpret_cast<void**>(&context->current), sizeof(uint32_t));
  take(&context->bias, kActivatedColumnsMax * sizeof(float));
  if (result == cudaSuccess) result = PrepareAttention(context->shape);
  if (result == cudaSuccess) result = PrepareGemm(context->shape);
  if (result == cudaSuccess) result = PrepareGroupedGemm();
  if (result != cudaSuccess) return Reason("the CUDA device cannot be set up", result);
  if (context->cublas.Create(&context->cublas_handle) != 0) return "cuBLASLt cannot be set up";
  context->plans = std::make_unique<GemmPlans>(&context->cublas, context->cublas_handle, context->gemm_workspace);
  if (!options.sm90_kernels) {
    context->left_out_gemms = CheckedGemms();
    context->shape.left_out_attention = CheckedAttention(context->shape);
  }
  if (CheckGemms(context, warning) == KernelStatus::kOk && CheckAttention(context, warning) == KernelStatus::kOk) {
    return "";
  }
  return *warning + "; compute.sm90_kernels: false does without such kernels";
}

std::string FactsOf(int32_t device, const cudaDeviceProp& properties, const CublasLt& cublas) {
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  const auto version = [](int code) { return std::to_string(code / 1000) + "." + std::to_string(code % 1000 / 10); };
  std::string facts = "name: " + std::string(properties.name);
  facts += "\ncompute capability: " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
  facts += "\nmultiprocessors: " + std::to_string(properties.multiProcessorCount);
  facts += "\nmemory: " + std::to_string(properties.totalGlobalMem >> 20) + " MiB";
  facts += "\nL2 cache: " + std::to_string(properties.l2CacheSize >> 10) + " KiB";
  facts += "\nshared memory per block: " + std::to_string(properties.sharedMemPerBlockOptin >> 10) + " KiB";
  facts += "\ndriver: CUDA " + version(driver) + ", runtime CUDA " + version(runtime);
  facts += "\ncuBLASLt: " + std::to_string(cublas.GetVersion()) + " in " + PathOf(cublas);
  if (const std::string peers = PeersOf(device); !peers.empty()) facts += "\nreaches the memory of devices: " + peers;
  return facts + "\n";
}

kernels::DeviceContext* Open(const DeviceModuleOptions* options, DeviceModuleReply* reply) {
  cudaDeviceProp properties{};
  std::string error = CheckDevice(options->device, &properties);
  std::unique_ptr<DeviceContext, Closer> context(new DeviceContext());
  context->device = options->device;
  if (error.empty()) {
    UseDevice(context->device);
    context->shape = {.multiprocessors = properties.multiProcessorCount,
                      .block_shared_bytes = static_cast<int32_t>(properties.sharedMemPerBlockOptin),
                      .sm_version = properties.major * 10 + properties.minor};
    context->l2_bytes = static_cast<size_t>(properties.l2CacheSize);
    std::string warning;
    error = FillContext(context.get(), *options, &warning);
    std::snprintf(reply->warning, sizeof(reply->warning), "%s", warning.c_str());
  }
  if (error.empty()) {
    context->algorithms =
        std::make_unique<AlgorithmStore>(options->cublas_algorithm_cache, PlatformOf(properties, context->cublas));
  }
  if (!error.empty()) {
    std::snprintf(reply->error, sizeof(reply->error), "%s", error.c_str());
    return nullptr;
  }
  std::snprintf(reply->description, sizeof(reply->description), "cuda (%.200s, sm_%d, cuBLASLt %zu)", properties.name,
                context->shape.sm_version, context->cublas.GetVersion());
  std::snprintf(reply->facts, sizeof(reply->facts), "%s",
                FactsOf(context->device, properties, context->cublas).c_str());
  return reinterpret_cast<kernels::DeviceContext*>(context.release());
}

constexpr DeviceModule kModule = {
    .abi_version = kDeviceModuleAbi,
    .api_digest = DUNLIN_API_DIGEST,
    .ops = &kCudaOps,
    .open = Open,
    .close = kOnDevice<Close>,
};

}  // namespace
}  // namespace dunlin::kernels::cuda

extern "C" [[gnu::visibility("default")]] const dunlin::kernels::DeviceModule* dunlin_device_module() {
  return &dunlin::kernels::cuda::kModule;
}
