// SPDX-License-Identifier: Apache-2.0
// The results of a rerank call. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/serving/output/response_writer.h"

namespace dunlin::server {

struct RankedDocument {
  int32_t index;  // of the request's documents
  float score;
};

// The best documents first, equal scores in the request's order; with in_request_order the same documents in that
// order. REQUIRES: result.rerank is not null.
std::vector<RankedDocument> RankDocuments(const EmbedResult& result, bool in_request_order = false);

}  // namespace dunlin::server
