// SPDX-License-Identifier: Apache-2.0
// A compute device: a const table of functions (DeviceOps) over an opaque context, all that the engine knows of one.
//
// Thread rule: several engine threads may use one Device at once; calls of one thread run in order. On the CPU a call
// has finished when it returns; on CUDA it is enqueued and `synchronize` waits for it. Unless a struct says otherwise,
// its pointers to data are device memory and its structs are read before the call returns. No launcher allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/api/compressed_attention.h"
#include "kernels/api/delayed_scaling.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/experts.h"
#include "kernels/api/gemm.h"
#include "kernels/api/grouped_gemm.h"
#include "kernels/api/key_selection.h"
#include "kernels/api/layer_ops.h"
#include "kernels/api/low_rank.h"
#include "kernels/api/model_traits.h"
#include "kernels/api/rank_links.h"
#include "kernels/api/recurrent.h"
#include "kernels/api/residual_streams.h"
#include "kernels/api/roofs.h"
#include "kernels/api/sampling.h"
#include "kernels/api/ssm_scan.h"
#include "kernels/api/status.h"

namespace dunlin::kernels {

struct DeviceContext;  // never defined: each device has a type of its own behind it
struct DeviceEvent;    // a position in a device's queue of work; private to each device
struct DeviceGraph;    // recorded operations; private to each device

// Device memory in use: what `allocate` has returned and what the device took for itself when it was opened.
struct DeviceMemory {
  size_t bytes_held = 0;
  size_t bytes_peak = 0;     // the largest bytes_held since the device was opened
  uint64_t allocations = 0;  // successful calls of allocate and allocate_host since then
};

struct DeviceOps {
  DeviceKind kind;
  // Whether a row of a model in this precision has the same bits in prefill and in decode. Where it does not, pages
  // written by decode cannot replace prefilled ones. deterministic: of the model's products (GemmParams).
  bool (*prefill_matches_decode)(const DeviceContext*, Precision, bool deterministic);
  // Whether the device has the operations of a model's layers; of those that it has not, which return kUnsupported,
  // *reasons (may be null) names the part of a layer, "experts". Such models are refused before they are loaded.
  bool (*supports_model)(const ModelTraits&, std::vector<std::string>* reasons);

  // Memory. allocate returns zeroed memory, 64-byte aligned, or null. Copies are host <-> device. allocate_host returns
  // zeroed host memory, 64-byte aligned, or null; it is pinned where the device copies asynchronously. A copy from or
  // to such memory may still be in progress when the call returns: leave it alone until an event recorded after the
  // copy, or `synchronize`, has been waited for. Any other host memory is the caller's again on return.
  void* (*allocate)(DeviceContext*, size_t bytes);
  void (*release)(DeviceContext*, void* memory, size_t bytes);
  KernelStatus (*copy_to_device)(DeviceContext*, void* device, const void* host, size_t bytes);
  KernelStatus (*copy_to_host)(DeviceContext*, void* host, const void* device, size_t bytes);
  void* (*allocate_host)(DeviceContext*, size_t bytes);
  void (*release_host)(DeviceContext*, void* memory, size_t bytes);
  KernelStatus (*synchronize)(DeviceContext*);
  DeviceMemory (*memory)(const DeviceContext*);

  // Device memory that is backed later, range by range, where the system gives memory slowly or may have less of it
  // than planned. reserve returns addresses for `bytes` >= 4 MiB that nobody may use, release takes them back; null
  // where the memory has to be allocated. back gives memory, zeroed, to a range of them, while others use what is
  // backed already. False: the system has none, and the range holds none. Its ends are multiples of kBackingUnit, or
  // those of the reservation. Both null: the device has memory of its own, all of which `allocate` gives at once.
  void* (*reserve)(DeviceContext*, size_t bytes) = nullptr;
  bool (*back)(DeviceContext*, void* data, size_t bytes) = nullptr;

  // Events. record_event marks the end of what has been enqueued so far; wait_event blocks until the device reaches the
  // last mark, and returns at once where there is none. create_event returns null when the device has no event left.
  DeviceEvent* (*create_event)(DeviceContext*);
  void (*destroy_event)(DeviceContext*, DeviceEvent*);
  KernelStatus (*record_event)(DeviceContext*, DeviceEvent*);
  KernelStatus (*wait_event)(DeviceContext*, DeviceEvent*);

