// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/layer_context.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

using kernels::KernelStatus;

bool LayerContext::Check(KernelStatus status, const char* op) {
  if (status == KernelStatus::kOk) {
    if (std::atomic<uint64_t>* progress = buffers.progress; progress != nullptr) {
      progress->store(progress->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    return true;
  }
  failed_op = op;
  failed_status = status;
  return false;
}

absl::Status LayerContext::Failure() const {
  const std::string where = layer >= 0 ? absl::StrCat(" in layer ", layer) : "";
  return absl::InternalError(absl::StrCat(failed_op, where, " failed: ", kernels::Name(failed_status)));
}

std::array<kernels::KvLayout, kMaxKvShapes> KvLayoutsOf(const LayerBuffers& buffers, Precision precision) {
  std::array<kernels::KvLayout, kMaxKvShapes> layouts{};
  for (size_t i = 0; i < buffers.kv_shapes.size(); ++i) {
    layouts[i] = KvLayoutOf(buffers.kv_shapes, i, precision, buffers.kv_fp8);
  }
  return layouts;
}

bool CopyHidden(LayerContext* context, const char* op, float* out) {
  const int32_t columns = context->config.hidden_dim;
  const kernels::CopyColumnsParams params{.in = context->rows.hidden,
                                          .in_stride = columns,
                                          .in_block_stride = columns,
                                          .out = out,
                                          .out_stride = columns,
                                          .out_block_stride = columns,
                                          .num_rows = context->rows.count,
                                          .num_blocks = 1,
                                          .columns = columns};
  return context->Run(&kernels::DeviceOps::copy_columns, params, op);
}

}  // namespace dunlin::engine
