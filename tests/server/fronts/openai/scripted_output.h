// SPDX-License-Identifier: Apache-2.0
// Generations as lists of chunks, for tests of translators. Chunks pass as the serving core passes them: one object
// that is cleared and filled again.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http_calls/request_translator.h"
#include "server/http_calls/response_facts.h"
#include "server/serving/output/output_chunk.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// Created at 1700000000, version "9.9.9", variant "avx2".
ResponseFacts TestFacts();

// The byte-level tokenizer of tests/golden/text.
const text::Tokenizer& TestTokenizer();

// Makes a chunk by a chain of calls.
class ChunkScript {
 public:
  // Ends the chunk before and begins one of output `index`. The first of a script has request id "r1", the profile
  // and 5 prompt tokens.
  ChunkScript& Chunk(int32_t index = 0);
  // So many tokens, whose ids count up.
  ChunkScript& Tokens(int32_t count);
  ChunkScript& Text(std::string_view text);
  ChunkScript& Reasoning(std::string_view text);
  ChunkScript& Call(int32_t tool_index, std::string_view id, std::string_view name, std::string_view arguments);
  // A token with its log-probability -0.5 and with the alternatives -0.5 and -1.25.
  ChunkScript& Scored(engine::TokenId id, engine::TokenId other);
  ChunkScript& PromptScored(engine::TokenId id);
  // 5 prompt tokens, 2 of them cached; as many completion tokens as the script gave the output.
  ChunkScript& Finish(engine::FinishReason reason = engine::FinishReason::kStop);
  ChunkScript& StopString(std::string_view stop);
  // The bound that ended it.
  ChunkScript& ConstraintError(std::string_view message);
  ChunkScript& WithToolCalls();
  // Tokens that were guessed of the output that has ended.
  ChunkScript& Drafted(int32_t drafted, int32_t accepted);

  // What the translator appends, from the first chunk to the end. status: of the call.
  std::string Run(RequestTranslator* translator, const absl::Status& status = absl::OkStatus()) const;

 private:
  OutputChunk& last() { return chunks_.back(); }

  std::vector<OutputChunk> chunks_;
  engine::TokenId next_id_ = 10;
};

// Reads a body that is as it must be, and runs the script.
template <class Translator>
std::string Respond(std::string_view body, const ChunkScript& script, const absl::Status& status = absl::OkStatus()) {
  Translator translator(TestFacts());
  ClientRequest request;
  const absl::Status read = translator.Read(body, &request);
  return read.ok() ? script.Run(&translator, status) : read.ToString();
}

}  // namespace dunlin::server
