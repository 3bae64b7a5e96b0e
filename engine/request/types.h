// SPDX-License-Identifier: Apache-2.0
// What the engine and the server exchange: requests, profiles, outputs. Plain data, no locks, no wire types.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/request/adapter_lease.h"
#include "engine/request/fp8_recipe.h"
#include "engine/request/prompt_rows.h"
#include "engine/request/token_constraint.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

using kernels::AttentionBackend;
using kernels::DeviceKind;
using kernels::Precision;

using RequestId = uint64_t;
// On whose behalf a request comes, for fair shares (scheduler/tenants.h). Requests without a name are one tenant.
using TenantId = uint64_t;
inline constexpr TenantId kSharedTenant = 0;
inline constexpr int64_t kMaxVocabSize = int64_t{1} << 22;  // token ids of any tokenizer or model

// Hard limits of one request, whatever the config says; the server checks them before it allocates anything.
using kernels::kMaxTopLogprobs;
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxStopTokenIds = 64;
inline constexpr int kMaxAllowedTokenIds = 1024;
inline constexpr int kMaxSuppressedTokenIds = 1024;  // of each of the two lists
inline constexpr int kMaxBadWords = 256;             // token sequences
inline constexpr int kMaxBadWordTokens = 64;         // of one
inline constexpr int kMaxOutputsPerRequest = 8;      // sampling.n
inline constexpr int kMaxDrafts = 16;                // tokens that a step guesses of one sequence
inline constexpr int kAutoDrafts = 8;                // of these where speculation is "auto"

// Nanoseconds of a monotonic clock (clock.h).
using TimeNs = int64_t;
inline constexpr TimeNs kNoDeadline = std::numeric_limits<TimeNs>::max();

// What runs a sequence from its first token to its last. Resolved once, at admission.
struct ExecutionProfile {
  DeviceKind device = DeviceKind::kCpu;
  AttentionBackend attention_backend = AttentionBackend::kFlash;
  Precision precision = Precision::kBf16;
  Fp8Recipe fp8_recipe = Fp8Recipe::kPerToken;  // of kFp8; the model's, the same in all its profiles
  bool kv_fp8 = false;                          // keys and values in E4M3 instead of the precision's own dtype
  // The weights are the integer codes of the model's checkpoint. The same in all profiles of a precision.
  bool checkpoint_quantization = false;
  bool int8_inputs = false;  // of kInt8 and kInt4: products round their inputs to 8 bits in groups; the model's choice

  kernels::DType kv_dtype() const { return kv_fp8 ? kernels::DType::kF8E4M3 : kernels::Traits(precision).kv_dtype; }
  // Whether K and V depend on the sequence's tokens alone: only then may its pages be found by another one.
  bool shares_pages() const { return precision != Precision::kFp8 || Traits(fp8_recipe).deterministic; }
  friend bool operator==(const ExecutionProfile&, const ExecutionProfile&) = default;
};

// What a request asks for; an empty field is AUTO.
struct ExecutionChoice {
  std::optional<DeviceKind> device;
  std::optional<AttentionBackend> attention_backend;
  std::optional<Precision> precision;
  bool allow_fallback = false;        // a named backend that does not fit may be replaced, in AUTO's order
  std::optional<int32_t> max_drafts;  // Request::max_drafts
};

// The numeric parameters, their ranges and names: draw_params.h.
struct SamplingParams : kernels::DrawParams {
  std::vector<std::pair<TokenId, float>> logit_bias;  // <= kMaxLogitBias, values in [-100, 100]
  std::vector<TokenId> allowed_token_ids;             // <= kMaxAllowedTokenIds; nothing else is drawn; empty: all
  std::vector<TokenId> suppressed_token_ids;          // <= kMaxSuppressedTokenIds; never drawn
  std::vector<TokenId> begin_suppressed_token_ids;    // <= kMaxSuppressedTokenIds; not drawn as the first of the output
  // <= kMaxBadWords sequences of 1 to kMaxBadWordTokens tokens: the last token of one is not drawn where the prompt and
  // the output so far end with its others.
  std::vector<std::vector<TokenId>> bad_words;
  uint64_t seed = 0;             // the server draws one if the request has none
  int32_t logprobs = -1;         // -1 none, 0 of the chosen token, N also of the N most likely
  int32_t prompt_logprobs = -1;  // as logprobs, for prompt tokens 1..; such a request reads no prefix cache
};

