// SPDX-License-Identifier: Apache-2.0
// The three algorithms, each with the size of its workspace. MATH materialises whole score rows, FLASH keeps a running
// softmax over key tiles, EFFICIENT reduces fixed chunks of keys alone and merges them in order.
// Thread rule: Run* may be called from any thread; the work runs on the context's pool. Run* allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/call.h"

namespace dunlin::kernels::cpu {

struct DeviceContext;

// The table of a context's variant for pages of this dtype and heads of these dimensions. exact_codes: multiplies E4M3
// codes as floats, without rounding queries and weights.
const TileOps& SelectTileOps(const DeviceContext& context, bool exact_codes, DType kv_dtype, int32_t head_dim,
                             int32_t v_head_dim);

// What the size of a workspace depends on; bounds on a call.
struct WorkspaceNeed {
  int32_t head_dim;
  int32_t v_head_dim;
  int32_t num_kv_heads;
  int64_t rows;    // packed query rows of one sequence and KV head
  int32_t kv_len;  // keys of one sequence
  int num_threads;
  const TileOps* ops;            // the call's, not a bound
  int64_t made_value_bytes = 0;  // MadeValueBytes of the call, not a bound
  int32_t batch = 1;             // sequences; read by dense MATH
};

// Rows of the largest blocks, a multiple of kBlockRows: a tile widened for more rows is widened less often.
int FlashBlockRows(const WorkspaceNeed& need);
size_t FlashWorkspace(const WorkspaceNeed& need);
// workspace was sized by FlashWorkspace(need), need a bound of call.
void RunFlash(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace);

size_t EfficientWorkspace(const WorkspaceNeed& need);
// workspace was sized by EfficientWorkspace(need), need a bound of call.
void RunEfficient(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace);

// Paged MATH: S of one block of rows at a time per worker.
size_t MathWorkspace(const WorkspaceNeed& need);
void RunMath(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace);

// Dense MATH: S of the whole call, three passes over it, as PyTorch's MATH.
size_t DenseMathWorkspace(const WorkspaceNeed& need);
void RunDenseMath(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace);

}  // namespace dunlin::kernels::cpu
