// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_form.h"

namespace dunlin::engine {
namespace {

constexpr const char* kGgufPrefixes[] = {""};
constexpr const char* kGgufBuffers[] = {kGgufRotaryFactors, kGgufShortFactors, kGgufLongFactors};
// Queries of latent attention without a rank.
constexpr NameAlias kGgufAliases[] = {{"attn_q_b", "attn_q"}};

}  // namespace

CheckpointNames NamesOf(const GgufForm& form) {
  return {.prefixes = kGgufPrefixes, .weights = form.weights, .ignored = kGgufBuffers, .aliases = kGgufAliases};
}

}  // namespace dunlin::engine
