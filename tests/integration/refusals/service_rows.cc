// SPDX-License-Identifier: Apache-2.0
// TokenizerService, ModelService and EmbeddingService.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {}  // namespace

Group TokenizerRows() {
  return {
      "Tokenizers",
      kAttackConfig,
      {
          {"tokenize with no model", Tokenize("text: 'x'"),
           Invalid("model", "is empty; limit is the name of a served model")},
          {"tokenize with an unknown model", Tokenize("model: 'missing' text: 'x'"),
           UnknownModel("missing", "model \"missing\" is not served")},
          {"tokenize without a tokenizer", Tokenize("model: 'bare' text: 'x'"),
           Refused(kPrecondition, "NO_TOKENIZER", "the model has no tokenizer")},
          {"tokenize more than an answer holds",
           Tokenize(absl::StrCat("model: 'demo' text: '", Times(4100000, "~"), "'")),
           Invalid(
               "text",
               "has more than 2097120 tokens; limit is 2097120, what fits into a response (limits.max_message_bytes)")},
          {"tokenize a long word", Tokenize(absl::StrCat("model: 'demo' text: '", Times(1000000, "a"), "'")), Ok()},
          {"detokenize with an unknown model", Detokenize("model: 'missing'"),
           UnknownModel("missing", "model \"missing\" is not served")},
          {"detokenize without a tokenizer", Detokenize("model: 'bare' token_ids: 1"),
           Refused(kPrecondition, "NO_TOKENIZER", "the model has no tokenizer")},
          {"detokenize a negative id", Detokenize("model: 'demo' token_ids: [5, -7]"),
           Invalid("token_ids[1]", "is -7; limit is [0, 4096)")},
          {"detokenize an id behind the last", Detokenize("model: 'demo' token_ids: [4096]"),
           Invalid("token_ids[0]", "is 4096; limit is [0, 4096)")},
          {"detokenize the largest id", Detokenize("model: 'demo' token_ids: [2147483647]"),
           Invalid("token_ids[0]", "is 2147483647; limit is [0, 4096)")},
          {"detokenize a flood", Detokenize(absl::StrCat("model: 'demo' ", Times(1048577, "token_ids: 1 "))),
           Invalid("token_ids", "has 1048577 entries; limit is 1048576")},
          {"detokenize to more than an answer holds",
           Detokenize(absl::StrCat("model: 'demo' ", Times(1048576, "token_ids: 2000 "))),
           Invalid("token_ids", "decode to a text of ~ bytes; limit is 2097152 (half of limits.max_message_bytes)")},
          {"template with an unknown model", ApplyChatTemplate("model: 'missing'"),
           UnknownModel("missing", "model \"missing\" is not served")},
          {"template that is broken", ApplyChatTemplate("model: 'broken template' chat { messages { role: 'user' } }"),
           Refused(kPrecondition, "CHAT_UNSUPPORTED",
                   "the model takes no chats: its chat template is of no use: chat template, line 1: unexpected end of "
                   "block; correct it, or set models[].chat_template")},
          {"template without messages", ApplyChatTemplate("model: 'chat' chat {}"),
           Invalid("chat.messages", "has 0 entries; limit is 1 or more")},
          {"template of nothing", ApplyChatTemplate("model: 'chat'"),
           Invalid("chat.messages", "has 0 entries; limit is 1 or more")},
          {"template that loops",
           ApplyChatTemplate(
               R"(model: 'chat' chat { messages { role: 'user' content: 'x' } template_options_json: '{"attack": "endless"}' })"),
           Invalid("chat", "takes more steps of its template than 4000000; limit is 4000000")},
          {"template that makes more than an answer holds",
           ApplyChatTemplate(
               absl::StrCat("model: 'chat' chat { messages { role: 'user' content: '", Times(250000, "~^|"), "' } }")),
           Invalid("chat", "makes a response of ~ bytes; limit is 4194304 (limits.max_message_bytes)")},
          {"get an unknown model", GetModel("name: 'missing'"),
           UnknownModel("missing", "model \"missing\" is not served")},
          {"get no model", GetModel(""), UnknownModel("", "model \"\" is not served")},
          {"get a model of a megabyte", GetModel(absl::StrCat("name: '", Times(1000000, "x"), "'")),
           UnknownModel(Times(64, "x"), absl::StrCat("model \"", Times(64, "x"), "...\" is not served"))},
      }};
}

