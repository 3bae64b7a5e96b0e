// SPDX-License-Identifier: Apache-2.0
// Stopping and output options: counts of tokens, stop strings and tokens, log-probabilities.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

Sent Stopping(const std::string& text) {
  return Generate(absl::StrCat("stopping { ", text, " }"));
}

Sent Output(const std::string& text) {
  return Generate(absl::StrCat("output { ", text, " }"));
}

}  // namespace

Group StoppingRows() {
  return {
      "Stopping",
      kAttackConfig,
      {
          {"max_tokens zero with min_tokens", Stopping("max_tokens: 0 min_tokens: 1"),
           Invalid("stopping.min_tokens", "is 1; limit is [0, 0]")},
          {"max_tokens negative", Stopping("max_tokens: -1"),
           Invalid("stopping.max_tokens", "is -1; limit is [0, 1024]")},
          {"max_tokens least", Stopping("max_tokens: -2147483648"),
           Invalid("stopping.max_tokens", "is -2147483648; limit is [0, 1024]")},
          {"max_tokens most", Stopping("max_tokens: 2147483647"),
           Invalid("stopping.max_tokens", "is 2147483647; limit is [0, 1024]")},
          {"max_tokens with the prompt", Generate("token_ids { ids: [1, 2] } stopping { max_tokens: 1023 }"),
           Invalid("stopping.max_tokens",
                   "is 1023 after a prompt of 2; limit is 1022 (models[].max_context_tokens is 1024)")},
          {"max_tokens over the pool",
           Generate("model: 'strict' token_ids { ids: [1, 2] } stopping { max_tokens: 500 }"),
           Invalid("stopping.max_tokens",
                   "is 500 after a prompt of 2: that takes 32 KV pages; limit is ~ (models[].kv_cache.memory_bytes)")},
          {"min_tokens negative", Stopping("min_tokens: -1"), Invalid("stopping.min_tokens", "is -1; limit is [0, 4]")},
          {"min_tokens least", Stopping("min_tokens: -2147483648"),
           Invalid("stopping.min_tokens", "is -2147483648; limit is [0, 4]")},
          {"min_tokens over max_tokens", Stopping("min_tokens: 5"),
           Invalid("stopping.min_tokens", "is 5; limit is [0, 4]")},
          {"min_tokens over the default", Generate("stopping { min_tokens: 513 } "),
           Invalid("stopping.min_tokens", "is 513; limit is [0, 4]")},
          {"stop empty", Stopping("stop: ''"), Invalid("stopping.stop[0]", "has 0 bytes; limit is 1 to 256")},
          {"stop long", Stopping(absl::StrCat("stop: 'x' stop: '", Times(257, "x"), "'")),
           Invalid("stopping.stop[1]", "has 257 bytes; limit is 1 to 256")},
          {"stop of a megabyte", Stopping(absl::StrCat("stop: '", Times(1000000, "ab"), "'")),
           Invalid("stopping.stop[0]", "has 2000000 bytes; limit is 1 to 256")},
          {"stop entries", Stopping(Times(17, "stop: 'x' ")), Invalid("stopping.stop", "has 17 entries; limit is 16")},
          {"stop flood", Stopping(Times(1000000, "stop: 'x' ")),
           Invalid("stopping.stop", "has 1000000 entries; limit is 16")},
          {"stop flood of empty strings", Stopping(Times(1000000, "stop: '' ")),
           Invalid("stopping.stop", "has 1000000 entries; limit is 16")},
          {"stop without a tokenizer", Generate("model: 'bare' token_ids { ids: 1 } stopping { stop: 'x' }"),
           Refused(grpc::StatusCode::FAILED_PRECONDITION, "NO_TOKENIZER",
                   "the model has no tokenizer; stop strings need one")},
          {"stop without text", Generate("stopping { stop: 'x' } output { omit_text: true }"),
           Invalid("stopping.stop", "needs the text that output.omit_text leaves out; limit is one of the two")},
          {"stop_token_ids behind the last", Stopping("stop_token_ids: [1, 4096]"),
           Invalid("stopping.stop_token_ids[1]", "is 4096; limit is [0, 4096)")},
          {"stop_token_ids negative", Stopping("stop_token_ids: -1"),
           Invalid("stopping.stop_token_ids[0]", "is -1; limit is [0, 4096)")},
          {"stop_token_ids least", Stopping("stop_token_ids: -2147483648"),
           Invalid("stopping.stop_token_ids[0]", "is -2147483648; limit is [0, 4096)")},
          {"stop_token_ids entries", Stopping(Times(65, "stop_token_ids: 1 ")),
           Invalid("stopping.stop_token_ids", "has 65 entries; limit is 64")},
          {"stop_token_ids flood", Stopping(Times(1000000, "stop_token_ids: 1 ")),
           Invalid("stopping.stop_token_ids", "has 1000000 entries; limit is 64")},
          {"sixteen stop strings that overlap", Stopping(Times(16, absl::StrCat("stop: '", Times(256, "a"), "' "))),
           Ok()},
      }};
}

Group OutputRows() {
  return {"Output",
          kAttackConfig,
          {
              {"logprobs above", Output("logprobs: 21"), Invalid("output.logprobs", "is 21; limit is [0, 20]")},
              {"logprobs negative", Output("logprobs: -1"), Invalid("output.logprobs", "is -1; limit is [0, 20]")},
              {"logprobs huge", Output("logprobs: 2147483647"),
               Invalid("output.logprobs", "is 2147483647; limit is [0, 20]")},
              {"logprobs least", Output("logprobs: -2147483648"),
               Invalid("output.logprobs", "is -2147483648; limit is [0, 20]")},
              {"prompt_logprobs above", Output("prompt_logprobs: 21"),
               Invalid("output.prompt_logprobs", "is 21; limit is [0, 20]")},
              {"prompt_logprobs negative", Output("prompt_logprobs: -1"),
               Invalid("output.prompt_logprobs", "is -1; limit is [0, 20]")},
              {"prompt_logprobs huge", Output("prompt_logprobs: 2147483647"),
               Invalid("output.prompt_logprobs", "is 2147483647; limit is [0, 20]")},
              {"echo without text", Output("echo: true omit_text: true"),
               Invalid("output.echo", "needs the text that output.omit_text leaves out; limit is one of the two")},
              {"echo without a tokenizer", Generate("model: 'bare' token_ids { ids: 1 } output { echo: true }"),
               Refused(grpc::StatusCode::FAILED_PRECONDITION, "NO_TOKENIZER",
                       "the model has no tokenizer; bad_words and echo need one")},
              {"all log-probabilities that are allowed",
               Generate("sampling { n: 8 } output { logprobs: 20 prompt_logprobs: 20 echo: true }"), Ok()},
          }};
}

}  // namespace dunlin::integration
