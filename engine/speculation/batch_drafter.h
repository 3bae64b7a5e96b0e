// SPDX-License-Identifier: Apache-2.0
// Guesses at the next tokens of several sequences at once: a model that computes them as a batch (engine/draft_model).
// A wrong guess costs a row of a step and changes no output.
// Thread rule: the engine thread only, but for progress().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// One sequence of a call.
struct DraftDemand {
  RequestId sequence_id = 0;        // no other sequence ever has it
  std::span<const TokenId> tokens;  // all that are known, those of the call before and more
  ExecutionProfile profile = {};
  int32_t max_drafts = 0;  // > 0
  std::span<const int32_t> pages =
      {};  // ids of the sequence's, where it writes_pages(): [page sets, KvGroups::count()]
  std::vector<TokenId>* guesses = nullptr;  // empty, with capacity for max_drafts
};

// What a call computed.
struct DraftWork {
  int32_t rounds = 0;  // forward passes
  int32_t rows = 0;    // of all of them
};

class BatchDrafter {
 public:
  virtual ~BatchDrafter() = default;
  // Sequences of one call.
  virtual int32_t max_sequences() const = 0;
  // Whether it computes in the pages of the sequences: then they cover max_drafts positions from the last known token
  // on, all of which no step has computed.
  virtual bool writes_pages() const { return false; }
  // Appends guesses at the tokens that follow, in order; fewer than asked for, or none, where it has not caught up with
  // the known tokens, or has no memory for the sequence. Allocates nothing. An error: the device failed.
  virtual absl::StatusOr<DraftWork> Draft(std::span<const DraftDemand> demands) = 0;
  // Advances during a long call (Runtime::progress). Any thread.
  virtual uint64_t progress() const { return 0; }
};

}  // namespace dunlin::engine
