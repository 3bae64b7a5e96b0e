// SPDX-License-Identifier: Apache-2.0
// GEMM. The row of kernel_table.cc that takes the weight and the phase says who computes: the tile kernel, or cuBLASLt
// through the plans of gemm_plan.h. Prompts' integer codes are expanded to BF16 first, whose kernel then multiplies,
// but for few rows where codes have a kernel. A kernel then adds what the plan left out: FP8's bias, and everything
// after a GEMM that went through the staging area.
#include <algorithm>
#include <map>

#include "kernels/cuda/device/lanes.cuh"
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/tile_kernels.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {
namespace {

// out[m, n] = product[m, n] + bias[n] + residual[m, n]; product may be `out`.
struct Finish {
  const float* product;
  int64_t product_stride;
  const float* bias;      // or null
  const float* residual;  // or null; rows out_stride apart
  float* out;
  int64_t out_stride;
  int64_t columns;
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks) FinishRows(Finish finish) {
  const int64_t row = blockIdx.x;
  const float* product = finish.product + row * finish.product_stride;
  for (int64_t n = threadIdx.x; n < finish.columns; n += kRowThreads) {
    float value = product[n];
    if (finish.bias != nullptr) value += finish.bias[n];
    if (finish.residual != nullptr) value += finish.residual[row * finish.out_stride + n];
    finish.out[row * finish.out_stride + n] = value;
  }
}

// The GEMM's destination: FP32 rows, heads and their pages, or the next GEMM's input.
bool ValidOutput(const GemmParams& p) {
  if (p.heads != nullptr && (p.next != nullptr || p.residual != nullptr || p.heads->qkv != p.out)) return false;
  if (p.next == nullptr) return p.out != nullptr && p.out_stride >= p.weight->out_features;
  return p.residual == nullptr && p.next->data != nullptr && p.next->data != p.in->data &&
         p.num_rows <= p.next->capacity_rows;
}

bool Valid(const GemmParams& p) {
  if (p.in == nullptr || p.weight == nullptr || p.num_rows < 0 || !ValidOutput(p)) return false;
  if (p.decode_rows < 0 || p.decode_rows > p.num_rows) return false;
  const PackedWeight& weight = *p.weight;
  return weight.data != nullptr && Multiplies(weight.format) && !weight.int8_inputs && weight.out_features > 0 &&
         weight.in_features > 0 && p.in->data != nullptr && p.in->precision == weight.precision &&
         p.in->columns == weight.in_features && p.in->scale_block == weight.scale_block &&
         p.num_rows <= p.in->capacity_rows;
}

// Rows [first, first + count) of the GEMM into `out`, then what the form left out. A staged GEMM starts at the
// preceding row whose scale is 16-byte aligned.
KernelStatus RunRows(DeviceContext* context, const GemmParams& params, const GemmForm& form, bool staged, int64_t first,
                     int64_t count) {
  const MatrixView weight = ViewOf(*params.weight);
  const MatrixView in = ViewOf(*params.in);
  const bool fp8 = weight.precision == Precision::kFp8;
  const int64_t lead = staged ? first % kScaleRows : 0;
  float* out = params.out + first * params.out_stride;
  const float* residual = params.residual == nullptr ? nullptr : params.residual + first * params.out_stride;
  const GemmOperands operands{.weight = weight.data,
                              .in = in.row(first - lead),
                              .weight_scales = fp8 ? weight.scales() : nullptr,
                              .in_scales = fp8 ? in.scales() + first - lead : nullptr,
                              .bias = params.bias,
                              .residual = residual,
                              .out = staged ? context->staging : out,
                              .num_rows = static_cast<int32_t>(lead + count)};
  const KernelStatus status = context->plans->Run(form, operands, context->stream);
  if (status == KernelStatus::kDeviceError) return Failed(context);
  if (status != KernelStatus::kOk) return status;
  const Finish finish{.product = static_cast<const float*>(operands.out) + lead * form.out_stride,
                      .product_stride = form.out_stride,
                      .bias = form.bias ? nullptr : params.bias,
                      .residual = form.residual ? nullptr : residual,
                      .out = out,
                      .out_stride = params.out_stride,
                      .columns = weight.rows};
  if (staged || finish.bias != nullptr || finish.residual != nullptr) {
    FinishRows<<<static_cast<unsigned>(count), kRowThreads, 0, context->stream>>>(finish);
  }
  return Launched(context);
}

__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    RoundBias(const float* bias, int64_t columns, Precision precision, unsigned char* out) {
  const int64_t i = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (i < columns) StoreAs(precision, out, i, 1, Float4{{bias[i]}});
}

// The bias of a fused activation, converted to the dtype that cuBLASLt requires and 16-byte aligned. Stream order keeps
// the next call's conversion after this call's GEMM.
const void* BiasOf(DeviceContext* context, const GemmParams& params) {
  if (params.bias == nullptr) return nullptr;
  const int64_t columns = params.weight->out_features;
  const auto blocks = static_cast<unsigned>((columns + kRowThreads - 1) / kRowThreads);
  RoundBias<<<blocks, kRowThreads, 0, context->stream>>>(params.bias, columns, params.weight->precision,
                                                         static_cast<unsigned char*>(context->bias));
  return context->bias;
}

// Rows [begin, end) with a fused activation.
KernelStatus RunActivated(DeviceContext* context, const GemmParams& params, int64_t begin, int64_t end) {
  const auto count = static_cast<int32_t>(end - begin);
  const std::lock_guard<std::mutex> lock(context->turn);
  const GemmOperands operands{.weight = ViewOf(*params.weight).data,
                              .in = ViewOf(*params.in).row(begin),
                              .weight_scales = nullptr,
                              .in_scales = nullptr,
                              .bias = BiasOf(context, params),
                              .residual = nullptr,
                              .out = ViewOf(*params.next).row(begin),
                              .num_rows = count};
  const KernelStatus status = context->plans->Run(FormOf(params, false, count), operands, context->stream);
  if (status == KernelStatus::kDeviceError) return Failed(context);
  return status == KernelStatus::kOk ? Launched(context) : status;
}

KernelStatus RunLibrary(DeviceContext* context, const GemmParams& params, int64_t begin, int64_t end) {
  if (params.next != nullptr) return RunActivated(context, params, begin, end);
  const bool staged = NeedsStaging(params, begin);
  const GemmForm form = FormOf(params, staged, static_cast<int32_t>(end - begin));
  if (!staged) return RunRows(context, params, form, false, begin, end - begin);

  const int64_t rows_at_once = static_cast<int64_t>(kStagingBytes / sizeof(float)) / form.out_stride - kScaleRows;
  if (rows_at_once < 1) return KernelStatus::kUnsupported;
  const std::lock_guard<std::mutex> lock(context->turn);
  for (int64_t first = begin; first < end; first += rows_at_once) {
    const KernelStatus status = RunRows(context, params, form, true, first, std::min(rows_at_once, end - first));
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

const GemmKernel* KernelOf(const DeviceContext* context, const GemmParams& params, GemmPhase phase) {
  return FindGemmKernel(context->shape.sm_version, *params.weight, phase, context->left_out_gemms, OutputsOf(params));
}

// Rows [begin, end) of a BF16 product whose K is not divided, by the kernel of prompts.
KernelStatus RunPart(DeviceContext* context, const GemmParams& part, int64_t begin, int64_t end) {
  const auto count = static_cast<int32_t>(end - begin);
  const GemmKernel* kernel = KernelOf(context, part, GemmPhase::kPrefill);
  if (kernel == nullptr) return KernelStatus::kUnsupported;
  if (kernel->launch == nullptr) return RunRows(context, part, FormOf(part, false, count), false, begin, end - begin);
  TileCall call = TileCallOf(part, begin, count, false, nullptr);
  call.multiprocessors = context->shape.multiprocessors;
  kernel->launch(call, context->stream);
  return Launched(context);
}

// A weight of integer codes, as many rows of it at once as fit the staging area expanded: a division by its shape.
KernelStatus RunExpanded(DeviceContext* context, const GemmParams& params, int64_t begin, int64_t end) {
  const PackedWeight& weight = *params.weight;
  const int64_t panel = static_cast<int64_t>(kStagingBytes) / RowBytes(Precision::kBf16, weight.in_features) /
                        kMatrixMultiple * kMatrixMultiple;
  if (panel == 0) return KernelStatus::kUnsupported;
  const std::lock_guard<std::mutex> lock(context->turn);
  for (int64_t first = 0; first < weight.out_features; first += panel) {
    PackedWeight expanded{.data = context->staging, .precision = Precision::kBf16};
    expanded.out_features = std::min(panel, weight.out_features - first);
    expanded.in_features = weight.in_features;
    const ExpandCall call{.weight = CodedViewOf(weight),
                          .first_row = first,
                          .rows = expanded.out_features,
                          .out = static_cast<unsigned char*>(context->staging)};
    LaunchExpandCodes(call, context->stream);
    GemmParams part = params;
    part.weight = &expanded;
    part.out = params.out + first;
    if (params.bias != nullptr) part.bias = params.bias + first;
    if (params.residual != nullptr) part.residual = params.residual + first;
    if (const KernelStatus status = RunPart(context, part, begin, end); status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

TiledProduct TiledProductOf(const GemmKernel& kernel, const PackedWeight& weight) {
  return {kernel.name, weight.out_features, weight.in_features};
}

// A call whose K is not divided.
KernelStatus RunWhole(DeviceContext* context, const GemmKernel& kernel, TileCall call, int32_t tile_shape) {
  call.multiprocessors = context->shape.multiprocessors;
  call.tile_shape = tile_shape;
  call.overlaps = true;  // PackWeight returns after its kernels have ended
  kernel.launch(call, context->stream);
  return Launched(context);
}

TiledProduct OwnOrLibrary(const GemmKernel& kernel, const PackedWeight& weight) {
  TiledProduct product = TiledProductOf(kernel, weight);
  product.or_library = true;
  return product;
}

// Whether cuBLASLt may compute up to num_rows rows of a call in place of the kernel.
bool LibraryMayRun(DeviceContext* context, const GemmKernel& kernel, const GemmParams& params, int32_t num_rows) {
  return LibraryCompetes(context->shape.sm_version, kernel, params) &&
         (params.next == nullptr || context->plans->Has(FormOf(params, false, num_rows)));
}

// Which shape the rows [begin, end) of a kernel with several take from now on, and fewer rows of the same weight; and
// whether cuBLASLt takes them.
void MeasureTiles(DeviceContext* context, const GemmKernel& kernel, const GemmParams& params, int64_t begin,
                  int64_t end) {
  if (kernel.checked_shapes == 0 || begin == end) return;
  const auto count = static_cast<int32_t>(end - begin);
  const TiledProduct product = TiledProductOf(kernel, *params.weight);
  const auto launch = [&](int32_t num_rows, int32_t tile_shape) {
    return RunWhole(context, kernel, TileCallOf(params, begin, num_rows, false, nullptr), tile_shape);
  };
  context->tiles.Measure(product, count, ShapeRowsOf(kernel), launch);
  const TiledProduct either = OwnOrLibrary(kernel, *params.weight);
  if (!LibraryMayRun(context, kernel, params, count) || context->tiles.Find(either, count) != 0) return;
  std::map<int32_t, int32_t> shapes;
  for (const int32_t measured : kMeasuredRows) {
    const int32_t num_rows = std::min(measured, count);
    shapes[num_rows] = context->tiles.Find(product, num_rows);
    // The algorithm is chosen at a form's first product, by the same clock.
    if (RunLibrary(context, params, begin, begin + num_rows) != KernelStatus::kOk) return;
    if (measured >= count) break;
  }
  context->tiles.Measure(either, count, kOwnAndLibrary, [&](int32_t num_rows, int32_t choice) {
    return choice == kLibrary ? RunLibrary(context, params, begin, begin + num_rows)
                              : launch(num_rows, shapes.at(num_rows));
  });
}

// Rows [begin, end), all of one phase unless it divides nothing. Where K is divided, partial sums go to the staging
// area.
KernelStatus RunTiles(DeviceContext* context, const GemmKernel& kernel, const GemmParams& params, int64_t begin,
                      int64_t end, bool decodes) {
  decodes = decodes && kernel.divides_depth;
  const int64_t part_floats = PartFloatsPerRow(*params.weight, decodes);
  if (part_floats == 0) {
    const auto count = static_cast<int32_t>(end - begin);
    if (LibraryMayRun(context, kernel, params, count) &&
        context->tiles.Find(OwnOrLibrary(kernel, *params.weight), count) == kLibrary) {
      return RunLibrary(context, params, begin, end);
    }
    const bool shaped = kernel.checked_shapes > 0;
    const int32_t shape = shaped ? context->tiles.Find(TiledProductOf(kernel, *params.weight), count) : 0;
    return RunWhole(context, kernel, TileCallOf(params, begin, count, decodes, nullptr), shape);
  }
  const int64_t rows_at_once =
      std::min(static_cast<int64_t>(kStagingBytes / sizeof(float)) / part_floats, kMergeRowsMax);
  const std::lock_guard<std::mutex> lock(context->turn);
  for (int64_t first = begin; first < end; first += rows_at_once) {
    const TileCall call = TileCallOf(params, first, static_cast<int32_t>(std::min(rows_at_once, end - first)), decodes,
                                     static_cast<float*>(context->staging));
    kernel.launch(call, context->stream);
    LaunchMergeSlices(call, context->stream);
  }
  return Launched(context);
}

KernelStatus RunPhase(DeviceContext* context, const GemmKernel& kernel, const GemmParams& params, int64_t begin,
                      int64_t end, GemmPhase phase) {
  if (begin == end) return KernelStatus::kOk;
  if (ExpandsFirst(context->shape.sm_version, *params.weight, end - begin, context->left_out_gemms)) {
    return RunExpanded(context, params, begin, end);
  }
  if (kernel.launch != nullptr) return RunTiles(context, kernel, params, begin, end, phase == GemmPhase::kDecode);
  if (IsCoded(params.weight->format)) return RunExpanded(context, params, begin, end);
  return RunLibrary(context, params, begin, end);
}

// Whether the kernel of a phase fills params.next.
bool FusesIn(DeviceContext* context, const GemmParams& params, GemmPhase phase) {
  const GemmKernel* kernel = KernelOf(context, params, phase);
  if (kernel == nullptr || !kernel->fuses_activation) return false;
  return kernel->launch != nullptr || context->plans->Has(FormOf(params, false, params.num_rows));
}

}  // namespace

bool GemmFuses(DeviceContext* context, const GemmParams& params) {
  if (OutputsOf(params) != GemmOutputs::kRows) {
    return FusesPairs(context->shape.sm_version, params, context->left_out_gemms);
  }
  return TakesActivation(params) && FusesIn(context, params, GemmPhase::kDecode) &&
         FusesIn(context, params, GemmPhase::kPrefill);
}

cudaError_t PrepareGemm(const DeviceShape& device) {
  for (const GemmKernel& kernel : GemmKernels()) {
    if (kernel.prepare == nullptr || kernel.checked_shapes > 0 || !RunsOn(kernel, device.sm_version)) continue;
    if (const int error = kernel.prepare(); error != cudaSuccess) return static_cast<cudaError_t>(error);
  }
  return cudaSuccess;
}

KernelStatus Gemm(DeviceContext* context, const GemmParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const GemmKernel* decode = KernelOf(context, params, GemmPhase::kDecode);
  const GemmKernel* prefill = KernelOf(context, params, GemmPhase::kPrefill);
  if (decode == nullptr || prefill == nullptr) return KernelStatus::kUnsupported;
  const bool paired = OutputsOf(params) != GemmOutputs::kRows;
  if (paired ? !TakesPairs(params) : params.next != nullptr && !TakesActivation(params)) {
    return KernelStatus::kUnsupported;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  // One call suffices where a kernel computes both phases alike.
  const int64_t decode_rows = decode != prefill || decode->divides_depth ? params.decode_rows : 0;
  if (context->tiles.tunes()) {
    MeasureTiles(context, *decode, params, 0, decode_rows);
    MeasureTiles(context, *prefill, params, decode_rows, params.num_rows);
  }
  const KernelStatus status = RunPhase(context, *decode, params, 0, decode_rows, GemmPhase::kDecode);
  if (status != KernelStatus::kOk) return status;
  return RunPhase(context, *prefill, params, decode_rows, params.num_rows, GemmPhase::kPrefill);
}

}  // namespace dunlin::kernels::cuda
