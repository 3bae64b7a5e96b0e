// SPDX-License-Identifier: Apache-2.0
// The bounds of a request, all in one place: what the fields of engine::Request may be, for a given model. The serving
// core checks a client's request with these functions, in two steps: what does not depend on the prompt comes before
// the prompt is tokenised. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "engine/request/kv_groups.h"
#include "engine/request/options.h"
#include "engine/request/request_field.h"
#include "engine/request/types.h"

namespace dunlin::engine {

inline constexpr size_t kMaxCacheSaltBytes = 128;

// What a request is measured against; const after the engine's construction.
struct RequestLimits {
  int32_t vocab_size = 0;
  int32_t row_columns = 0;                                         // PromptRows::columns; 0: prompts have no rows
  bool image_columns = false;                                      // whether their spans have them, or must not
  int32_t max_context_tokens = 0;                                  // prompt + output
  int64_t max_queued_tokens = 0;                                   // a longer prompt could never be queued
  int32_t num_pages = 0;                                           // of the KV pool
  KvGroups kv_groups;                                              // of the model
  int32_t max_tokens_per_step = 1;                                 // of a sequence, too
  std::array<int32_t, kernels::kNumPrecisions> tokens_per_page{};  // by precision; 0 where the model lacks it
  int32_t min_priority = -kMaxPriority;                            // that clients may ask for
  int32_t max_priority = kMaxPriority;
};

// Each returns the first violation, in the order of the fields; none when the request may run.

// Sampling, stopping, priority, cache salt. max_tokens and min_tokens are held against the whole context here, against
// what the prompt leaves of it by CheckPrompt.
std::optional<Violation> CheckParams(const Request& request, const RequestLimits& limits);
// The sampling fields alone.
std::optional<Violation> CheckSampling(const SamplingParams& sampling, int32_t vocab_size);
// A value of logprobs or prompt_logprobs that a client has given; in SamplingParams -1 stands for "not given".
std::optional<Violation> CheckTopLogprobs(RequestField field, int32_t value);
// The longest prompt that the context leaves room for and the queue takes.
size_t MaxPromptTokens(const RequestLimits& limits);
// How many tokens of a longer one are counted: so that the refusal has the exact number where the prompt is at most
// twice too long, and a hostile one takes at most twice the time of one that is served.
size_t MaxCountedPromptTokens(const RequestLimits& limits);
// Of a prompt with more tokens than are counted: "has more than 2046 tokens".
Violation PromptTooLong(const RequestLimits& limits);
// The tokens of output that context and KV pool have room for after such a prompt; 0 or less: none. The last token
// drawn takes no room in a page. REQUIRES: the model has the precision.
int64_t OutputRoom(size_t prompt_tokens, kernels::Precision precision, const RequestLimits& limits);
// The prompt with its rows, and what it leaves for the output: context, queue and KV pages.
std::optional<Violation> CheckPrompt(const Request& request, const RequestLimits& limits);

// The KV blocks of a precision's pages that routers are told the pool holds. Each counts a page of every group: so many
// fit however long the sequences are. Sequences beyond the window of sliding groups take fewer pages, so that more may
// fit; told as if all were long, a router would send short ones that do not fit. But never fewer than the longest
// request takes, which a router would refuse. The share of the pool that is in use is exact in pages, not in KV blocks.
// REQUIRES: the model has the precision.
int64_t KvBlocks(const RequestLimits& limits, kernels::Precision precision);

// All of them: OK, or INVALID_ARGUMENT with the field's plain name, value and limit: `top_p is 1.5; limit is (0, 1]`.
absl::Status ValidateRequest(const Request& request, const RequestLimits& limits);

}  // namespace dunlin::engine
