// SPDX-License-Identifier: Apache-2.0
// The table of drafters.
#include "engine/speculation/drafter.h"
#include "engine/speculation/ngram_drafter.h"

namespace dunlin::engine {
namespace {

template <typename D>
std::unique_ptr<Drafter> Make(std::span<const TokenId> prompt, int32_t max_tokens) {
  return std::make_unique<D>(prompt, max_tokens);
}

constexpr DrafterTraits kDrafters[] = {
    {"ngram", Make<NgramDrafter>},
};

}  // namespace

std::span<const DrafterTraits> DrafterTable() {
  return kDrafters;
}

}  // namespace dunlin::engine
