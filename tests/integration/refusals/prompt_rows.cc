// SPDX-License-Identifier: Apache-2.0
// Prompts as texts and token ids, texts that are costly to tokenise, names and numbers of a request, execution choices.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

Sent Text(int count, const std::string& unit) {
  return Generate(absl::StrCat("text: '", Times(count, unit), "'"));
}

Answer TextTooLong() {
  return Invalid("text",
                 "has more than 2046 tokens; limit is 1023, one less than the context (models[].max_context_tokens)");
}

}  // namespace

Group PromptRows() {
  return {
      "Prompts",
      kAttackConfig,
      {
          {"no input",
           Bytes(kGenerateMethod,
                 "\x0a\x04"
                 "demo"),
           Invalid("input", "is empty; limit is one of text, token_ids, chat")},
          {"text empty", Generate("text: ''"), Invalid("text", "has 0 bytes; limit is 1 to 4194304")},
          {"token_ids empty", Generate("token_ids {}"), Invalid("token_ids.ids", "has 0 tokens; limit is 1 or more")},
          {"token_ids negative", Generate("token_ids { ids: -1 }"),
           Invalid("token_ids.ids[0]", "is -1; limit is [0, 4096)")},
          {"token_ids behind the last", Generate("token_ids { ids: [0, 4096] }"),
           Invalid("token_ids.ids[1]", "is 4096; limit is [0, 4096)")},
          {"token_ids most", Generate("token_ids { ids: 2147483647 }"),
           Invalid("token_ids.ids[0]", "is 2147483647; limit is [0, 4096)")},
          {"token_ids least", Generate("token_ids { ids: -2147483648 }"),
           Invalid("token_ids.ids[0]", "is -2147483648; limit is [0, 4096)")},
          {"token_ids over the context", Generate(absl::StrCat("token_ids { ", Times(1024, "ids: 1 "), "}")),
           Invalid("token_ids.ids",
                   "has 1024 tokens; limit is 1023, one less than the context (models[].max_context_tokens)")},
          {"token_ids flood", Generate(absl::StrCat("token_ids { ", Times(1000000, "ids: 1 "), "}")),
           Invalid("token_ids.ids",
                   "has 1000000 tokens; limit is 1023, one less than the context (models[].max_context_tokens)")},
          {"token_ids of another vocabulary", Generate("model: 'bare' token_ids { ids: [514, 515] }"),
           Invalid("token_ids.ids[1]", "is 515; limit is [0, 515)")},
          {"truncate_prompt_tokens zero", Generate("truncate_prompt_tokens: 0"),
           Invalid("truncate_prompt_tokens", "is 0; limit is [1, 1024]")},
          {"truncate_prompt_tokens negative", Generate("truncate_prompt_tokens: -1"),
           Invalid("truncate_prompt_tokens", "is -1; limit is [1, 1024]")},
          {"truncate_prompt_tokens over the context", Generate("truncate_prompt_tokens: 1025"),
           Invalid("truncate_prompt_tokens", "is 1025; limit is [1, 1024]")},
          {"truncate_prompt_tokens to the whole context",
           Generate(absl::StrCat("truncate_prompt_tokens: 1024 token_ids { ", Times(2000, "ids: 1 "), "}")),
           Invalid("token_ids.ids",
                   "has 1024 tokens; limit is 1023, one less than the context (models[].max_context_tokens)")},
          {"text to a model without a tokenizer", Generate("model: 'bare'"),
           Refused(kPrecondition, "NO_TOKENIZER", "the model has no tokenizer; it takes token_ids only")},
          {"one letter, four million times", Text(4000000, "a"), TextTooLong()},
          {"four million spaces", Text(4000000, " "), TextTooLong()},
          {"line breaks", Text(1000000, "\\n"), TextTooLong()},
          {"two million punctuation marks", Text(2000000, "!"), TextTooLong()},
          {"numbers", Text(400000, "1, 2, "), TextTooLong()},
          {"combining marks", Text(700000, "\xcc\x81"), TextTooLong()},
          {"joined emoji", Text(200000, "\xf0\x9f\x91\xa9\xe2\x80\x8d"), TextTooLong()},
          {"an alphabet without spaces", Text(100000, "abcdefghijklmnopqrstuvwxyz"), TextTooLong()},
          {"special tokens as text", Text(200000, "<|endoftext|>"), TextTooLong()},
          {"special tokens that are parsed",
           Generate(absl::StrCat("parse_special_tokens: true text: '", Times(200000, "<|endoftext|>"), "'")),
           TextTooLong()},
          {"NUL bytes", Text(1000000, "\\000"), TextTooLong()},
          {"a text over the pool of a small model",
           Generate("model: 'strict' text: 'ab' stopping { max_tokens: 1000 }"),
           Invalid("stopping.max_tokens",
                   "is 1000 after a prompt of ~: that takes 63 KV pages; limit is ~ (models[].kv_cache.memory_bytes)")},
      }};
}

