#include "server/convert/generate_request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/text/tokenizer.h"
#include "server/convert/errors.h"
#include "server/convert/execution.h"
#include "server/convert/field_checks.h"
#include "server/convert/sampling.h"

namespace dunlin::server {
namespace {

absl::Status CheckText(const v1::GenerateRequest& wire, const ModelFacts& facts) {
  if (!facts.has_tokenizer) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; it takes token_ids only");
  }
  return CheckBytes("text", wire.text().size(), 1, engine::kMaxTextBytes);
}

absl::Status PromptTooLong(const char* field, int64_t tokens, const ModelFacts& facts) {
  return InvalidField(
      field, absl::StrCat("has ", tokens, " tokens"),
      absl::StrCat(facts.max_context_tokens - 1, ", one less than the context (models[].max_context_tokens)"));
}

absl::Status TokenIdsFromWire(const v1::TokenIds& wire, const ModelFacts& facts, std::vector<engine::TokenId>* out) {
  const auto& ids = wire.ids();
  if (ids.empty()) return InvalidField("token_ids.ids", "has 0 tokens", "1 or more");
  if (ids.size() >= facts.max_context_tokens) return PromptTooLong("token_ids.ids", ids.size(), facts);
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < facts.vocab_size) continue;
    return CheckTokenId(absl::StrCat("token_ids.ids[", i, "]"), ids[i], facts.vocab_size);
  }
  out->assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status CheckInput(const v1::GenerateRequest& wire, const ModelFacts& facts, CheckedRequest* out) {
  switch (wire.input_case()) {
    case v1::GenerateRequest::kText:
      out->prompt_is_text = true;
      return CheckText(wire, facts);
    case v1::GenerateRequest::kTokenIds:
      return TokenIdsFromWire(wire.token_ids(), facts, &out->engine.prompt);
    case v1::GenerateRequest::kChat:
      return MakeError(Reason::kChatUnsupported,
                       "chat is not supported by this version; render the template on the client and send text");
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return InvalidField("input", "is empty", "one of text, token_ids");
}

absl::Status CheckStops(const v1::GenerateRequest& wire, const ModelFacts& facts) {
  if (absl::Status s = CheckStopStrings(wire.stopping()); !s.ok()) return s;
  if (wire.stopping().stop().empty()) return absl::OkStatus();
  if (wire.output().omit_text()) {
    return InvalidField("stopping.stop", "needs the text that output.omit_text leaves out", "one of the two");
  }
  if (!facts.has_tokenizer) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; stopping.stop needs one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckedRequest> CheckGenerateRequest(const v1::GenerateRequest& wire, const ModelFacts& facts) {
  CheckedRequest out;
  out.engine.sampling = facts.sampling_defaults;
  if (absl::Status s = CheckBytes("cache_salt", wire.cache_salt().size(), 0, kMaxCacheSaltBytes); !s.ok()) return s;
  if (absl::Status s = CheckInt("priority", wire.priority(), -kMaxPriority, kMaxPriority); !s.ok()) return s;
  if (absl::Status s = CheckOutputs(wire.sampling(), &out.num_outputs); !s.ok()) return s;
  if (absl::Status s = SamplingFromWire(wire.sampling(), facts.vocab_size, &out.engine.sampling); !s.ok()) return s;
  if (absl::Status s =
          StoppingFromWire(wire.stopping(), facts.vocab_size, facts.max_context_tokens, &out.engine.stopping);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckStops(wire, facts); !s.ok()) return s;
  if (absl::Status s = LogprobsFromWire(wire.output(), &out.engine.sampling); !s.ok()) return s;
  absl::StatusOr<engine::ExecutionChoice> choice = ChoiceFromWire(wire.execution());
  if (!choice.ok()) return choice.status();
  if (absl::Status s = CheckInput(wire, facts, &out); !s.ok()) return s;
  out.choice = *choice;
  out.engine.priority = wire.priority();
  out.engine.cache_salt = wire.cache_salt();
  out.stop_strings.assign(wire.stopping().stop().begin(), wire.stopping().stop().end());
  out.include_stop = wire.stopping().include_stop();
  out.keep_special_tokens = wire.output().keep_special_tokens();
  out.omit_text = wire.output().omit_text() || !facts.has_tokenizer;
  return out;
}

absl::Status FitToContext(const ModelFacts& facts, const Limits& limits, CheckedRequest* request) {
  const char* field = request->prompt_is_text ? "text" : "token_ids.ids";
  const auto prompt = static_cast<int64_t>(request->engine.prompt.size());
  if (prompt == 0) return InvalidField(field, "has 0 tokens", "1 or more");
  if (prompt >= facts.max_context_tokens) return PromptTooLong(field, prompt, facts);
  const auto room = static_cast<int32_t>(facts.max_context_tokens - prompt);
  engine::StoppingParams& stopping = request->engine.stopping;
  if (stopping.max_tokens == 0) stopping.max_tokens = std::clamp(limits.default_max_tokens, 1, room);
  if (stopping.max_tokens > room) {
    return InvalidField("stopping.max_tokens", absl::StrCat("is ", stopping.max_tokens, " after a prompt of ", prompt),
                        absl::StrCat(room, " (models[].max_context_tokens is ", facts.max_context_tokens, ")"));
  }
  return CheckInt("stopping.min_tokens", stopping.min_tokens, 0, stopping.max_tokens);
}

}  // namespace dunlin::server
