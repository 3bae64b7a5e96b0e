// SPDX-License-Identifier: Apache-2.0
// Storing one head of one token of a fused projection into a page: what rotate_and_store_kv and a GEMM that writes
// pages (GemmParams::heads) share. Thread rule: the tokens of a BF16 pair of a page are stored in ascending order by
// one thread, or each by StoreHalf.
#pragma once

#include "kernels/api/layer_ops.h"
#include "kernels/cpu/context/kernel_table.h"

namespace dunlin::kernels::cpu {

// Whether the operation supports these parameters, whatever the projection holds.
bool ValidHeads(const RotateAndStoreKvParams& params);

// `head` counts the heads of Q, then those of K, then those of V. values: [head_dim] of that head of the token.

// In place: the norm, unless it spans heads, and the rotation of a head of Q or K; the norm of a head of V.
void PrepareHead(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
                 float* values);

// Into the page, rounded to its dtype; of K or V.
void StoreHead(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
               const float* values);

// Whether tokens from `token` on, before `end`, fill a page from its first slot, and StorePage takes pages of this
// layout.
bool FillsPage(const RotateAndStoreKvParams& params, int32_t token, int32_t end);

// StoreHead for all tokens of such a page at once. values: [tokens_per_page, head_dim], rows stride floats apart.
// REQUIRES: FillsPage.
void StorePage(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
               const float* values, int64_t stride);

// A head of V in a BF16 page, without touching the other token of the pair: for a pair whose tokens two threads store.
void StoreHalf(const KernelTable& kernels, const RotateAndStoreKvParams& params, int32_t token, int32_t head,
               const float* values);

// Whether two consecutive tokens of the step are a pair of a BF16 page.
bool ArePair(const RotateAndStoreKvParams& params, int32_t token);  // token and token + 1

}  // namespace dunlin::kernels::cpu
