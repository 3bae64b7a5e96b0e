// SPDX-License-Identifier: Apache-2.0
// The entries of the CUDA device's table; contracts: kernels/api/. Each checks what the host can see of its parameters
// and enqueues its kernels. Indices in device memory are the caller's responsibility.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/cuda/device/context.h"

namespace dunlin::kernels::cuda {

void* Allocate(DeviceContext* context, size_t bytes);
void Release(DeviceContext* context, void* memory, size_t bytes);
KernelStatus CopyToDevice(DeviceContext* context, void* device, const void* host, size_t bytes);
KernelStatus CopyToHost(DeviceContext* context, void* host, const void* device, size_t bytes);
void* AllocateHost(DeviceContext* context, size_t bytes);
void ReleaseHost(DeviceContext* context, void* memory, size_t bytes);
KernelStatus Synchronize(DeviceContext* context);
DeviceMemory Memory(const DeviceContext* context);
DeviceEvent* CreateEvent(DeviceContext* context);
void DestroyEvent(DeviceContext* context, DeviceEvent* event);
KernelStatus RecordEvent(DeviceContext* context, DeviceEvent* event);
KernelStatus WaitEvent(DeviceContext* context, DeviceEvent* event);
// device/graph_recorder.cc
bool SupportsGraphs(const DeviceContext* context);
bool BeginGraph(DeviceContext* context);
DeviceGraph* EndGraph(DeviceContext* context);
KernelStatus LaunchGraph(DeviceContext* context, DeviceGraph* graph);
void DestroyGraph(DeviceContext* context, DeviceGraph* graph);

size_t PackedWeightBytes(WeightFormat format, int64_t out_features, int64_t in_features, int32_t scale_block);
// kUnsupported when neither stride is 1.
KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params);
size_t ActivationBytes(Precision precision, int32_t rows, int32_t columns);
bool GemmFuses(DeviceContext* context, const GemmParams& params);
bool SetTuning(DeviceContext* context, bool on, std::string* notice);
cudaError_t PrepareGemm(const DeviceShape& device);  // called once, when the device is opened; not of checked rows
// Once, after that and with plans: prepares the checked rows of gemm/kernel_table.cc, compares each of their tile
// shapes with the kernel that takes their calls otherwise, and leaves out rows that differ or cannot be launched; some
// milliseconds. *warning: a sentence that names them, or "". kDeviceError: the device cannot be used any more.
KernelStatus CheckGemms(DeviceContext* context, std::string* warning);
cudaError_t PrepareGroupedGemm();  // as that
KernelStatus Gemm(DeviceContext* context, const GemmParams& params);
KernelStatus GroupedGemm(DeviceContext* context, const GroupedGemmParams& params);
KernelStatus BatchedGemm(DeviceContext* context, const BatchedGemmParams& params);
KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params);

KernelStatus Norm(DeviceContext* context, const NormParams& params);
KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params);
KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params);
// The rows of batches [first, first + count) of a valid call into params.rounded, one batch after another.
KernelStatus RoundBatches(DeviceContext* context, const BatchedGemmParams& params, int32_t first, int32_t count);
KernelStatus Activate(DeviceContext* context, const ActivateParams& params);
KernelStatus Add(DeviceContext* context, const AddParams& params);
KernelStatus CopyRows(DeviceContext* context, const CopyRowsParams& params);
KernelStatus CopyColumns(DeviceContext* context, const CopyColumnsParams& params);
KernelStatus RouteExperts(DeviceContext* context, const RouteExpertsParams& params);
KernelStatus AddWeightedRows(DeviceContext* context, const AddWeightedRowsParams& params);
KernelStatus UpdateDelayedScaling(DeviceContext* context, const DelayedScalingParams& params);
KernelStatus RotaryTable(DeviceContext* context, const RotaryTableParams& params);
KernelStatus RotateAndStoreKv(DeviceContext* context, const RotateAndStoreKvParams& params);

// recurrent/. Scans of states of more than kStateRowsMax rows: kUnsupported.
KernelStatus CausalConv(DeviceContext* context, const CausalConvParams& params);
KernelStatus DeltaScan(DeviceContext* context, const DeltaScanParams& params);
KernelStatus SsmScan(DeviceContext* context, const SsmScanParams& params);
KernelStatus GatedGroupNorm(DeviceContext* context, const GatedGroupNormParams& params);
KernelStatus RowGate(DeviceContext* context, const RowGateParams& params);

// sampling/.
size_t SampleWorkspace(const DeviceContext* context, int32_t num_rows, int32_t vocab_size);
KernelStatus Sample(DeviceContext* context, const SampleParams& params);
KernelStatus TakeDrawn(DeviceContext* context, const TakeDrawnParams& params);

// attention/. What is supported: attention/kernel_table.cc.
cudaError_t PrepareAttention(const DeviceShape& device);  // called once, when the device is opened; not of checked rows
// Once, after that: prepares the checked rows, compares them with the general ones behind them, and leaves out those
// that differ or cannot be launched (DeviceShape::left_out_attention); some milliseconds. *warning: gets a sentence
// that names them. kDeviceError: the device cannot be used any more.
KernelStatus CheckAttention(DeviceContext* context, std::string* warning);
bool SupportsAttention(const DeviceContext* context, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons);
size_t PagedAttentionWorkspace(const DeviceContext* context, AttentionBackend backend, const PagedAttentionPlan& plan);
KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params);
bool AttentionFuses(DeviceContext* context, const PagedAttentionParams& params);
size_t DenseAttentionWorkspace(const DeviceContext* context, const DenseAttentionParams& params);
KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params);
KernelStatus StoreIndexKeys(DeviceContext* context, const StoreIndexKeysParams& params);
KernelStatus SelectKeys(DeviceContext* context, const SelectKeysParams& params);

// roofs/
KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params);

}  // namespace dunlin::kernels::cuda
