// SPDX-License-Identifier: Apache-2.0
// Chunks of the serving core as vllm.GenerateResponse: each as a message of its own, or all of them as one.
// Owner: the call. Thread rule: one thread at a time.
#pragma once

#include <utility>

#include "server/fronts/vllm/generate_request.h"
#include "server/serving/output/output_chunk.h"
#include "vllm/inference.pb.h"

namespace dunlin::server {

class VllmResponses {
 public:
  VllmResponses() = default;
  explicit VllmResponses(VllmResponseFields fields) : fields_(std::move(fields)) {}

  // Adds a chunk to *wire. False while *wire is not to be sent yet: it has nothing, or the scores of the prompt's
  // tokens, which are complete once a chunk has something of an output.
  bool Add(const OutputChunk& chunk, ::vllm::GenerateResponse* wire) const;

 private:
  void AddPrompt(const OutputChunk& chunk, ::vllm::PromptInfo* wire) const;
  void AddOutput(const OutputChunk& chunk, ::vllm::SequenceOutput* wire) const;
  void AddFinish(const OutputFinish& finish, ::vllm::FinishInfo* wire) const;

  VllmResponseFields fields_;
};

}  // namespace dunlin::server