struct StoppingParams {
  int32_t max_tokens = 16;              // >= 1; prompt + max_tokens <= the model's context
  int32_t min_tokens = 0;               // output before any stop token (eos included) can be drawn
  std::vector<TokenId> stop_token_ids;  // <= kMaxStopTokenIds
  bool ignore_eos = false;
};

// One sequence to generate. Every field has been checked by Engine::Validate before Submit.
struct Request {
  std::vector<TokenId> prompt;  // >= 1 token, each in [0, vocab_size) or, where `rows` has a row, a row token
  SamplingParams sampling;
  StoppingParams stopping;
  ExecutionProfile profile;
  int32_t output_index = 0;  // which of the n outputs of a client request
  int32_t priority = 0;      // higher runs first; equal ones in order of arrival
  TenantId tenant = kSharedTenant;
  TimeNs arrival = 0;
  TimeNs deadline = kNoDeadline;
  std::string cache_salt;            // prefix pages are shared only between equal salts; <= 128 bytes
  bool bypass_prefix_cache = false;  // takes no pages that others have computed; its own are published all the same
  // Tokens that a step may guess of it beyond those known, [0, kMaxDrafts]; 0: none; empty: the model's default. No
  // output depends on it.
  std::optional<int32_t> max_drafts;
  std::shared_ptr<const TokenConstraint> constraint;  // what the output must match; null: anything
  std::shared_ptr<const PromptRows> rows;             // of the prompt's row tokens; null: it has none
  AdapterLease adapter;                               // AdapterSet::Lookup of the model's; empty: the base
};

// One generated (or scored prompt) token.
using kernels::TokenOutput;
using kernels::TopLogprob;

enum class FinishReason : uint8_t {
  kStop,          // end-of-sequence, a stop token id, or (through Engine::Cancel) a stop string
  kLength,        // max_tokens
  kConstraint,    // no token continues what Request::constraint demands, or a bound of its computation was exceeded
  kCancelled,     // the client disconnected or cancelled
  kDeadline,      // the deadline passed, queued or running
  kSlowReader,    // the sink was full, because the client does not read
  kNumerical,     // the logits row held NaN or no finite value
  kPoolTooSmall,  // the KV pool has got less memory than planned, and the sequence needs more pages than it has
  kShutdown,      // the server is shutting down
  kInternal,      // the device failed
};

struct FinishInfo {
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token_id;  // the token that ended it, for kStop
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, taken from the prefix cache, at admission or later
  int32_t completion_tokens = 0;
  TimeNs arrival = 0;
  TimeNs first_scheduled = 0;  // 0 when it never was
  TimeNs first_token = 0;      // 0 when there was none
  TimeNs finished = 0;
  int32_t preemptions = 0;
  int32_t drafted_tokens = 0;   // guessed and verified
  int32_t accepted_tokens = 0;  // of these, drawn
};

// Where a sequence's output goes. All calls come from the engine thread, in order. OnToken and OnPromptToken store,
// OnStepEnd wakes: they neither block, nor allocate, nor call the engine.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  // One generated token, also the one that stops the sequence. False means the sink is full: the engine then ends the
  // sequence with kSlowReader.
  [[nodiscard]] virtual bool OnToken(const TokenOutput& token) = 0;
  // Scores of a prompt token at `position` >= 1, ascending; only when prompt_logprobs was asked for.
  virtual void OnPromptToken(int32_t position, const TokenOutput& token) = 0;
  // All sequences of a step have been given their tokens: sinks with one consumer wake it once. Not after OnFinish.
  virtual void OnStepEnd() {}
  // The last call, exactly once for every submitted request. It may call Engine::stats and Engine::Cancel, allocate,
  // and work for some tens of microseconds when no other request is live; it does not block.
  virtual void OnFinish(const FinishInfo& info) = 0;
};

}  // namespace dunlin::engine
