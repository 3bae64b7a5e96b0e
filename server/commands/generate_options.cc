// SPDX-License-Identifier: Apache-2.0
#include "server/commands/generate_options.h"

#include <utility>

namespace dunlin::server {
namespace {

void AddSamplingOptions(CLI::App* subcommand, GenerateOptions* options) {
  subcommand->add_option("--temperature", options->temperature, "0: greedy decoding");
  subcommand->add_option("--top-k", options->top_k, "0: off");
  subcommand->add_option("--top-p", options->top_p, "(0, 1]");
  subcommand->add_option("--min-p", options->min_p, "[0, 1]");
  subcommand->add_option("--repetition-penalty", options->repetition_penalty, "(0, 10]");
  subcommand->add_option("--presence-penalty", options->presence_penalty, "[-2, 2]");
  subcommand->add_option("--frequency-penalty", options->frequency_penalty, "[-2, 2]");
  subcommand->add_option("--seed", options->seed, "Default: drawn by the server");
  subcommand->add_option("--n", options->n, "Number of outputs for the prompt");
}

void AddStoppingOptions(CLI::App* subcommand, GenerateOptions* options) {
  subcommand->add_option("--max-tokens", options->max_tokens, "Maximum number of tokens to generate");
  subcommand->add_option("--min-tokens", options->min_tokens, "Minimum number of tokens before stopping");
  subcommand->add_option("--stop", options->stop, "Stop string; repeatable")->allow_extra_args(false);
  subcommand->add_flag("--ignore-eos", options->ignore_eos, "Continue after the end-of-sequence token");
}

}  // namespace

void AddGenerateOptions(CLI::App* subcommand, GenerateOptions* options) {
  subcommand->add_option("--address", options->address, "The server's gRPC address")->capture_default_str();
  subcommand->add_option("--model", options->model, "Name of a served model")->required();
  AddExecutionOptions(subcommand, &options->execution);
  AddSamplingOptions(subcommand, options);
  AddStoppingOptions(subcommand, options);
  subcommand->add_option("--logprobs", options->logprobs, "Return log-probabilities of the tokens and the N likeliest");
  subcommand->add_option("--prompt-logprobs", options->prompt_logprobs, "The same for the prompt tokens");
  subcommand->add_option("--token-ids", options->token_ids, "The prompt as token ids: 1,2,3")->delimiter(',');
  AddChatOptions(subcommand, &options->chat);
  subcommand->add_option("--cache-salt", options->cache_salt, "Share cached prefixes only with this salt");
  subcommand->add_option("--request-id", options->request_id, "Request id, echoed in the response and the logs");
  subcommand->add_option("--priority", options->priority, "Higher runs first");
  subcommand->add_option("--timeout-ms", options->timeout_ms, "Deadline of the call; 0: none");
  subcommand->add_flag("--json", options->json, "Print one JSON object instead of streaming text");
  subcommand->add_option("--summary", options->summary_file,
                         "Append a tab-separated line: backend, precision, device, prompt tokens, TTFT ms, tokens/s");
  subcommand->add_option("prompt", options->prompt, "The prompt text")->each([options](const std::string&) {
    options->has_prompt = true;
  });
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(options.model);
  if (options.chat.any()) {
    absl::StatusOr<v1::Chat> chat = MakeChat(options.chat, options.prompt);
    if (!chat.ok()) return chat.status();
    *request.mutable_chat() = *std::move(chat);
    request.mutable_output()->set_raw_chat_output(true);  // everything that the model writes is printed
  } else if (!options.token_ids.empty()) {
    request.mutable_token_ids()->mutable_ids()->Add(options.token_ids.begin(), options.token_ids.end());
  } else {
    request.set_text(options.prompt);
  }
  v1::Sampling& sampling = *request.mutable_sampling();
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.repetition_penalty) sampling.set_repetition_penalty(*options.repetition_penalty);
  if (options.presence_penalty) sampling.set_presence_penalty(*options.presence_penalty);
  if (options.frequency_penalty) sampling.set_frequency_penalty(*options.frequency_penalty);
  if (options.seed) sampling.set_seed(*options.seed);
  if (options.n) sampling.set_n(*options.n);
  v1::Stopping& stopping = *request.mutable_stopping();
  if (options.max_tokens) stopping.set_max_tokens(*options.max_tokens);
  if (options.min_tokens) stopping.set_min_tokens(*options.min_tokens);
  for (const std::string& stop : options.stop) stopping.add_stop(stop);
  stopping.set_ignore_eos(options.ignore_eos);
  *request.mutable_execution() = ExecutionNamed(options.execution);
  if (options.logprobs) request.mutable_output()->set_logprobs(*options.logprobs);
  if (options.prompt_logprobs) request.mutable_output()->set_prompt_logprobs(*options.prompt_logprobs);
  request.set_request_id(options.request_id);
  request.set_priority(options.priority);
  request.set_cache_salt(options.cache_salt);
  return request;
}

}  // namespace dunlin::server
