// SPDX-License-Identifier: Apache-2.0
// The benches of `dunlin bench`, one function each: runs the cases that the session's options select and adds their
// records. Errors: INVALID_ARGUMENT naming the bad option; others say what failed.
#pragma once

#include "absl/status/status.h"
#include "tools/bench/session.h"

namespace dunlin::tools::bench {

// Cases gpt2, llama-1b, llama-8b (their layers' matrices, M 256 and 2048), gemv (M 1 and 4), small-batch (M 8, 16, 32);
// or --shape M,N,K.
absl::Status BenchGemm(Session* session);

// Cases mixtral-8x7b, qwen3-30b: the products of a mixture's experts, of 32 and 2048 tokens; or --shape T,E,C,N,K for
// tokens that choose C of E experts each.
absl::Status BenchExperts(Session* session);

// Cases sdpa, xformers (dense), prefill, decode, latent (over KV pages; precision fp8 means E4M3 pages); or --shape
// B,H,S,D. latent: rows of all heads, each seen whole and then as many as 2,048 chosen keys.
absl::Status BenchAttention(Session* session);

// Cases are the named shapes, or --model DIR: prompts of --prompt-tokens, then --new-tokens of each of --batch
// sequences through ModelRuntime. Two records a combination: phase "prefill" (one prompt) and "decode" (one step). With
// --grammar or --adapters one record instead (grammar_bench.h, adapter_bench.h).
absl::Status BenchModel(Session* session);

// Cases te (modules of a layer) and nanogpt (an attention block), each eager and fused; --scale shrinks them.
absl::Status BenchLayer(Session* session);

// Cases plain, top-k, top-p, top-k-p: one draw of each of 64 rows of 128256 logits, or of --shape R,V.
absl::Status BenchSampling(Session* session);

// Cases delta-, mamba- and conv-, each decode and prefill: the operations of recurrent layers; or --shape S,T for
// sequences and tokens of each.
absl::Status BenchRecurrent(Session* session);

// Cases bert-base, minilm-l6 (random weights), or --model DIR: ragged batches of --batch texts of at most
// --prompt-tokens tokens through ModelEncoderRuntime.
absl::Status BenchEncoder(Session* session);

}  // namespace dunlin::tools::bench
