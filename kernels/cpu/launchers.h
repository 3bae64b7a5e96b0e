// SPDX-License-Identifier: Apache-2.0
// The CPU entries of DeviceOps, but for attention's (attention/attention.h). Contracts: kernels/api/.
// Each checks its parameters, then runs on the context's pool and returns when the work is done.
#pragma once

#include "kernels/api/experts.h"
#include "kernels/api/grouped_gemm.h"
#include "kernels/api/layer_ops.h"
#include "kernels/api/recurrent.h"
#include "kernels/api/sampling.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context.h"

namespace dunlin::kernels::cpu {

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params);
KernelStatus Gemm(DeviceContext* context, const GemmParams& params);
bool GemmFuses(DeviceContext* context, const GemmParams& params);
KernelStatus GroupedGemm(DeviceContext* context, const GroupedGemmParams& params);
KernelStatus BatchedGemm(DeviceContext* context, const BatchedGemmParams& params);
KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params);
KernelStatus Norm(DeviceContext* context, const NormParams& params);
KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params);
KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params);
KernelStatus Activate(DeviceContext* context, const ActivateParams& params);
KernelStatus Add(DeviceContext* context, const AddParams& params);
KernelStatus CopyRows(DeviceContext* context, const CopyRowsParams& params);
KernelStatus CopyColumns(DeviceContext* context, const CopyColumnsParams& params);
KernelStatus RouteExperts(DeviceContext* context, const RouteExpertsParams& params);
KernelStatus AddWeightedRows(DeviceContext* context, const AddWeightedRowsParams& params);

// recurrent/.
KernelStatus CausalConv(DeviceContext* context, const CausalConvParams& params);
KernelStatus DeltaScan(DeviceContext* context, const DeltaScanParams& params);
KernelStatus GatedGroupNorm(DeviceContext* context, const GatedGroupNormParams& params);
KernelStatus RowGate(DeviceContext* context, const RowGateParams& params);

// sampling/.
size_t SampleWorkspace(const DeviceContext* context, int32_t num_rows, int32_t vocab_size);
KernelStatus Sample(DeviceContext* context, const SampleParams& params);

}  // namespace dunlin::kernels::cpu
