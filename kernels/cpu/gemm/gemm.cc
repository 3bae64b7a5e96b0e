// SPDX-License-Identifier: Apache-2.0
// GEMM launcher: cuts the product into blocks of rows by panels, never into parts of K, and runs them on the pool.
#include "kernels/cpu/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/activation/round_columns.h"
#include "kernels/cpu/attention/rotary.h"
#include "kernels/cpu/attention/store_kv.h"
#include "kernels/cpu/gemm/gemm_grid.h"
#include "kernels/cpu/gemm/gemm_rows.h"
#include "kernels/cpu/gemm/group_sums.h"
#include "kernels/cpu/gemm/packed_layout.h"
#include "kernels/cpu/rows/layer_ops.h"

namespace dunlin::kernels::cpu {
namespace {

// Fewer rows are stored to `out` first: they are few bytes, and blocks of whole heads would leave too few tasks.
constexpr int64_t kStoredRowsMin = 64;

// The smallest number of panels that holds whole heads.
int64_t PanelsOfHeads(const RotateAndStoreKvParams& heads) {
  return std::lcm<int64_t>(kPanelColumns, heads.layout.shape.head_dim) / kPanelColumns;
}

bool ValidHeadsOf(const GemmParams& p) {
  const RotateAndStoreKvParams& heads = *p.heads;
  return p.next == nullptr && p.residual == nullptr && heads.qkv == p.out && heads.num_tokens == p.num_rows &&
         p.out_stride == p.weight->out_features && ValidHeads(heads);
}

bool ValidOutput(const GemmParams& p) {
  if (p.heads != nullptr && !ValidHeadsOf(p)) return false;
  if (p.weight->gated && (p.weight->out_features % 2 != 0 || p.residual != nullptr || p.heads != nullptr)) return false;
  if (p.next == nullptr) return p.out != nullptr && p.out_stride >= p.weight->out_features;
  return p.out == nullptr && p.residual == nullptr && p.next->data != nullptr && p.next->data != p.in->data &&
         p.next->columns == FeaturesInOrder(*p.weight) && p.num_rows <= p.next->capacity_rows;
}

GemmKernel* KernelOf(const KernelTable& kernels, const PackedWeight& weight) {
  const auto format = static_cast<size_t>(weight.format);
  return weight.int8_inputs ? kernels.int8_gemm[format] : kernels.gemm[format];
}

// A task's first row and column.
struct Origin {
  int64_t row;
  int64_t column;
};

// first_row: of the product.
Origin OriginOf(const GemmGrid& grid, int64_t first_row, int64_t task) {
  return {first_row + task / grid.panel_groups * grid.rows_per_block,
          grid.FirstPanel(task % grid.panel_groups) * kPanelColumns};
}

// The block of a task, without its output.
GemmBlock MakeBlock(const GemmParams& p, const GemmGrid& grid, int64_t task, const Origin& origin) {
  const PackedWeight& weight = *p.weight;
  const auto [row, column] = origin;
  const int64_t panel = column / kPanelColumns;
  const int64_t end = grid.FirstPanel(task % grid.panel_groups + 1) * kPanelColumns;
  const int64_t columns = std::min(weight.out_features, end) - column;
  const auto* data = static_cast<const std::byte*>(weight.data);

  GemmBlock block{};
  block.activation = ActivationRow(*p.in, row);
  block.activation_stride = ActivationStride(weight.in_features);
  block.panel_bytes = PanelBytes(weight.format, weight.in_features);
  block.panels = data + static_cast<size_t>(panel) * block.panel_bytes;
  if (weight.int8_inputs) {
    block.activation = CodedRow(*p.in, row);
    block.activation_stride = CodedRowStride(weight.in_features);
  }
  if (IsGrouped(weight.format)) {
    block.group_scales = PanelGroupScales(weight, panel);
    block.group_scale_bytes = GroupScaleBytes(weight.format, weight.in_features);
    block.groups = NumGroups(weight.format, weight.in_features);
    block.group_sum_offset =
        weight.int8_inputs ? InputGroupOffset(weight.in_features) : GroupSumOffset(weight.in_features);
  }
  if (weight.format == WeightFormat::kE4M3) {
    block.activation_scale = ActivationScales(*p.in, row);
    block.weight_scale = PanelScales(weight, panel);
    block.scales_per_row = ScalesPerRow(weight.scale_block, weight.in_features);
  }
  block.padded_depth = PaddedDepth(weight.format, weight.in_features);
  // A gated weight's bias is added when its columns are reordered.
  block.bias = p.bias == nullptr || weight.gated ? nullptr : p.bias + column;
  block.rows = static_cast<int32_t>(std::min<int64_t>(p.num_rows - row, grid.rows_per_block));
  block.columns = static_cast<int32_t>(columns);
  return block;
}

// Columns of a gate and the columns that they gate, of one row.
struct GatedColumns {
  int64_t first;  // of the gate
  int64_t count;
  float* gate;
  float* gated;
};

// The columns of a row of a block, from the stored column `first` on, with their bias.
template <typename Body>
void ForEachGated(const GemmParams& p, int64_t first, int64_t columns, float* values, const Body& body) {
  const int64_t half = p.weight->out_features / 2;
  for (int64_t column = 0; column < columns; column += 2 * kPanelColumns) {
    const int64_t feature = (first + column) / 2;
    const int64_t count = std::min(half - feature, kPanelColumns);
    const GatedColumns at{feature, count, values + column, values + column + count};
    for (int64_t i = 0; p.bias != nullptr && i < count; ++i) {
      at.gate[i] += p.bias[feature + i];
      at.gated[i] += p.bias[half + feature + i];
    }
    body(at);
  }
}

// The block's output, still in the cache, in the order of the features.
void StoreInOrder(const GemmParams& p, const Origin& origin, const GemmBlock& block) {
  for (int64_t row = 0; row < block.rows; ++row) {
    float* out = p.out + (origin.row + row) * p.out_stride;
    ForEachGated(p, origin.column, block.columns, block.out + row * block.out_stride, [&](const GatedColumns& at) {
      const size_t bytes = static_cast<size_t>(at.count) * sizeof(float);
      std::memcpy(out + at.first, at.gate, bytes);
      std::memcpy(out + p.weight->out_features / 2 + at.first, at.gated, bytes);
    });
  }
}

// The block's output, still in the cache, as columns of the next product's input; for a gated weight.
void StoreGated(const KernelTable& kernels, const GemmParams& p, const Origin& origin, const GemmBlock& block) {
  for (int64_t row = 0; row < block.rows; ++row) {
    float* values = block.out + row * block.out_stride;
    float* end = values;
    ForEachGated(p, origin.column, block.columns, values, [&](const GatedColumns& at) {
      kernels.activate(p.activation, at.gate, at.gated, at.count, end);
      end += at.count;
    });
    RoundColumns(kernels, *p.next, origin.row + row, origin.column / 2, end - values, values);
  }
}

// The same for a weight that is not gated.
void StoreActivated(const KernelTable& kernels, const GemmParams& p, const Origin& origin, const GemmBlock& block) {
  for (int64_t row = 0; row < block.rows; ++row) {
    float* values = block.out + row * block.out_stride;
    kernels.activate(p.activation, values, nullptr, block.columns, values);
    RoundColumns(kernels, *p.next, origin.row + row, origin.column, block.columns, values);
  }
}

// The block's output, still in the cache, as heads.
void StoreHeads(const KernelTable& kernels, const GemmParams& p, const Origin& origin, const GemmBlock& block) {
  const RotateAndStoreKvParams& heads = *p.heads;
  const KvShape& shape = heads.layout.shape;
  const bool pairs = heads.layout.dtype == DType::kBF16;
  const auto first_token = static_cast<int32_t>(origin.row);
  const int32_t last_token = first_token + block.rows - 1;
  for (int32_t token = first_token, tokens = 1; token <= last_token; token += tokens) {
    float* row = block.out + (token - first_token) * block.out_stride;
    tokens = FillsPage(heads, token, last_token + 1) ? heads.layout.tokens_per_page : 1;
    // Where the block's end splits a pair, another thread stores the other token.
    const bool cut = pairs && ((token == first_token && token > 0 && ArePair(heads, token - 1)) ||
                               (token == last_token && ArePair(heads, token)));
    for (int64_t column = 0; column < block.columns; column += shape.head_dim) {
      const auto head = static_cast<int32_t>((origin.column + column) / shape.head_dim);
      float* values = row + column;
      for (int32_t t = 0; t < tokens; ++t) {
        float* of_token = values + t * block.out_stride;
        PrepareHead(kernels, heads, token + t, head, of_token);
        if (head >= heads.num_heads) continue;
        std::memcpy(p.out + (token + t) * p.out_stride + origin.column + column, of_token,
                    static_cast<size_t>(shape.head_dim) * sizeof(float));
      }
      if (head < heads.num_heads) continue;
      if (tokens > 1) {
        StorePage(kernels, heads, token, head, values, block.out_stride);
      } else if (cut && head >= heads.num_heads + shape.num_kv_heads) {
        StoreHalf(kernels, heads, token, head, values);
      } else {
        StoreHead(kernels, heads, token, head, values);
      }
    }
  }
}

void RunTask(const DeviceContext& context, const GemmParams& p, const GemmGrid& grid, int64_t first_row, int64_t task,
             std::byte* scratch) {
  GemmKernel* kernel = KernelOf(context.kernels, *p.weight);
  const Origin origin = OriginOf(grid, first_row, task);
  GemmBlock block = MakeBlock(p, grid, task, origin);
  block.scratch = scratch;
  if (p.next != nullptr || p.heads != nullptr || p.weight->gated) {
    block.out = reinterpret_cast<float*>(scratch + kScratchBytes);
    block.out_stride = RoundUp(block.columns, kPanelColumns);
    kernel(block);
    if (p.heads != nullptr) return StoreHeads(context.kernels, p, origin, block);
    if (p.next == nullptr) return StoreInOrder(p, origin, block);
    return p.weight->gated ? StoreGated(context.kernels, p, origin, block)
                           : StoreActivated(context.kernels, p, origin, block);
  }
  block.out = p.out + origin.row * p.out_stride + origin.column;
  block.out_stride = p.out_stride;
  block.residual = p.residual == nullptr ? nullptr : p.residual + origin.row * p.out_stride + origin.column;
  kernel(block);
}

// The number of panels of a task is a multiple of this.
int64_t PanelUnit(const GemmParams& p) {
  if (p.heads != nullptr) return PanelsOfHeads(*p.heads);
  return p.weight->gated ? 2 : 1;
}

}  // namespace

bool TakesWholeRows(const Activation& next) {
  return next.precision == Precision::kFp8 || next.amax != nullptr;
}

bool IsValid(const KernelTable& kernels, const GemmParams& p) {
  if (p.in == nullptr || p.weight == nullptr || p.num_rows < 0 || !ValidOutput(p)) return false;
  const PackedWeight& weight = *p.weight;
  return KernelOf(kernels, weight) != nullptr && weight.data != nullptr && weight.out_features > 0 &&
         weight.in_features > 0 && p.in->data != nullptr && weight.precision == Traits(weight.format).compute &&
         p.in->precision == weight.precision && p.in->columns == weight.in_features &&
         p.in->scale_block == weight.scale_block && p.num_rows <= p.in->capacity_rows;
}

void PrepareInput(DeviceContext* context, const Activation& in, const PackedWeight& weight, int32_t num_rows) {
  const WeightFormatTraits& traits = Traits(weight.format);
  if (weight.int8_inputs) {
    RoundInputs(context, in, traits.format, num_rows);
  } else if (traits.offsets()) {
    WriteGroupSums(context, in, traits.group, num_rows);
  }
}

void MultiplyRows(DeviceContext* context, const GemmParams& params, int64_t first_row) {
  const auto num_rows = static_cast<int32_t>(params.num_rows - first_row);
  const GemmGrid grid = MakeGemmGrid(num_rows, *params.weight, context->kernels.gemm_rows, context->pool.num_threads(),
                                     PanelUnit(params));
  // Panels are innermost: the rows of a block stay in the cache while the weight streams by.
  context->pool.Run(grid.num_tasks(), [&](int64_t task, int worker) {
    RunTask(*context, params, grid, first_row, task, context->scratch(worker));
  });
}

Activation FloatsIn(const Activation& next) {
  Activation floats = next;
  floats.precision = Precision::kFp32;
  floats.amax = nullptr;
  return floats;
}

KernelStatus RoundFloats(DeviceContext* context, const Activation& floats, Activation* next, int32_t num_rows) {
  return Quantize(context, {.in = static_cast<const float*>(floats.data),
                            .in_stride = static_cast<int64_t>(ActivationStride(floats.columns) / sizeof(float)),
                            .out = next,
                            .num_rows = num_rows});
}

bool GemmFuses(DeviceContext*, const GemmParams& params) {
  if (params.heads != nullptr) {
    const KvShape& shape = params.heads->layout.shape;
    return params.next == nullptr && !params.heads->joint_norms && !params.heads->query_only &&
           shape.head_dim % 2 == 0 && PanelsOfHeads(*params.heads) <= kGemmPanelsMax &&
           params.weight->out_features == (params.heads->num_heads + 2 * int64_t{shape.num_kv_heads}) * shape.head_dim;
  }
  return params.next != nullptr;
}

KernelStatus Gemm(DeviceContext* context, const GemmParams& params) {
  if (!IsValid(context->kernels, params)) return KernelStatus::kInvalidArgument;
  if ((params.next != nullptr || params.heads != nullptr) && !GemmFuses(context, params)) {
    return KernelStatus::kUnsupported;
  }
  if (params.num_rows == 0) return KernelStatus::kOk;
  if (params.heads != nullptr && params.num_rows < kStoredRowsMin) {
    GemmParams product = params;
    product.heads = nullptr;
    const KernelStatus status = Gemm(context, product);
    return status == KernelStatus::kOk ? RotateAndStoreKv(context, *params.heads) : status;
  }
  PrepareInput(context, *params.in, *params.weight, params.num_rows);
  if (params.next == nullptr || !TakesWholeRows(*params.next)) {
    MultiplyRows(context, params, 0);
    return KernelStatus::kOk;
  }
  Activation floats = FloatsIn(*params.next);
  GemmParams product = params;
  product.next = &floats;
  MultiplyRows(context, product, 0);
  return RoundFloats(context, floats, params.next, params.num_rows);
}

}  // namespace dunlin::kernels::cpu
