// A compute device: a const table of functions (DeviceOps) over an opaque context. The engine sees only this.
//
// Thread rule: one Device may be used by several engine threads at once; calls of one thread are ordered. On the CPU a
// call has finished when it returns; on CUDA it is enqueued and `synchronize` waits. No launcher allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/api/delayed_scaling.h"
#include "kernels/api/gemm.h"
#include "kernels/api/layer_ops.h"
#include "kernels/api/roofs.h"
#include "kernels/api/sampling.h"
#include "kernels/api/status.h"

namespace dunlin::kernels {

enum class DeviceKind : uint8_t { kCpu, kCuda };
constexpr const char* Name(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

struct DeviceContext;  // private to each device
struct DeviceEvent;    // a place in the order of a device's work; private to each device

// Device memory that allocate has given out and that the device took for itself when it was opened.
struct DeviceMemory {
  size_t bytes_held = 0;
  size_t bytes_peak = 0;     // the largest bytes_held since the device was opened
  uint64_t allocations = 0;  // successful calls of allocate and allocate_host since then
};

struct DeviceOps {
  DeviceKind kind;
  // Whether a row of a product has the same bits in prefill and in decode. Where it has not, pages that decode has made
  // cannot stand for prefilled ones.
  bool prefill_matches_decode;

  // Memory. allocate returns 64-byte aligned zeroed memory, or null. Copies are host <-> device. allocate_host returns
  // host memory, 64-byte aligned and zeroed, or null: pinned where the device copies from such memory by itself. A copy
  // from it or to it may still be under way when the call returns, so it stays as it is until an event after the copy,
  // or `synchronize`, has been waited for; any other host memory is the caller's again on return.
  void* (*allocate)(DeviceContext*, size_t bytes);
  void (*release)(DeviceContext*, void* memory, size_t bytes);
  KernelStatus (*copy_to_device)(DeviceContext*, void* device, const void* host, size_t bytes);
  KernelStatus (*copy_to_host)(DeviceContext*, void* host, const void* device, size_t bytes);
  void* (*allocate_host)(DeviceContext*, size_t bytes);
  void (*release_host)(DeviceContext*, void* memory, size_t bytes);
  KernelStatus (*synchronize)(DeviceContext*);
  DeviceMemory (*memory)(const DeviceContext*);

  // Events. record_event marks the end of what has been enqueued so far; wait_event waits for the last mark alone, at
  // once where there is none. create_event returns null when the device has none left.
  DeviceEvent* (*create_event)(DeviceContext*);
  void (*destroy_event)(DeviceContext*, DeviceEvent*);
  KernelStatus (*record_event)(DeviceContext*, DeviceEvent*);
  KernelStatus (*wait_event)(DeviceContext*, DeviceEvent*);

  // Weights and GEMM.
  // scale_block: PackedWeight's. activation_bytes covers every scale_block.
  size_t (*packed_weight_bytes)(Precision, int64_t out_features, int64_t in_features, int32_t scale_block);
  KernelStatus (*pack_weight)(DeviceContext*, const PackWeightParams&);
  size_t (*activation_bytes)(Precision, int32_t rows, int32_t columns);
  KernelStatus (*gemm)(DeviceContext*, const GemmParams&);
  // Whether gemm takes these parameters' `next` or `heads`. One answer for a weight, an activation and the form of
  // `next`, or the shape of the heads: neither the rows nor their number, nor what lies in device memory, is looked at.
  // False: gemm to `out`, then activate or rotate_and_store_kv.
  bool (*gemm_fuses)(DeviceContext*, const GemmParams&);
  // Choosing the algorithms of products by their time: before a model serves, never while requests wait. While it is
  // on, a product that the device has not met takes seconds, and what it computes is of no use. False: the device has
  // nothing to choose. Turned off, it keeps its choices, in DeviceOptions::cublas_algorithm_cache too. *notice: set to
  // what a log should say, one sentence, else left alone.
  bool (*set_tuning)(DeviceContext*, bool on, std::string* notice);
  KernelStatus (*gather_rows)(DeviceContext*, const GatherRowsParams&);

  // Between the GEMMs.
  KernelStatus (*norm)(DeviceContext*, const NormParams&);
  KernelStatus (*softcap)(DeviceContext*, const SoftcapParams&);
  KernelStatus (*quantize)(DeviceContext*, const QuantizeParams&);
  KernelStatus (*activate)(DeviceContext*, const ActivateParams&);
  KernelStatus (*add)(DeviceContext*, const AddParams&);
  KernelStatus (*copy_rows)(DeviceContext*, const CopyRowsParams&);
  KernelStatus (*update_delayed_scaling)(DeviceContext*, const DelayedScalingParams&);
  KernelStatus (*rotary_table)(DeviceContext*, const RotaryTableParams&);
  KernelStatus (*rotate_and_store_kv)(DeviceContext*, const RotateAndStoreKvParams&);

  // Attention. supports_attention appends one sentence per unmet condition to reasons (may be null) and returns
  // whether there was none; a launch never discovers an unsupported case.
  bool (*supports_attention)(const DeviceContext*, AttentionBackend, const AttentionTraits&,
                             std::vector<std::string>* reasons);
  size_t (*paged_attention_workspace)(const DeviceContext*, AttentionBackend, const PagedAttentionPlan&);
  KernelStatus (*paged_attention)(DeviceContext*, const PagedAttentionParams&);
  // Whether paged_attention takes these parameters' `next`: one answer for its form. False: paged_attention to `out`,
  // then quantize.
  bool (*attention_fuses)(DeviceContext*, const PagedAttentionParams&);
  size_t (*dense_attention_workspace)(const DeviceContext*, const DenseAttentionParams&);
  KernelStatus (*dense_attention)(DeviceContext*, const DenseAttentionParams&);

  // What the device can do at most (roofs.h). probe_roof: kUnsupported where the device has no other users to share
  // with.
  KernelStatus (*measure_roofs)(DeviceContext*, const RoofParams&);
  KernelStatus (*probe_roof)(DeviceContext*, const RoofProbe&);

  // Rows of logits to tokens.
  size_t (*sample_workspace)(const DeviceContext*, int32_t num_rows, int32_t vocab_size);
  KernelStatus (*sample)(DeviceContext*, const SampleParams&);
};

// How a device is opened.
struct DeviceOptions {
  int num_threads = 0;      // compute threads, the caller's included; 0 takes what the process may use
  std::string cpu_variant;  // "" takes the best that this processor has: AvailableCpuVariants()[0]
  // CUDA: the shared library that holds the device (device_module.h); "" has none.
  std::string cuda_module = {};
  // CUDA: path or name of the cuBLASLt library; "" looks for it where the system does.
  std::string cublas_library = {};
  // CUDA: a file that keeps which algorithm is quickest for a product, read and written by set_tuning; "" takes what
  // cuBLASLt names first, and times nothing.
  std::string cublas_algorithm_cache = {};
};

struct Device {
  const DeviceOps* ops = nullptr;
  DeviceContext* context = nullptr;
  std::string description;  // "cpu (avx512, 2 threads)", for logs

  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    if (close != nullptr) close(context);
  }
  void (*close)(DeviceContext*) = nullptr;
};

// Opens a device, or returns null with the reason in *error (no such device, variant the processor lacks, ...).
std::unique_ptr<Device> OpenDevice(DeviceKind kind, const DeviceOptions& options, std::string* error);

// The CPU variants this processor can run, best first, of "amx_bf16" (tile registers), "avx512" and "avx2" (bf16, fp8
// widened to FP32, FMA), "avx512_bf16" (BF16 dot product) and "portable"; tests iterate over them.
std::vector<std::string> AvailableCpuVariants();

}  // namespace dunlin::kernels
