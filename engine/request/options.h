// SPDX-License-Identifier: Apache-2.0
// How one model is served: limits and sizes, resolved from the config at start and constant afterwards.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/request/adapter_lease.h"
#include "engine/request/fp8_recipe.h"
#include "engine/request/types.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

// Fused: the steps of a module run as one operation where the device has one. Eager: every step is an operation of its
// own; slower, with the same bits on the CPU: the oracle and baseline of fused execution.
enum class ExecutionMode : uint8_t { kFused, kEager };

// The config key that enables a backend is this and the backend's name: attention.enable_flash.
inline constexpr char kEnableBackendKey[] = "attention.enable_";

inline constexpr int32_t kMaxPriority = 100;  // of a request; [-100, 100]

// Of KvEventLog: what enters and leaves the prefix cache, for routers.
struct KvEventOptions {
  int32_t max_batches = 0;             // kept for readers; 0: no log
  ExecutionProfile default_profile{};  // of requests that choose nothing
};

// How the KV pool gets its memory, of a device that can back it later (kernels/api/device.h, DeviceOps::reserve).
struct KvBackingOptions {
  // Host memory in bytes that the process may still take; called on the thread that backs the pool. Null: the whole
  // pool is backed before a runtime is made.
  std::function<size_t()> memory_left;
  // The pool is backed, or has got no more memory than for so many of its pages. Called once, on the same thread. May
  // be null.
  std::function<void(int32_t num_pages, int32_t of)> on_end;
  // Backed before a runtime is made: without so much it is refused. At 0.4 GB/s 0.2 s.
  size_t first_bytes = size_t{64} << 20;
};

struct EngineOptions {
  // Scheduler. A step computes at most max_tokens_per_step tokens over all sub-batches.
  int32_t max_sequences = 64;           // running at once; [1, 1024]
  int32_t max_tokens_per_step = 512;    // [1, 65536]; prefill is chunked to fit
  int32_t max_queued_requests = 256;    // waiting, not yet running
  int64_t max_queued_tokens = 1 << 20;  // prompt tokens waiting
  bool prefix_cache = true;
  KvEventOptions kv_events;
  // While a sequence draws tokens, prompts are divided so that a step takes about this long; 0: by tokens alone.
  int32_t step_time_target_ms = 200;

  // While a step runs the next one is planned, staged and enqueued, over tokens that the device has not drawn yet: it
  // does not wait for the host between two steps. Where a sequence cannot go on so (a constraint, penalties, bad words,
  // guesses), the next step waits. Results are the same (tests/integration/model/device_steps_test.cc,
  // tests/simulation).
  bool plan_ahead = true;
  // Steps in flight at once, 1 or 2; no config key sets it. 0: 2 where steps can be planned ahead (memory_plan.h),
  // else 1.
  int32_t steps_in_flight = 0;

  // Where a grammar leaves a single token, again and again, so many are appended behind a drawn one without a draw of
  // their own, and computed in one step; 0: none. No config key sets it: results are the same
  // (tests/engine/loop/forced_tokens_test.cc). 32 masks of a common grammar take about as long as a step.
  int32_t max_forced_tokens = 32;

  // Request::max_drafts of requests that leave it open; 0: no speculation.
  int32_t max_drafts = 0;
  int32_t draft_limit = kMaxDrafts;  // of any request: a sink must have room for so many tokens at once
  // Guesses are verified only while that is expected to pay. No config key sets it: results are the same
  // (tests/integration/model/speculation_bits_test.cc).
  bool adapt_drafts = true;

  // KV pages: the pool is sized once; what is left after rounding down to whole pages is not used.
  size_t kv_memory_bytes = size_t{64} << 20;
  KvBackingOptions kv_backing;
  // Pages behind the window of sliding layers are given back while their sequence runs. No config key sets it: results
  // are the same (tests/integration/model).
  bool free_pages_behind_windows = true;
  bool kv_fp8 = false;  // FP8 requests keep keys and values in E4M3, one scale per token and KV head

  int32_t max_context_tokens = 0;  // prompt + output; 0 takes the model's own limit

  AdapterLimits adapters;  // with adapters a runtime has buffers for them; AdapterSet has the same limits

  Fp8Options fp8;
  ExecutionMode execution = ExecutionMode::kFused;
  // A response must not depend on its batch neighbours: recipes that would make it depend on them are refused.
  bool deterministic = true;

  // Attention backends that requests may use, by AttentionBackend. The config may disable some, as PyTorch's
  // enable_*_sdp do.
  std::bitset<kernels::kNumAttentionBackends> attention_backends = std::bitset<kernels::kNumAttentionBackends>().set();

  // What clients may ask for of this model. A profile with anything else is not supported.
  std::bitset<kernels::kNumAttentionBackends> allowed_backends = std::bitset<kernels::kNumAttentionBackends>().set();
  std::bitset<kernels::kNumPrecisions> allowed_precisions = std::bitset<kernels::kNumPrecisions>().set();
  int32_t min_priority = -kMaxPriority;
  int32_t max_priority = kMaxPriority;

  bool enabled(kernels::AttentionBackend backend) const { return attention_backends[static_cast<size_t>(backend)]; }
  void Enable(kernels::AttentionBackend backend, bool on) { attention_backends[static_cast<size_t>(backend)] = on; }
};

}  // namespace dunlin::engine
