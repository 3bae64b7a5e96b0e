// How one model is served: bounds and sizes, resolved from the config at start and never changed after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/fp8_recipe.h"
#include "kernels/api/attention.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

// Fused: an operation does all it can in one pass over its rows. Eager: each step of a module is an operation of its
// own, the oracle and the baseline of the fused ones; slower, the same bits on the CPU.
enum class ExecutionMode : uint8_t { kFused, kEager };

struct EngineOptions {
  // Scheduler. A step computes at most max_tokens_per_step tokens over all sub-batches.
  int32_t max_sequences = 64;           // running at once; [1, 1024]
  int32_t max_tokens_per_step = 512;    // [1, 65536]; prefill is chunked to fit
  int32_t max_queued_requests = 256;    // waiting, not yet running
  int64_t max_queued_tokens = 1 << 20;  // prompt tokens waiting
  bool prefix_cache = true;

  // Steps on the device at once, a power of two. With 2 a step is planned and staged while another one runs; as a
  // sequence waits for its last token, the steps then share out the sequences, which pays where planning takes long.
  int32_t steps_in_flight = 1;

  // KV pages: the pool is sized once; what is left after rounding down to whole pages is not used.
  size_t kv_memory_bytes = size_t{64} << 20;
  bool kv_fp8 = false;  // FP8 requests keep keys and values in E4M3, one scale per token and KV head

  int32_t max_context_tokens = 0;  // prompt + output; 0 takes the model's own limit

  Fp8Options fp8;
  ExecutionMode execution = ExecutionMode::kFused;
  // A response must not depend on its batch neighbours: refuses recipes that would make it so.
  bool deterministic = true;

  // Attention backends a server may switch off, as PyTorch's enable_*_sdp do.
  bool enable_flash = true;
  bool enable_efficient = true;
  bool enable_math = true;

  bool enabled(kernels::AttentionBackend backend) const {
    switch (backend) {
      case kernels::AttentionBackend::kMath:
        return enable_math;
      case kernels::AttentionBackend::kFlash:
        return enable_flash;
      case kernels::AttentionBackend::kEfficient:
        return enable_efficient;
    }
    return false;
  }
};

}  // namespace dunlin::engine
