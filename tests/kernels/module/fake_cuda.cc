#include "tests/kernels/module/fake_cuda.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/api/device_module.h"

namespace dunlin::kernels {
namespace {

struct FakeContext {
  std::atomic<bool> failed{false};
};

// The device behind the fake one.
Device& Cpu() {
  static std::string error;
  static const std::unique_ptr<Device> device = OpenDevice(DeviceKind::kCpu, {}, &error);
  return *device;
}

bool Failed(DeviceContext* context) {
  auto* fake = reinterpret_cast<FakeContext*>(context);
  const char* file = std::getenv(kFakeFailFile);
  if (file != nullptr && access(file, F_OK) == 0) fake->failed = true;
  return fake->failed;
}

// Device addresses to host addresses.
class Translation {
 public:
  template <typename T>
  void operator()(T** pointer) {
    if (*pointer == nullptr) return;
    const auto address = reinterpret_cast<uintptr_t>(*pointer);
    if ((address & kFakeDeviceTag) == 0) {
      valid_ = false;
      return;
    }
    *pointer = reinterpret_cast<T*>(address & ~kFakeDeviceTag);
  }
  bool valid() const { return valid_; }

 private:
  bool valid_ = true;
};

// Runs an operation of the CPU on what `translate` makes of its parameters.
template <typename Params, typename Translate>
KernelStatus Run(DeviceContext* context, KernelStatus (*operation)(DeviceContext*, const Params&), Params params,
                 const Translate& translate) {
  if (Failed(context)) return KernelStatus::kDeviceError;
  Translation to_host;
  translate(to_host, params);
  return to_host.valid() ? operation(Cpu().context, params) : KernelStatus::kInvalidArgument;
}

// The same for an operation that fills an activation.
template <typename Params, typename Translate>
KernelStatus RunFilling(DeviceContext* context, KernelStatus (*operation)(DeviceContext*, const Params&), Params params,
                        const Translate& translate) {
  Activation out = *params.out;
  params.out = &out;
  return Run(context, operation, params, [&](Translation& to_host, Params& p) {
    to_host(&out.data);
    to_host(&out.shared_scale);
    to_host(&out.amax);
    translate(to_host, p);
  });
}

void* Allocate(DeviceContext*, size_t bytes) {
  void* memory = Cpu().ops->allocate(Cpu().context, bytes);
  return memory == nullptr ? nullptr : reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) | kFakeDeviceTag);
}

void Release(DeviceContext*, void* memory, size_t bytes) {
  Translation to_host;
  to_host(&memory);
  if (to_host.valid()) Cpu().ops->release(Cpu().context, memory, bytes);
}

KernelStatus CopyToDevice(DeviceContext* context, void* device, const void* host, size_t bytes) {
  if (Failed(context)) return KernelStatus::kDeviceError;
  Translation to_host;
  to_host(&device);
  return to_host.valid() ? Cpu().ops->copy_to_device(Cpu().context, device, host, bytes)
                         : KernelStatus::kInvalidArgument;
}

KernelStatus CopyToHost(DeviceContext* context, void* host, const void* device, size_t bytes) {
  if (Failed(context)) return KernelStatus::kDeviceError;
  Translation to_host;
  to_host(&device);
  return to_host.valid() ? Cpu().ops->copy_to_host(Cpu().context, host, device, bytes) : KernelStatus::kInvalidArgument;
}

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params) {
  PackedWeight weight = *params.weight;
  return Run(context, Cpu().ops->pack_weight, params, [&](Translation& to_host, PackWeightParams& p) {
    to_host(&weight.data);
    p.weight = &weight;
  });
}

KernelStatus Gemm(DeviceContext* context, const GemmParams& params) {
  PackedWeight weight = *params.weight;
  Activation in = *params.in;
  return Run(context, Cpu().ops->gemm, params, [&](Translation& to_host, GemmParams& p) {
    to_host(&weight.data);
    to_host(&in.data);
    p.weight = &weight;
    p.in = &in;
    to_host(&p.bias);
    to_host(&p.residual);
    to_host(&p.out);
  });
}

KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params) {
  PackedWeight weight = *params.weight;
  return Run(context, Cpu().ops->gather_rows, params, [&](Translation& to_host, GatherRowsParams& p) {
    to_host(&weight.data);
    p.weight = &weight;
    to_host(&p.ids);
    to_host(&p.out);
  });
}

KernelStatus Norm(DeviceContext* context, const NormParams& params) {
  return RunFilling(context, Cpu().ops->norm, params, [](Translation& to_host, NormParams& p) {
    to_host(&p.in);
    to_host(&p.rows);
    to_host(&p.weight);
    to_host(&p.bias);
    to_host(&p.rows_out);
  });
}

KernelStatus Activate(DeviceContext* context, const ActivateParams& params) {
  return RunFilling(context, Cpu().ops->activate, params, [](Translation& to_host, ActivateParams& p) {
    to_host(&p.in);
    to_host(&p.rows_out);
  });
}

KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params) {
  return RunFilling(context, Cpu().ops->quantize, params,
                    [](Translation& to_host, QuantizeParams& p) { to_host(&p.in); });
}

KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params) {
  return Run(context, Cpu().ops->softcap, params, [](Translation& to_host, SoftcapParams& p) { to_host(&p.values); });
}

KernelStatus Add(DeviceContext* context, const AddParams& params) {
  return Run(context, Cpu().ops->add, params, [](Translation& to_host, AddParams& p) {
    to_host(&p.rows);
    to_host(&p.bias);
    to_host(&p.residual);
  });
}

KernelStatus RotaryTable(DeviceContext* context, const RotaryTableParams& params) {
  return Run(context, Cpu().ops->rotary_table, params, [](Translation& to_host, RotaryTableParams& p) {
    to_host(&p.positions);
    to_host(&p.inv_freq);
    to_host(&p.cos_sin);
  });
}

KernelStatus RotateAndStoreKv(DeviceContext* context, const RotateAndStoreKvParams& params) {
  return Run(context, Cpu().ops->rotate_and_store_kv, params, [](Translation& to_host, RotateAndStoreKvParams& p) {
    to_host(&p.qkv);
    to_host(&p.cos_sin);
    to_host(&p.kv_pool);
    to_host(&p.token_page);
    to_host(&p.token_slot);
    to_host(&p.query_norm);
    to_host(&p.key_norm);
  });
}

// What a device of its own would refuse: FLASH takes no FP32 here.
bool SupportsAttention(const DeviceContext*, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  const bool refused = backend == AttentionBackend::kFlash && traits.dtype == DType::kF32;
  if (refused && reasons != nullptr) {
    reasons->push_back("flash on cuda supports keys in fp16, bf16 and fp8_e4m3; they are in fp32");
  }
  return Cpu().ops->supports_attention(Cpu().context, backend, traits, reasons) && !refused;
}

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  return Run(context, Cpu().ops->paged_attention, params, [](Translation& to_host, PagedAttentionParams& p) {
    to_host(&p.query);
    to_host(&p.out);
    to_host(&p.kv_pool);
    to_host(&p.page_table);
    to_host(&p.sequences);
    to_host(&p.workspace);
  });
}

KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params) {
  return Run(context, Cpu().ops->dense_attention, params, [](Translation& to_host, DenseAttentionParams& p) {
    to_host(&p.q);
    to_host(&p.k);
    to_host(&p.v);
    to_host(&p.out);
    to_host(&p.alibi_slopes);
    to_host(&p.bias.data);
    to_host(&p.mask.data);
    to_host(&p.workspace);
  });
}

KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params) {
  return Run(context, Cpu().ops->measure_roofs, params,
             [](Translation& to_host, RoofParams& p) { to_host(&p.memory); });
}

constexpr DeviceOps kFakeCudaOps = {
    .kind = DeviceKind::kCuda,
    .prefill_matches_decode = true,
    .allocate = Allocate,
    .release = Release,
    .copy_to_device = CopyToDevice,
    .copy_to_host = CopyToHost,
    .synchronize =
        [](DeviceContext* context) { return Failed(context) ? KernelStatus::kDeviceError : KernelStatus::kOk; },
    .packed_weight_bytes =
        [](Precision precision, int64_t out_features, int64_t in_features, int32_t scale_block) {
          return Cpu().ops->packed_weight_bytes(precision, out_features, in_features, scale_block);
        },
    .pack_weight = PackWeight,
    .activation_bytes = [](Precision precision, int32_t rows,
                           int32_t columns) { return Cpu().ops->activation_bytes(precision, rows, columns); },
    .gemm = Gemm,
    .gather_rows = GatherRows,
    .norm = Norm,
    .softcap = Softcap,
    .quantize = Quantize,
    .activate = Activate,
    .add = Add,
    .rotary_table = RotaryTable,
    .rotate_and_store_kv = RotateAndStoreKv,
    .supports_attention = SupportsAttention,
    .paged_attention_workspace =
        [](const DeviceContext*, AttentionBackend backend, const PagedAttentionPlan& plan) {
          return Cpu().ops->paged_attention_workspace(Cpu().context, backend, plan);
        },
    .paged_attention = PagedAttention,
    .dense_attention_workspace =
        [](const DeviceContext*, const DenseAttentionParams& params) {
          return Cpu().ops->dense_attention_workspace(Cpu().context, params);
        },
    .dense_attention = DenseAttention,
    .measure_roofs = MeasureRoofs,
    .probe_roof = [](DeviceContext*, const RoofProbe&) { return KernelStatus::kUnsupported; },
};

DeviceContext* Open(const DeviceModuleOptions* options, DeviceModuleReply* reply) {
  if (const char* error = std::getenv(kFakeOpenError); error != nullptr) {
    std::snprintf(reply->error, sizeof(reply->error), "%s", error);
    return nullptr;
  }
  std::snprintf(reply->description, sizeof(reply->description), "cuda (fake, cublas \"%s\")", options->cublas_library);
  return reinterpret_cast<DeviceContext*>(new FakeContext());
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