Group EmbeddingRows() {
  return {"Embeddings",
          kAttackConfig,
          {
              {"model empty", Embed("model: ''"), Invalid("model", "is empty; limit is the name of a served model")},
              {"model unknown", Embed("model: 'nobody'"), UnknownModel("nobody", "model \"nobody\" is not served")},
              {"a decoder", Embed("model: 'demo'"),
               Refused(kPrecondition, "WRONG_MODEL_KIND",
                       "model is a decoder (gpt2): it generates text and does not compute embeddings")},
              {"no inputs",
               Bytes(kEmbedMethod,
                     "\x0a\x07"
                     "encoder"),
               Invalid("inputs", "has 0 entries; limit is 1 to 256 (limits.max_embedding_inputs)")},
              {"inputs one too many", Embed(Times(256, "inputs { text: 'x' } ")),
               Invalid("inputs", "has 257 entries; limit is 1 to 256 (limits.max_embedding_inputs)")},
              {"inputs flood", Embed(Times(300000, "inputs {} ")),
               Invalid("inputs", "has 300001 entries; limit is 1 to 256 (limits.max_embedding_inputs)")},
              {"an input of nothing", Embed("inputs {}"),
               Invalid("inputs[1]", "is empty; limit is one of text, token_ids")},
              {"an input without tokens", Embed("inputs { token_ids {} }"),
               Invalid("inputs[1].token_ids.ids", "has 0 tokens; limit is 1 or more")},
              {"a token behind the last", Embed("inputs { token_ids { ids: [5, 300] } }"),
               Invalid("inputs[1].token_ids.ids[1]", "is 300; limit is [0, 300)")},
              {"a negative token", Embed("inputs { token_ids { ids: -1 } }"),
               Invalid("inputs[1].token_ids.ids[0]", "is -1; limit is [0, 300)")},
              {"the least token", Embed("inputs { token_ids { ids: -2147483648 } }"),
               Invalid("inputs[1].token_ids.ids[0]", "is -2147483648; limit is [0, 300)")},
              {"tokens over the context", Embed(absl::StrCat("inputs { token_ids { ", Times(131, "ids: 5 "), "} }")),
               Invalid("inputs[1]", "has 131 tokens; limit is 1 to 130 (models[].max_context_tokens)")},
              {"a text over the context", Embed(absl::StrCat("inputs { text: '", Times(1000000, "x "), "' }")),
               Invalid("inputs[1]", "has more than 260 tokens; limit is 1 to 130 (models[].max_context_tokens)")},
              {"dimensions zero", Embed("dimensions: 0"), Invalid("dimensions", "is 0; limit is [1, 36]")},
              {"dimensions negative", Embed("dimensions: -2147483648"),
               Invalid("dimensions", "is -2147483648; limit is [1, 36]")},
              {"dimensions above", Embed("dimensions: 37"), Invalid("dimensions", "is 37; limit is [1, 36]")},
              {"dimensions huge", Embed("dimensions: 2147483647"),
               Invalid("dimensions", "is 2147483647; limit is [1, 36]")},
              {"a prompt that is not there", Embed("prompt_name: 'query'"),
               Invalid("prompt_name", "is not a prompt of the model; limit is none")},
              {"pooling outside", Embed("pooling: 9"), Invalid("pooling", "is 9; limit is [0, 3]")},
              {"pooling negative", Embed("pooling: -1"), Invalid("pooling", "is -1; limit is [0, 3]")},
              {"precision outside", Embed("execution { precision: 99 }"),
               Invalid("execution.precision", "is 99; limit is [0, 7]")},
              {"a precision that is not resident", Embed("execution { precision: PRECISION_FP8 }"),
               ProfileRefused(
                   3,
                   "no available kernel for precision fp8 on cpu. flash: precision fp8 is not resident "
                   "(models[].precisions is [fp32]). efficient: precision fp8 is not resident (models[].precisions is "
                   "[fp32]). math: precision fp8 is not resident (models[].precisions is [fp32]).")},
              {"request_id with a control character", Embed("request_id: '\\001'"),
               Invalid("request_id", "has bytes that are not printable ASCII; limit is 0x20 to 0x7e")},
              {"request_id long", Embed(absl::StrCat("request_id: '", Times(129, "r"), "'")),
               Invalid("request_id", "has 129 bytes; limit is 0 to 128")},
              {"as many inputs as allowed", Embed(Times(255, "inputs { text: 'x' } ")), Ok()},
          }};
}

}  // namespace dunlin::integration
