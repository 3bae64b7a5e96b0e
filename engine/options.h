// How one model is served: bounds and sizes, resolved from the config at start and never changed after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct EngineOptions {
  // Scheduler. A step computes at most max_tokens_per_step tokens over all sub-batches.
  int32_t max_sequences = 64;           // running at once; [1, 1024]
  int32_t max_tokens_per_step = 512;    // [1, 65536]; prefill is chunked to fit
  int32_t max_queued_requests = 256;    // waiting, not yet running
  int64_t max_queued_tokens = 1 << 20;  // prompt tokens waiting
  bool prefix_cache = true;

  // KV pages: the pool is sized once; what is left after rounding down to whole pages is not used.
  size_t kv_memory_bytes = size_t{64} << 20;

  int32_t max_context_tokens = 0;  // prompt + output; 0 takes the model's own limit

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
