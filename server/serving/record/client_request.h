// SPDX-License-Identifier: Apache-2.0
// Client requests, independent of the protocol. A front end fills these structs from its wire format and validates only
// that format; the serving core checks the bounds of every field (engine/loop/validate.h, check_request.h).
// Plain data. An empty optional means the model's default.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "engine/request/draw_params.h"
#include "engine/request/types.h"
#include "server/access/principal.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/ignored_names.h"
#include "server/serving/record/trace_context.h"
#include "text/chat_template.h"
#include "text/grammar_source.h"

namespace dunlin::server {

// What is known of a call before its message is read.
struct ClientCall {
  Principal principal;
  engine::TimeNs arrival = 0;                        // ServingCore::now() when the call opened
  engine::TimeNs deadline = engine::kNoDeadline;     // on the same clock
  size_t message_bytes = 0;                          // size of the request on the wire
  std::optional<TraceContext> trace = std::nullopt;  // none: the server exports no spans
};

// Text (in which special tokens are plain text), token ids or a chat; none if the client gave no prompt.
using ClientPrompt = std::variant<std::monostate, std::string, std::vector<engine::TokenId>, text::ChatInput>;

struct ClientSampling : engine::DrawParamOverrides {
  std::vector<std::pair<engine::TokenId, float>> logit_bias;  // in any order
  std::vector<engine::TokenId> allowed_token_ids;             // in any order; empty allows all
  std::vector<std::vector<engine::TokenId>> bad_words_ids;    // these and bad_words join the model's own
  std::vector<std::string> bad_words;
  bool greedy_by_default = false;  // without a temperature, here and in the model's own defaults: 0
  bool ignore_model_bans = false;  // drop the model's own suppressed tokens and bad words
  std::optional<uint64_t> seed;    // drawn when empty
};

struct ClientStopping {
  // Empty: what context and KV pool leave, at most limits.default_max_tokens and the model's max_new_tokens. 0: none is
  // generated; the prompt is computed, scored and echoed as asked.
  std::optional<int32_t> max_tokens;
  bool clamp_max_tokens = false;  // lower max_tokens to what context and KV pool leave instead of refusing it
  int32_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<engine::TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;  // keep a matched stop string, or the text of a stop token, in the output
};

struct ClientOutput {
  std::optional<int32_t> logprobs;         // of each token and of the N most likely ones
  std::optional<int32_t> prompt_logprobs;  // the same for prompt tokens 1..
  bool prompt_token_ids = false;           // in the first chunk
  bool keep_special_tokens = false;
  bool omit_text = false;  // return token ids only
  bool echo = false;       // the prompt's text comes first
  bool raw_chat = false;   // of a chat: reasoning and tool calls stay in the text
};

// Which of a chat's tools the model calls.
struct ClientToolChoice {
  enum class Mode : uint8_t { kAuto, kNone, kRequired, kNamed };
  Mode mode = Mode::kAuto;
  std::string name;      // of kNamed
  bool parallel = true;  // several calls in one output
};

struct ClientRequest {
  const FieldNames* field_names = &kPlainFieldNames;  // the front end's names, for errors; never null
  Principal principal;                                // the core's, whatever a front end sets
  std::string request_id;                             // chosen by the client; generated if empty
  std::string model;
  ClientPrompt prompt;
  std::optional<int32_t> truncate_prompt_tokens;  // keep only the last ones
  bool parse_special_tokens = false;              // special tokens in a text prompt are themselves, not plain text
  // Of a chat: the text that stands for it where the model has no chat template. Empty: such a model takes no chat.
  std::optional<std::string> untemplated_prompt;
  bool loads_only = false;   // the model is to be in memory; nothing is generated, and the call ends without a chunk
  bool frees_model = false;  // the model is to leave the memory: at its end, or with loads_only at once (FreeModel)
  ClientSampling sampling;
  ClientStopping stopping;
  ClientOutput output;
  ClientToolChoice tool_choice;                          // of a chat
  std::optional<text::GrammarSource> structured_output;  // what each output must match
  engine::ExecutionChoice execution;
  int32_t num_outputs = 1;  // completions of the prompt
  int32_t priority = 0;
  std::string cache_salt;
  bool bypass_prefix_cache = false;  // read nothing from the prefix cache
  IgnoredNames ignored;              // what the front end left out
};

// An input to embed, as text or as token ids.
using ClientEmbedInput = std::variant<std::monostate, std::string, std::vector<engine::TokenId>>;

// What a rerank call asks for: the score of each input, a document, for one query.
struct ClientRerank {
  std::string query;
  std::optional<int32_t> top_n;               // the best so many, >= 1; unset: all
  std::optional<int32_t> max_tokens_per_doc;  // of each document the first ones alone, >= 1; the front checks it
  bool raw_scores = false;                    // the model's logits, whatever it makes of them
  bool keeps_texts = false;  // the caller keeps the documents until the response: their bytes stay admitted
};

struct ClientEmbedRequest {
  const FieldNames* field_names = &kPlainFieldNames;
  Principal principal;  // as of ClientRequest
  std::string request_id;
  std::string model;
  std::vector<ClientEmbedInput> inputs;
  std::optional<engine::Pooling> pooling;
  std::optional<bool> normalize;
  std::optional<int32_t> dimensions;
  bool loads_only = false;   // the model is to be in memory; there are no inputs, and the call ends without a result
  bool frees_model = false;  // the model is to leave the memory at its end (FreeModel)
  bool truncate = false;     // truncate inputs that are too long instead of refusing them
  std::string prompt_name;   // of the model's prompts, which precedes every text; "": its default, if it has one
  std::optional<ClientRerank> rerank;  // then pooling, normalize, dimensions and prompt_name are not read
  engine::ExecutionChoice execution;
  IgnoredNames ignored;  // as of ClientRequest
};

}  // namespace dunlin::server
