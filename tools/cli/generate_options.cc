// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/generate_options.h"

#include <utility>

#include "text/utf8.h"
#include "tools/cli/client_options.h"
#include "tools/cli/image_parts.h"

namespace dunlin::cli {
namespace {

void AddInput(CLI::App* app, GenerateOptions* options) {
  const char* chat = "Chat";
  app->add_flag("--chat", options->prompt_is_message,
                "The prompt is a user's message; the model's chat template renders it")
      ->group(chat);
  app->add_option("--image", options->images,
                  "A file with an image, before the prompt's text in the user's message; repeatable; implies --chat")
      ->allow_extra_args(false)
      ->group(chat);
  AddChatOptions(app, &options->chat);
  app->add_flag("--continue-final-message", options->continue_final_message, "Continue the last message")->group(chat);
  const char* input = "Input";
  app->add_option("--prompt-file", options->prompt_file,
                  "The prompt's text from this file, as it is; -: from the standard input")
      ->each([options](const std::string&) { options->has_prompt = true; })
      ->group(input);
  app->add_option("--token-ids", options->token_ids, "The prompt as token ids: 1,2,3")->delimiter(',')->group(input);
  app->add_flag("--parse-special-tokens", options->parse_special_tokens,
                "Special tokens in the prompt or the chat are themselves and no text")
      ->group(input);
  app->add_option("--truncate-prompt-tokens", options->truncate_prompt_tokens,
                  "Keep only the last N tokens of the prompt")
      ->group(input);
}

void AddOutput(CLI::App* app, GenerateOptions* options) {
  const char* group = "Output";
  app->add_flag("--json", options->json, "Print one JSON object instead of streaming text")->group(group);
  app->add_option("--n", options->n, "Number of outputs for the prompt; without --json the first is printed")
      ->group(group);
  app->add_option("--logprobs", options->logprobs, "Log-probabilities of the tokens and of the N likeliest")
      ->group(group);
  app->add_option("--prompt-logprobs", options->prompt_logprobs, "The same for the prompt's tokens")->group(group);
  app->add_flag("--echo", options->echo, "The prompt's text comes first in the text")->group(group);
  app->add_flag("--keep-special-tokens", options->keep_special_tokens, "Keep special tokens in the text")->group(group);
  app->add_flag("--omit-text", options->omit_text, "With --json: token ids only")->group(group);
  app->add_flag("--show-prompt", options->show_prompt, "With --json: add the rendered prompt to the object")
      ->group(group);
  app->add_option("--summary", options->summary_file,
                  "Append a tab-separated line: backend, precision, device, prompt tokens, TTFT ms, tokens/s")
      ->group(group);
}

// Null if the options make sense together.
const char* InputProblem(const GenerateOptions& options) {
  const ChatOptions& chat = options.chat;
  if (options.HasMessage() && !chat.messages.empty())
    return "give either --chat or --image with a prompt, or --messages";
  if (options.HasMessage() && !options.has_prompt) return "--chat and --image need a prompt";
  const int prompts =
      (options.has_prompt ? 1 : 0) + (options.token_ids.empty() ? 0 : 1) + (chat.messages.empty() ? 0 : 1);
  const bool twice = !options.prompt.empty() && !options.prompt_file.empty();
  if (prompts != 1 || twice) return "give one of a prompt, --prompt-file, --token-ids and --messages";
  const bool has_details =
      !chat.tools.empty() || !chat.template_options.empty() || options.continue_final_message || chat.raw_chat_output;
  if (has_details && !options.IsChat()) {
    return "--tools, --template-options, --continue-final-message and --raw-chat-output need --chat or --messages";
  }
  if (options.parse_special_tokens && !options.token_ids.empty()) {
    return "--parse-special-tokens needs a text and --token-ids has none: give one of them";
  }
  return nullptr;
}

const char* OutputProblem(const GenerateOptions& options) {
  if (options.show_prompt && !options.json) return "--show-prompt needs --json";
  if (options.show_prompt && !options.token_ids.empty()) return "--show-prompt needs a prompt of text or a chat";
  if (options.omit_text && !options.json) return "--omit-text needs --json";
  if (options.omit_text && !options.request.stopping.stop.empty()) return "give one of --omit-text and --stop";
  if (options.omit_text && options.echo) return "give one of --omit-text and --echo";
  return nullptr;
}

absl::StatusOr<std::string> PromptOf(const GenerateOptions& options) {
  const bool from_file = !options.prompt_file.empty();
  absl::StatusOr<std::string> text = from_file ? FileText("--prompt-file", options.prompt_file) : options.prompt;
  if (!text.ok() || text::IsValidUtf8(*text)) return text;
  return absl::InvalidArgumentError("the prompt is not UTF-8");
}

absl::StatusOr<v1::ChatMessage> MessageOf(const GenerateOptions& options, std::string prompt) {
  std::vector<v1::ContentPart> images;
  for (const std::string& path : options.images) {
    absl::StatusOr<v1::ContentPart> image = ImageOfFile("--image", path);
    if (!image.ok()) return image.status();
    images.push_back(*std::move(image));
  }
  return UserMessage(std::move(images), std::move(prompt));
}

absl::Status FillInput(const GenerateOptions& options, v1::GenerateRequest* request) {
  absl::StatusOr<std::string> prompt = PromptOf(options);
  if (!prompt.ok()) return prompt.status();
  if (!options.IsChat()) {
    if (options.token_ids.empty()) {
      request->set_text(*std::move(prompt));
    } else {
      request->mutable_token_ids()->mutable_ids()->Add(options.token_ids.begin(), options.token_ids.end());
    }
    request->set_parse_special_tokens(options.parse_special_tokens);
    return absl::OkStatus();
  }
  absl::StatusOr<v1::Chat> chat = MakeChat(options.chat);
  if (!chat.ok()) return chat.status();
  if (options.HasMessage()) {
    absl::StatusOr<v1::ChatMessage> message = MessageOf(options, *std::move(prompt));
    if (!message.ok()) return message.status();
    *chat->add_messages() = *std::move(message);
  }
  chat->set_continue_final_message(options.continue_final_message);
  chat->set_parse_special_tokens(options.parse_special_tokens);
  *request->mutable_chat() = *std::move(chat);
  return absl::OkStatus();
}

void FillOutput(const GenerateOptions& options, v1::OutputOptions* output) {
  if (options.logprobs) output->set_logprobs(*options.logprobs);
  if (options.prompt_logprobs) output->set_prompt_logprobs(*options.prompt_logprobs);
  output->set_keep_special_tokens(options.keep_special_tokens);
  output->set_omit_text(options.omit_text);
  output->set_echo(options.echo);
  output->set_raw_chat_output(options.chat.raw_chat_output);
}

}  // namespace

void AddGenerateOptions(CLI::App* subcommand, GenerateOptions* options) {
  AddRequestOptions(subcommand, &options->request);
  AddInput(subcommand, options);
  AddOutput(subcommand, options);
  subcommand->add_option("--request-id", options->request_id, "Request id, echoed in the response and the logs");
  subcommand->add_option("prompt", options->prompt, "The prompt text")->each([options](const std::string&) {
    options->has_prompt = true;
  });
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options) {
  if (const char* problem = InputProblem(options); problem != nullptr) return absl::InvalidArgumentError(problem);
  if (const char* problem = OutputProblem(options); problem != nullptr) return absl::InvalidArgumentError(problem);
  if (absl::Status s = CheckConstraints(options.chat, options.request.structured); !s.ok()) return s;
  v1::GenerateRequest request;
  if (absl::Status s = FillRequest(options.request, &request); !s.ok()) return s;
  if (absl::Status s = FillInput(options, &request); !s.ok()) return s;
  FillOutput(options, request.mutable_output());
  if (options.n) request.mutable_sampling()->set_n(*options.n);
  if (options.truncate_prompt_tokens) request.set_truncate_prompt_tokens(*options.truncate_prompt_tokens);
  request.set_request_id(options.request_id);
  return request;
}

}  // namespace dunlin::cli
