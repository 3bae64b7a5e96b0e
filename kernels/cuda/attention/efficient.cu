// EFFICIENT over pages, plain form. Blocks: (sequence, query head, part); the warps of a sequence's parts take its rows
// in turn. How many rows a sequence has is known to the device alone: blocks of short ones end at once.
// Instantiations: head_dim up to 64, 128 and 256.
#include "kernels/cuda/attention/efficient_row.h"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launchers.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kWarps = kRowThreads / kWarp;
constexpr int kBlocks = 2;       // an SM: 128 registers a thread, for a row's values beside two addresses
constexpr unsigned kParts = 16;  // blocks that share a long prefill's rows: 128 warps a head

template <int kDims>
__global__ void __launch_bounds__(kRowThreads, kBlocks) EfficientRows(PagedAttentionParams params) {
  __shared__ float weights[kWarps][kChunkKeys];
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const SequenceSpan span = params.sequences[blockIdx.x];
  const int32_t step = kWarps * static_cast<int32_t>(gridDim.z);
  for (int32_t token = static_cast<int32_t>(blockIdx.z) * kWarps + warp; token < span.query_len; token += step) {
    EfficientPagedRow<kDims>(WarpLanes(), params, span, token, static_cast<int32_t>(blockIdx.y), weights[warp]);
  }
}

bool Valid(const PagedAttentionParams& params) {
  const KvShape& shape = params.layout.shape;
  if (params.num_sequences < 0 || params.layer < 0 || params.layer >= shape.num_layers) return false;
  if (shape.v_head_dim != shape.head_dim || shape.num_kv_heads < 1) return false;
  if (params.num_heads < 1 || params.num_heads % shape.num_kv_heads != 0) return false;
  if (params.window < 0 || (params.window > 0 && !params.causal) || !(params.softcap >= 0.0F)) return false;
  return params.query_stride >= int64_t{params.num_heads} * shape.head_dim;
}

}  // namespace

KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params) {
  const int32_t head_dim = params.layout.shape.head_dim;
  if (params.backend != AttentionBackend::kEfficient || head_dim < 1 || head_dim > kMaxHeadDim) {
    return KernelStatus::kUnsupported;
  }
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_sequences == 0) return KernelStatus::kOk;
  const dim3 grid(static_cast<unsigned>(params.num_sequences), static_cast<unsigned>(params.num_heads), kParts);
  if (head_dim <= 64) {
    EfficientRows<2><<<grid, kRowThreads, 0, context->stream>>>(params);
  } else if (head_dim <= 128) {
    EfficientRows<4><<<grid, kRowThreads, 0, context->stream>>>(params);
  } else {
    EfficientRows<kMaxDimsPerLane><<<grid, kRowThreads, 0, context->stream>>>(params);
  }
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda
