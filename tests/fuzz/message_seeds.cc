// SPDX-License-Identifier: Apache-2.0
// Seeds of the gRPC targets, as texts: one message that has nearly every field, and the oneofs apart.
#include <google/protobuf/text_format.h>

#include <memory>

#include "dunlin/v1/embedding.pb.h"
#include "dunlin/v1/generation.pb.h"
#include "kserve/grpc_service.pb.h"
#include "smg/vllm_engine.pb.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_targets.h"
#include "vllm/inference.pb.h"

namespace dunlin::fuzz {
namespace {

struct Message {
  const char* target;
  int first_byte;  // of the input, before the message; -1: none
  const google::protobuf::Message& of;
  const char* text;
};

const Message kMessages[] = {
    {"dunlin_generate", -1, v1::GenerateRequest::default_instance(),
     R"(model: "tiny" text: "Hello there" sampling { temperature: 0.5 top_k: 3 top_p: 0.9 min_p: 0.1
        repetition_penalty: 1.1 presence_penalty: 0.5 frequency_penalty: -0.5 logit_bias { key: 3 value: 1.5 } seed: 7
        n: 2 allowed_token_ids: 5 bad_words_ids { ids: 6 ids: 7 } bad_words: "bird" }
        request_id: "r-1" priority: 1 cache_salt: "salt" truncate_prompt_tokens: 4)"},
    {"dunlin_generate", -1, v1::GenerateRequest::default_instance(),
     R"(model: "tiny" token_ids { ids: 1 ids: 2 } stopping { max_tokens: 4 stop: "x" } structured_output { regex: "a+" })"},
    {"dunlin_generate", -1, v1::GenerateRequest::default_instance(),
     R"(model: "tiny" chat { messages { role: "user" content: "Hi" } messages { role: "assistant" tool_calls { id: "c"
        name: "f" arguments_json: "{}" } } messages { role: "tool" parts { type: "text" text: "t" } tool_call_id: "c" }
        tools_json: "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]" template_options_json: "{\"x\":1}"
        tool_choice { mode: MODE_REQUIRED } })"},
    {"dunlin_generate", -1, v1::GenerateRequest::default_instance(),
     R"(model: "tiny" chat { messages { role: "user" parts { type: "image" image: "\211PNG\r\n" } parts { type: "image" }
        parts { type: "text" text: "t" image: "GIF89a" } } })"},
    {"dunlin_embed", 0, v1::EmbedRequest::default_instance(),
     R"(model: "encoder" inputs { text: "Hello" } inputs { token_ids { ids: 5 } } pooling: POOLING_MEAN normalize: true
        dimensions: 8 truncate: true request_id: "e")"},
    {"dunlin_embed", 1, v1::RerankRequest::default_instance(),
     R"(model: "encoder" query: "q" documents: "a" documents: "b" top_n: 1 raw_scores: true)"},
    {"vllm_generate", 0, ::vllm::GenerateRequest::default_instance(),
     R"(model: "tiny" text: "Hello" temperature: 0.5 sampling { num_sequences: 1 top_k: 3 top_p: 0.9 seed: 5 }
        decoding { presence_penalty: 0.5 repetition_penalty: 1.2 logit_bias { key: 2 value: 1 } json: "{}" }
        stopping { max_new_tokens: 4 stop_strings: "x" stop_token_ids: 3 } response { prompt_token_ids: true
        output_candidates { top_n: 2 } } kv { cache_salt: "s" } truncate_prompt_tokens: 3)"},
    {"vllm_generate", 1, ::vllm::GenerateRequest::default_instance(),
     R"(token_ids { ids: 1 ids: 2 } decoding { choice { choices: "a" choices: "b" } bad_words_token_ids { ids: 1 } })"},
    {"smg_worker", 0, ::vllm::grpc::engine::GenerateRequest::default_instance(),
     R"(request_id: "r" tokenized { original_text: "a" input_ids: 1 input_ids: 2 } sampling_params { temperature: 1
        top_p: 0.9 top_k: 5 max_tokens: 4 stop: "x" stop_token_ids: 1 n: 1 logprobs: 2 seed: 3 regex: "a" } stream: true)"},
    {"smg_worker", 0, ::vllm::grpc::engine::GenerateRequest::default_instance(),
     R"(text: "Hello" sampling_params { choice { choices: "a" } truncate_prompt_tokens: 2 })"},
    {"smg_worker", 1, ::vllm::grpc::engine::EmbedRequest::default_instance(), R"(request_id: "r")"},
    {"kserve_infer", 0, inference::ModelInferRequest::default_instance(),
     R"(model_name: "tiny" id: "1" parameters { key: "priority" value { int64_param: 1 } }
        inputs { name: "text_input" datatype: "BYTES" shape: 1 } inputs { name: "max_tokens" datatype: "INT32" shape: 1
        contents { int_contents: 3 } } outputs { name: "text_output" } raw_input_contents: "\005\000\000\000Hello")"},
    {"kserve_infer", 1, inference::ModelInferRequest::default_instance(),
     R"(model_name: "tiny" inputs { name: "text_input" datatype: "BYTES" shape: 1 contents { bytes_contents: "Hi" } }
        inputs { name: "stream" datatype: "BOOL" shape: 1 contents { bool_contents: true } }
        parameters { key: "sampling_parameters" value { string_param: "{\"temperature\": 0.5, \"stop\": [\"a\"]}" } })"},
    {"kserve_infer", 2, inference::ModelInferRequest::default_instance(),
     R"(model_name: "encoder" inputs { name: "text_input" datatype: "BYTES" shape: 2 contents { bytes_contents: "a"
        bytes_contents: "b" } })"},
};

}  // namespace

std::vector<CorpusInput> MessageSeeds(std::string_view target) {
  std::vector<CorpusInput> inputs;
  for (const Message& row : kMessages) {
    if (row.target != target) continue;
    const std::unique_ptr<google::protobuf::Message> message(row.of.New());
    DUNLIN_FUZZ_CHECK(google::protobuf::TextFormat::ParseFromString(row.text, message.get()), row.text);
    std::string input;
    if (row.first_byte >= 0) input += static_cast<char>(row.first_byte);
    inputs.push_back({"message", input + message->SerializeAsString()});
  }
  return inputs;
}

}  // namespace dunlin::fuzz