  // Graphs. What a thread enqueues between begin_graph and end_graph is recorded instead; launch_graph enqueues all of
  // it at once, as often as wanted, for less of the host's time than its operations take. Parameters keep the values
  // that they were recorded with; device memory is read when the graph runs. While a thread records, it calls
  // operations between device memory only (no copies, events, waits, allocations, tuning or roofs), which the device
  // has run before with the same shapes. begin_graph returns false, recording nothing, where another thread records or
  // the device cannot; end_graph returns null where something was refused meanwhile: none of it has run then. A graph
  // that is destroyed still ends what was launched. supports_graphs: whether the device records and launches graphs; of
  // a device that is measured (tools/bench) it changes between steps.
  bool (*supports_graphs)(const DeviceContext*);
  bool (*begin_graph)(DeviceContext*);
  DeviceGraph* (*end_graph)(DeviceContext*);
  KernelStatus (*launch_graph)(DeviceContext*, DeviceGraph*);
  void (*destroy_graph)(DeviceContext*, DeviceGraph*);

  // Weights and GEMM. packed_weight_bytes: scale_block as PackedWeight; 0 for a format that the device does not
  // multiply. activation_bytes: of a compute precision (ComputeOf); suffices for any scale_block.
  size_t (*packed_weight_bytes)(WeightFormat, int64_t out_features, int64_t in_features, int32_t scale_block);
  KernelStatus (*pack_weight)(DeviceContext*, const PackWeightParams&);
  size_t (*activation_bytes)(Precision, int32_t rows, int32_t columns);
  KernelStatus (*gemm)(DeviceContext*, const GemmParams&);
  // Whether gemm supports these parameters' `next` or `heads`. The answer depends on the weight, the activation and the
  // format of `next`, or the shape of the heads; not on the rows, their number or the contents of device memory. False:
  // gemm to `out`, then activate or rotate_and_store_kv.
  bool (*gemm_fuses)(DeviceContext*, const GemmParams&);
  // The products of a layer's experts, and of its heads: grouped_gemm.h.
  KernelStatus (*grouped_gemm)(DeviceContext*, const GroupedGemmParams&);
  KernelStatus (*batched_gemm)(DeviceContext*, const BatchedGemmParams&);
  KernelStatus (*add_low_rank)(DeviceContext*, const AddLowRankParams&);  // low_rank.h
  // Turns tuning on or off: the choice of GEMM algorithms by measurement, before a model serves. While it is on, the
  // first GEMM of a shape takes seconds and its results are meaningless. Turning it off keeps the choices, also in
  // DeviceOptions::cublas_algorithm_cache. False: the device has nothing to tune. *notice: one sentence for the log, or
  // left unchanged.
  bool (*set_tuning)(DeviceContext*, bool on, std::string* notice);
  // Where ranks are linked (link_ranks), ids that the weight has no row of give rows of zeros.
  KernelStatus (*gather_rows)(DeviceContext*, const GatherRowsParams&);

  // Between the GEMMs.
  KernelStatus (*norm)(DeviceContext*, const NormParams&);
  KernelStatus (*softcap)(DeviceContext*, const SoftcapParams&);
  KernelStatus (*quantize)(DeviceContext*, const QuantizeParams&);
  KernelStatus (*activate)(DeviceContext*, const ActivateParams&);
  KernelStatus (*add)(DeviceContext*, const AddParams&);
  KernelStatus (*copy_rows)(DeviceContext*, const CopyRowsParams&);
  KernelStatus (*copy_columns)(DeviceContext*, const CopyColumnsParams&);
  KernelStatus (*route_experts)(DeviceContext*, const RouteExpertsParams&);
  KernelStatus (*add_weighted_rows)(DeviceContext*, const AddWeightedRowsParams&);
  KernelStatus (*update_delayed_scaling)(DeviceContext*, const DelayedScalingParams&);
  KernelStatus (*rotary_table)(DeviceContext*, const RotaryTableParams&);
  KernelStatus (*rotate_and_store_kv)(DeviceContext*, const RotateAndStoreKvParams&);

  // Layers with a recurrent state, and gates of what a layer computes (recurrent.h).
  KernelStatus (*causal_conv)(DeviceContext*, const CausalConvParams&);
  KernelStatus (*delta_scan)(DeviceContext*, const DeltaScanParams&);
  KernelStatus (*ssm_scan)(DeviceContext*, const SsmScanParams&);
  KernelStatus (*gated_group_norm)(DeviceContext*, const GatedGroupNormParams&);
  KernelStatus (*row_gate)(DeviceContext*, const RowGateParams&);

  // The keys of sparse attention (key_selection.h).
  KernelStatus (*store_index_keys)(DeviceContext*, const StoreIndexKeysParams&);
  KernelStatus (*select_keys)(DeviceContext*, const SelectKeysParams&);

  // Entries of groups of tokens, and attention over them and a window (compressed_attention.h); several residual
  // streams (residual_streams.h).
  KernelStatus (*rotate_heads)(DeviceContext*, const RotateHeadsParams&);
  KernelStatus (*compress_keys)(DeviceContext*, const CompressKeysParams&);
  KernelStatus (*select_entries)(DeviceContext*, const SelectEntriesParams&);
  KernelStatus (*compressed_attention)(DeviceContext*, const CompressedAttentionParams&);
  KernelStatus (*read_streams)(DeviceContext*, const ReadStreamsParams&);
  KernelStatus (*write_streams)(DeviceContext*, const WriteStreamsParams&);

