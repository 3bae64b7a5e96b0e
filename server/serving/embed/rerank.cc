// SPDX-License-Identifier: Apache-2.0
#include "server/serving/embed/rerank.h"

#include <algorithm>
#include <cmath>

namespace dunlin::server {
namespace {

float Sigmoid(float logit) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logit))));
}

}  // namespace

std::vector<RankedDocument> RankDocuments(const EmbedResult& result, bool in_request_order) {
  std::vector<RankedDocument> ranked;
  for (const float logit : result.call.vectors) {
    ranked.push_back({static_cast<int32_t>(ranked.size()), result.rerank->sigmoid ? Sigmoid(logit) : logit});
  }
  // By the logits, which differ where their sigmoids are rounded to the same number.
  const std::vector<float>& logits = result.call.vectors;
  std::stable_sort(ranked.begin(), ranked.end(), [&logits](const RankedDocument& a, const RankedDocument& b) {
    return logits[static_cast<size_t>(a.index)] > logits[static_cast<size_t>(b.index)];
  });
  const size_t limit = static_cast<size_t>(result.rerank->top_n.value_or(static_cast<int32_t>(ranked.size())));
  ranked.resize(std::min(ranked.size(), limit));
  if (in_request_order) {
    std::sort(ranked.begin(), ranked.end(),
              [](const RankedDocument& a, const RankedDocument& b) { return a.index < b.index; });
  }
  return ranked;
}

}  // namespace dunlin::server