Group RequestRows() {
  return {
      "Requests",
      kAttackConfig,
      {
          {"model empty", Generate("model: ''"), Invalid("model", "is empty; limit is the name of a served model")},
          {"model unknown", Generate("model: 'gpt\\n5'"), UnknownModel("gpt\\n5", "model \"gpt\\n5\" is not served")},
          {"model of another case", Generate("model: 'DEMO'"), UnknownModel("DEMO", "model \"DEMO\" is not served")},
          {"model as a path", Generate("model: '../../etc/passwd'"),
           UnknownModel("../../etc/passwd", "model \"../../etc/passwd\" is not served")},
          {"model with a NUL", Generate("model: 'demo\\000'"),
           UnknownModel("demo\\x00", "model \"demo\\x00\" is not served")},
          {"model of a megabyte", Generate(absl::StrCat("model: '", Times(1000000, "m"), "'")),
           UnknownModel(Times(64, "m"), absl::StrCat("model \"", Times(64, "m"), "...\" is not served"))},
          {"an encoder", Generate("model: 'encoder'"),
           Refused(kPrecondition, "WRONG_MODEL_KIND",
                   "model is an encoder (bert): it computes embeddings and does not generate text")},
          {"request_id long", Generate(absl::StrCat("request_id: '", Times(129, "r"), "'")),
           Invalid("request_id", "has 129 bytes; limit is 0 to 128")},
          {"request_id of a megabyte", Generate(absl::StrCat("request_id: '", Times(1000000, "r"), "'")),
           Invalid("request_id", "has 1000000 bytes; limit is 0 to 128")},
          {"request_id with a line break", Generate("request_id: 'a\\n{\"level\":'"),
           Invalid("request_id", "has bytes that are not printable ASCII; limit is 0x20 to 0x7e")},
          {"request_id with an escape", Generate("request_id: '\\033[31m'"),
           Invalid("request_id", "has bytes that are not printable ASCII; limit is 0x20 to 0x7e")},
          {"request_id with a NUL", Generate("request_id: '\\000'"),
           Invalid("request_id", "has bytes that are not printable ASCII; limit is 0x20 to 0x7e")},
          {"cache_salt long", Generate(absl::StrCat("cache_salt: '", Times(129, "s"), "'")),
           Invalid("cache_salt", "has 129 bytes; limit is 0 to 128")},
          {"cache_salt of a megabyte", Generate(absl::StrCat("cache_salt: '", Times(1000000, "s"), "'")),
           Invalid("cache_salt", "has 1000000 bytes; limit is 0 to 128")},
          {"priority above", Generate("priority: 101"), Invalid("priority", "is 101; limit is [-100, 100]")},
          {"priority below", Generate("priority: -101"), Invalid("priority", "is -101; limit is [-100, 100]")},
          {"priority least", Generate("priority: -2147483648"),
           Invalid("priority", "is -2147483648; limit is [-100, 100]")},
          {"priority above the model's", Generate("model: 'strict' priority: 1"),
           Invalid("priority",
                   "is 1; limit is [-5, 0] (models[].allowed.min_priority, models[].allowed.max_priority)")},
          {"priority below the model's", Generate("model: 'strict' priority: -6"),
           Invalid("priority",
                   "is -6; limit is [-5, 0] (models[].allowed.min_priority, models[].allowed.max_priority)")},
      }};
}