  // Attention. supports_attention appends one sentence per unmet condition to *reasons (may be null) and returns
  // whether there was none. What it accepts, a launch does not refuse as kUnsupported.
  bool (*supports_attention)(const DeviceContext*, AttentionBackend, const AttentionTraits&,
                             std::vector<std::string>* reasons);
  size_t (*paged_attention_workspace)(const DeviceContext*, AttentionBackend, const PagedAttentionPlan&);
  KernelStatus (*paged_attention)(DeviceContext*, const PagedAttentionParams&);
  // Whether paged_attention supports these parameters' `next`; the answer depends only on its format. False:
  // paged_attention to `out`, then quantize.
  bool (*attention_fuses)(DeviceContext*, const PagedAttentionParams&);
  size_t (*dense_attention_workspace)(const DeviceContext*, const DenseAttentionParams&);
  KernelStatus (*dense_attention)(DeviceContext*, const DenseAttentionParams&);

  // Peak rates (roofs.h). probe_roof: kUnsupported on devices that are not shared with other users.
  KernelStatus (*measure_roofs)(DeviceContext*, const RoofParams&);
  KernelStatus (*probe_roof)(DeviceContext*, const RoofProbe&);

  // Ranks of a divided model on devices with memory of their own (rank_links.h). All null: ranks share their memory,
  // and the host makes them wait for each other. link_ranks: num_ranks of 2 to kMaxLinkedRanks; null, with *reason;
  // else *reason: why columns go through memory of the host, or empty. The contexts outlive the links, and may be of
  // one device. stop_ranks, on any thread: operations of these links end without waiting, now and from then on, with
  // rows that nobody may use. unlink_ranks stops them, and waits for those in flight.
  RankLinks* (*link_ranks)(DeviceContext* const* ranks, int32_t num_ranks, std::string* reason) = nullptr;
  void (*unlink_ranks)(RankLinks*) = nullptr;
  void (*stop_ranks)(RankLinks*) = nullptr;
  KernelStatus (*share_columns)(DeviceContext*, const ShareColumnsParams&) = nullptr;

  // Sampling: rows of logits to tokens.
  size_t (*sample_workspace)(const DeviceContext*, int32_t num_rows, int32_t vocab_size);
  KernelStatus (*sample)(DeviceContext*, const SampleParams&);
  KernelStatus (*take_drawn)(DeviceContext*, const TakeDrawnParams&);
};

// How a device is opened.
struct DeviceOptions {
  int num_threads = 0;      // compute threads, the caller's included; 0: as many as the process may use
  std::string cpu_variant;  // "": the best one that this processor supports, AvailableCpuVariants()[0]
  // CUDA: path of the shared library that implements the device (device_module.h); "": no CUDA device.
  std::string cuda_module = {};
  // CUDA: the device's number, as the driver counts those that the process sees.
  int32_t cuda_device = 0;
  // CUDA: path or name of the cuBLASLt library; "": the dynamic linker's search path.
  std::string cublas_library = {};
  // CUDA: a file that caches the fastest algorithm per GEMM, read and written by set_tuning; "": cuBLASLt's first
  // heuristic result, without timing.
  std::string cublas_algorithm_cache = {};
  // CUDA, compute capability 9.0: kernels on that device's own instructions, each checked when the device is opened.
  // False: only kernels that older devices run, too.
  bool sm90_kernels = true;
  // CUDA: steps that repeat are recorded and launched as graphs (DeviceOps::supports_graphs).
  bool cuda_graphs = true;
};

struct Device {
  const DeviceOps* ops = nullptr;
  DeviceContext* context = nullptr;
  std::string description;  // "cpu (avx512, 2 threads)", for logs
  std::string facts;        // what it offers, for people: lines of "name: value"; empty where there is no more to say
  std::string warning;      // what it does without although it was built in, in one sentence; usually empty

  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    if (close != nullptr) close(context);
  }
  void (*close)(DeviceContext*) = nullptr;
};

// Opens a device, or returns null with the reason in *error: no such device, a CPU variant that the processor lacks.
std::unique_ptr<Device> OpenDevice(DeviceKind kind, const DeviceOptions& options, std::string* error);

// The CPU variants that this processor can run, fastest first: "amx_bf16" (tile registers), "avx512_bf16" (BF16 dot
// product), "avx512" and "avx2" (FMA on BF16 and FP8 widened to FP32), "portable".
std::vector<std::string> AvailableCpuVariants();

}  // namespace dunlin::kernels
