// SPDX-License-Identifier: Apache-2.0
// Words in which rows are written: requests from proto text format, and the answers that many rows share. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/refusals/row.h"

namespace dunlin::integration {

inline constexpr grpc::StatusCode kPrecondition = grpc::StatusCode::FAILED_PRECONDITION;
inline constexpr char kGenerateMethod[] = "/dunlin.v1.GenerationService/Generate";
inline constexpr char kTokenizeMethod[] = "/dunlin.v1.TokenizerService/Tokenize";
inline constexpr char kDetokenizeMethod[] = "/dunlin.v1.TokenizerService/Detokenize";
inline constexpr char kApplyChatTemplateMethod[] = "/dunlin.v1.TokenizerService/ApplyChatTemplate";
inline constexpr char kEmbedMethod[] = "/dunlin.v1.EmbeddingService/Embed";
inline constexpr char kGetModelMethod[] = "/dunlin.v1.ModelService/GetModel";

// The text, merged into `model: "demo" text: "ab" stopping { max_tokens: 4 }`.
Sent Generate(const std::string& text);
// The same with structured_output of this kind: "json_schema", "regex", "grammar".
Sent Constrained(const std::string& kind, const std::string& grammar);
// The text, merged into `model: "chat" stopping { max_tokens: 4 } chat {}`.
Sent Chat(const std::string& text);
// A text of `chat { ... }` with one message and these template options.
Sent ChatWithOptions(const std::string& options_json);
// The text, merged into `model: "encoder" inputs { text: "x" }`.
Sent Embed(const std::string& text);
// The text is all of the message.
Sent Tokenize(const std::string& text);
Sent Detokenize(const std::string& text);
Sent ApplyChatTemplate(const std::string& text);
Sent GetModel(const std::string& text);
// The text, merged into a request to kSlowModel for `max_tokens` tokens.
Sent GenerateSlowly(int max_tokens, const std::string& text = "");
// The message as these bytes.
Sent Bytes(const char* method, std::string message);
Sent WithSteps(Sent sent, std::vector<Step> steps);
Sent WithHeld(Sent sent, std::vector<const char*> held);
Sent WithMetadata(Sent sent, std::vector<std::pair<std::string, std::string>> metadata);
Sent WithDeadline(Sent sent, std::chrono::nanoseconds deadline);

// The text so many times.
std::string Times(int count, const std::string& text);

// INVALID_ARGUMENT, INVALID_FIELD: "<field> <rest>".
Answer Invalid(std::string field, const std::string& rest);
// INVALID_ARGUMENT with GRAMMAR_INVALID, GRAMMAR_UNSUPPORTED or GRAMMAR_TOO_COMPLEX: "<field> <rest>".
Answer BadGrammar(std::string reason, std::string field, const std::string& rest);
// The status of a reason of server/serving/record/errors.cc, without further details.
Answer Refused(grpc::StatusCode code, std::string reason, std::string message);
// RESOURCE_EXHAUSTED with a retry delay.
Answer Overloaded(std::string reason, std::string config_key, std::string message);
Answer UnknownModel(std::string name, std::string message);
// FAILED_PRECONDITION with at least so many reasons.
Answer ProfileRefused(int num_preconditions, std::string message);
// A status that gRPC itself makes.
Answer OfGrpc(grpc::StatusCode code, std::string message);
Answer Ok();

}  // namespace dunlin::integration