Group ExecutionRows() {
  return {
      "Execution",
      kAttackConfig,
      {
          {"precision outside", Generate("execution { precision: 99 }"),
           Invalid("execution.precision", "is 99; limit is [0, 7]")},
          {"precision negative", Generate("execution { precision: -1 }"),
           Invalid("execution.precision", "is -1; limit is [0, 7]")},
          {"device outside", Generate("execution { device: 2147483647 }"),
           Invalid("execution.device", "is 2147483647; limit is [0, 3]")},
          {"device negative", Generate("execution { device: -1 }"),
           Invalid("execution.device", "is -1; limit is [0, 3]")},
          {"attention backend outside", Generate("execution { attention_backend: 5 }"),
           Invalid("execution.attention_backend", "is 5; limit is [0, 4]")},
          {"attention backend least", Generate("execution { attention_backend: -2147483648 }"),
           Invalid("execution.attention_backend", "is -2147483648; limit is [0, 4]")},
          {"speculation over the limit", Generate("execution { speculation: '17' }"),
           Invalid("execution.speculation", "is \"17\"; limit is off, auto, or a number from 0 to 16")},
          {"speculation that is no word", Generate("execution { speculation: 'as much as you can' }"),
           Invalid("execution.speculation", "is another word; limit is off, auto, or a number from 0 to 16")},
          {"a precision that is not resident", Generate("execution { precision: PRECISION_FP8 }"),
           ProfileRefused(
               3,
               "no available kernel for precision fp8 on cpu. flash: precision fp8 is not resident "
               "(models[].precisions is [bf16, fp32]). efficient: precision fp8 is not resident (models[].precisions "
               "is [bf16, fp32]). math: precision fp8 is not resident (models[].precisions is [bf16, fp32]).")},
          {"a precision that is not resident, with a backend",
           Generate("execution { precision: PRECISION_FP16 attention_backend: ATTENTION_BACKEND_MATH }"),
           ProfileRefused(1,
                          "no available kernel for precision fp16 on cpu. math: precision fp16 is not resident "
                          "(models[].precisions is [bf16, fp32]).")},
          {"a precision that is not resident, with fallback",
           Generate("execution { precision: PRECISION_FP16 attention_backend: ATTENTION_BACKEND_MATH allow_fallback: "
                    "true }"),
           ProfileRefused(
               3,
               "no available kernel for precision fp16 on cpu. flash: precision fp16 is not resident "
               "(models[].precisions is [bf16, fp32]). efficient: precision fp16 is not resident (models[].precisions "
               "is [bf16, fp32]). math: precision fp16 is not resident (models[].precisions is [bf16, fp32]).")},
          {"a device that is not there", Generate("execution { device: DEVICE_CUDA }"),
           ProfileRefused(1, "device cuda is not available: this model is served on cpu (models[].device)")},
          {"a backend that is not allowed",
           Generate("model: 'strict' execution { attention_backend: ATTENTION_BACKEND_FLASH }"),
           ProfileRefused(1,
                          "no available kernel for precision bf16 on cpu. flash: flash is not allowed for this model "
                          "(models[].allowed.attention_backends is [efficient]).")},
          {"a precision that is not allowed",
           Generate("model: 'strict' execution { attention_backend: ATTENTION_BACKEND_EFFICIENT precision: "
                    "PRECISION_FP32 }"),
           ProfileRefused(1,
                          "no available kernel for precision fp32 on cpu. efficient: precision fp32 is not allowed for "
                          "this model (models[].allowed.precisions is [bf16]).")},
      }};
}

}  // namespace dunlin::integration
