// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/generation_body.h"

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/fronts/ollama/field_names.h"
#include "server/fronts/ollama/shared_rows.h"
#include "server/json/draw_param_rows.h"
#include "server/json/function_tools.h"
#include "server/json/image_data.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::ollama {
namespace {

using text::ChatMessage;
using text::ChatPart;
using text::ChatToolCall;
using text::GrammarKind;
using V = JsonValue;
using B = GenerationBody;

constexpr std::string_view kTextAlone = "models here write text alone";

constexpr FieldRow<ChatToolCall> kFunction[] = {
    Honoured<ChatToolCall>("name", [](const V& v, ChatToolCall* c) { c->name = v.Text(); }),
    Honoured<ChatToolCall>("arguments",
                           [](const V& v, ChatToolCall* c) {
                             if (v.ExpectObject()) c->arguments_json = DumpJson(v.json());
                           }),
    Ignored<ChatToolCall>("index"),
};

constexpr FieldRow<ChatToolCall> kToolCall[] = {
    Honoured<ChatToolCall>("id", [](const V& v, ChatToolCall* c) { c->id = v.Text(); }),
    Honoured<ChatToolCall>("function",
                           [](const V& v, ChatToolCall* c) { ReadFields(v, FieldTable<ChatToolCall>(kFunction), c); }),
    Ignored<ChatToolCall>("type"),
};

void ReadRole(const V& role, ChatMessage* message) {
  message->role = absl::AsciiStrToLower(role.Text());
  for (const char* known : {"system", "user", "assistant", "tool"}) {
    if (message->role == known) return;
  }
  role.FailName("role", "\"system\", \"user\", \"assistant\" or \"tool\"");
}

void ReadImages(const V& images, std::vector<ChatPart>* parts) {
  if (!images.ExpectArray()) return;
  for (size_t i = 0; i < images.size() && images.ok(); ++i) parts->push_back(ImageOfBase64(images.At(i)));
}

// Images come before the text, as in Ollama's own templates.
void JoinTextToImages(ChatMessage* message) {
  if (message->parts.empty()) return;
  std::string text = std::exchange(message->content, std::nullopt).value_or("");
  if (!text.empty()) message->parts.push_back({"text", std::move(text)});
}

constexpr FieldRow<ChatMessage> kMessage[] = {
    Honoured<ChatMessage>("role", ReadRole),
    Honoured<ChatMessage>("content", [](const V& v, ChatMessage* m) { m->content = v.Text(); }),
    Honoured<ChatMessage>("thinking", [](const V& v, ChatMessage* m) { m->reasoning_content = v.Text(); }),
    Honoured<ChatMessage>("tool_calls",
                          [](const V& v, ChatMessage* m) {
                            if (!v.ExpectArray()) return;
                            for (size_t i = 0; i < v.size() && v.ok(); ++i) {
                              ReadFields(v.At(i), FieldTable<ChatToolCall>(kToolCall), &m->tool_calls.emplace_back());
                            }
                          }),
    Honoured<ChatMessage>("tool_name", [](const V& v, ChatMessage* m) { m->name = v.Text(); }),
    Honoured<ChatMessage>("tool_call_id", [](const V& v, ChatMessage* m) { m->tool_call_id = v.Text(); }),
    Honoured<ChatMessage>("images", [](const V& v, ChatMessage* m) { ReadImages(v, &m->parts); }),
};

// Ollama takes a message without content for an empty one.
void ReadMessages(const V& messages, B* body) {
  if (!messages.ExpectArray()) return;
  for (size_t i = 0; i < messages.size() && messages.ok(); ++i) {
    const V value = messages.At(i);
    ChatMessage& message = body->chat.messages.emplace_back();
    ReadFields(value, FieldTable<ChatMessage>(kMessage), &message);
    if (!message.content.has_value() && message.tool_calls.empty()) message.content = "";
    JoinTextToImages(&message);
    const V role = value.is_object() ? value.At("role") : value;
    if (role.is_null()) role.Fail(role.Shown(), "a string");
  }
}

void ReadTools(const V& tools, B* body) {
  const Json list = ReadFunctionTools(tools, true);
  if (!list.empty()) body->chat.tools_json = DumpJson(list);
}

// "json", or a schema.
void ReadFormat(const V& format, B* body) {
  std::optional<text::GrammarSource>& out = body->request->structured_output;
  if (format.is_object()) {
    out = text::GrammarSource{GrammarKind::kJsonSchema, DumpJson(format.json()), {}};
  } else if (format.json() == "json") {
    out = text::GrammarSource{GrammarKind::kJsonObject, {}, {}};
  } else if (!format.is_string()) {
    format.Fail(format.Shown(), "\"json\" or a JSON Schema");
  } else if (!format.Text().empty()) {
    format.FailName("format", "\"json\" or a JSON Schema");
  }
}

// Templates that can think read enable_thinking, those with levels reasoning_effort.
void ReadThink(const V& think, B* body) {
  body->template_options["enable_thinking"] = true;
  if (!think.is_string()) {
    body->template_options["enable_thinking"] = think.Bool();
    return;
  }
  const std::string level = think.Text();
  if (level != "low" && level != "medium" && level != "high" && level != "max") {
    return think.FailName("level", "true, false, \"low\", \"medium\", \"high\" or \"max\"");
  }
  body->template_options["reasoning_effort"] = level;
}

// What would cut a chat that is too long, or move its context on: such a request is refused, or ends.
void NameIfTrue(const V& value, B* /*body*/) {
  if (value.Bool()) value.Ignore();
}

engine::DrawParamOverrides* DrawParamsOf(B* body) {
  return &body->request->sampling;
}

// 0: the most likely token alone, which is what the least positive number leaves.
void ReadTopP(const V& top_p, B* body) {
  body->request->sampling.top_p = top_p.json() == 0 ? std::numeric_limits<float>::min() : top_p.Number();
}

constexpr auto kDrawRows = [] {
  auto rows = DrawParamRows<B, V, DrawParamsOf>();
  for (FieldRow<B>& row : rows) {
    if (row.name == "repetition_penalty") row.name = "repeat_penalty";
    if (row.name == "top_p") row.read = ReadTopP;
  }
  return rows;
}();

void ReadSeed(const V& seed, B* body) {
  if (seed.json() != -1) body->request->sampling.seed = seed.Unsigned64();  // -1: one is drawn
}

// Without a positive number: what context and KV pool leave.
void ReadNumPredict(const V& num_predict, B* body) {
  if (const int32_t tokens = num_predict.Int(); tokens > 0) body->request->stopping.max_tokens = tokens;
}

// A penalty looks at all tokens here, as with -1.
void ReadRepeatLastN(const V& repeat_last_n, B* /*body*/) {
  if (repeat_last_n.Int() != -1) repeat_last_n.Ignore();
}

constexpr FieldRow<B> kOptions[] = {
    Honoured<B>("seed", ReadSeed),
    Honoured<B>("num_predict", ReadNumPredict),
    Honoured<B>("stop", [](const V& v, B* b) { b->request->stopping.stop = v.TextOrTexts(); }),
    Ignored<B>("repeat_last_n", ReadRepeatLastN),
    Refused<B>("typical_p", "top_p, top_k and min_p choose tokens", "1"),
    Refused<B>("tfs_z", "top_p, top_k and min_p choose tokens", "1"),
    Refused<B>("mirostat", "top_p, top_k and min_p choose tokens", "0"),
};

constexpr FieldRow<B> kShared[] = {
    Honoured<B>("stream", [](const V& v, B* b) { b->stream = v.Bool(); }),
    Honoured<B>("format", ReadFormat),
    Honoured<B>("options", [](const V& v, B* b) { ReadFields(v, OptionFields(), b); }),
    Honoured<B>("think", ReadThink),
    Honoured<B>("logprobs", [](const V& v, B* b) { b->logprobs = v.Bool(); }),
    Honoured<B>("top_logprobs", [](const V& v, B* b) { b->top_logprobs = v.Int(); }),
    Honoured<B>("priority", [](const V& v, B* b) { b->request->priority = v.Int(); }),
    Honoured<B>("cache_salt", [](const V& v, B* b) { b->request->cache_salt = v.Text(); }),
    Honoured<B>("speculation", [](const V& v, B* b) { ReadSpeculation(v, &b->request->execution); }),
    Ignored<B>("truncate", NameIfTrue),
    Ignored<B>("shift", NameIfTrue),
    Refused<B>("_debug_render_only", "POST /tokenize tells the tokens of a chat", "false"),
};

constexpr FieldRow<B> kChat[] = {
    Honoured<B>("messages", ReadMessages),
    Honoured<B>("tools", ReadTools),
};

constexpr FieldRow<B> kGenerate[] = {
    Honoured<B>("prompt", [](const V& v, B* b) { b->prompt = v.Text(); }),
    Honoured<B>("system", [](const V& v, B* b) { b->system = v.Text(); }),
    Honoured<B>("images", [](const V& v, B* b) { ReadImages(v, &b->images); }),
    Honoured<B>("raw", [](const V& v, B* b) { b->raw = v.Bool(); }),
    Refused<B>("suffix", "models here continue a text at its end", "\"\""),
    Refused<B>("template", "models[].chat_template sets it", "\"\""),
    Refused<B>("context", "/api/chat takes the messages of a conversation", "[]"),
    Refused<B>("width", kTextAlone, "0"),
    Refused<B>("height", kTextAlone, "0"),
    Refused<B>("steps", kTextAlone, "0"),
};

// An assistant's last message is continued.
void FinishMessages(B* body) {
  const std::vector<ChatMessage>& messages = body->chat.messages;
  if (messages.empty()) {
    body->request->loads_only = true;
    return;
  }
  body->chat.continue_final_message = messages.back().role == "assistant" && messages.back().tool_calls.empty();
}

// The prompt as the chat of one user, or of a model without a chat template as it is.
absl::Status FinishPrompt(B* body) {
  if (body->prompt.empty() && body->images.empty()) {
    body->request->loads_only = true;
    return absl::OkStatus();
  }
  if (body->raw && !body->system.empty()) {
    return InvalidField("system", "is given with raw", "requests without \"raw\": true");
  }
  if (body->raw && !body->images.empty()) {
    return InvalidField("images", "is given with raw", "requests without \"raw\": true");
  }
  if (body->system.empty() && body->images.empty()) body->request->untemplated_prompt = body->prompt;
  std::vector<ChatMessage>& messages = body->chat.messages;
  if (!body->system.empty()) {
    ChatMessage& system = messages.emplace_back();
    system.role = "system";
    system.content = body->system;
  }
  ChatMessage& user = messages.emplace_back();
  user.role = "user";
  user.content = body->prompt;
  user.parts = std::move(body->images);
  JoinTextToImages(&user);
  return absl::OkStatus();
}

void FinishRequest(B* body) {
  ClientRequest& request = *body->request;
  if (body->logprobs) request.output.logprobs = body->top_logprobs.value_or(0);
  if (request.loads_only) {
    body->stream = false;
    return;
  }
  if (body->raw) {
    request.untemplated_prompt.reset();
    request.parse_special_tokens = true;  // the client has applied a template itself
    request.prompt = std::move(body->prompt);
    return;
  }
  text::ChatInput& chat = body->chat;
  chat.moves_system_messages = true;
  chat.add_generation_prompt = !chat.continue_final_message;
  if (!body->template_options.empty()) chat.template_options_json = DumpJson(body->template_options);
  request.prompt = std::move(chat);
}

template <size_t kSize>
std::array<FieldTable<B>, 4> TablesOf(const FieldRow<B> (&own)[kSize]) {
  return {own, kShared, kCallRows<B>, kExecutionRows<B>};
}

}  // namespace

std::span<const FieldTable<GenerationBody>> FieldsOf(GenerationApi api) {
  static const auto kChatTables = TablesOf(kChat);
  static const auto kGenerateTables = TablesOf(kGenerate);
  return api == GenerationApi::kChat ? kChatTables : kGenerateTables;
}

std::span<const FieldTable<GenerationBody>> OptionFields() {
  static const FieldTable<B> kTables[] = {kDrawRows, kOptions, kRunnerRows<B>, kExecutionRows<B>};
  return kTables;
}

absl::Status ReadGenerationBody(GenerationApi api, std::string_view text, GenerationBody* body) {
  body->request->field_names = api == GenerationApi::kChat ? &kChatFieldNames : &kGenerateFieldNames;
  const absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  ReadFields(JsonValue(*json, &status, body->strict ? nullptr : &body->request->ignored), FieldsOf(api), body);
  if (api == GenerationApi::kChat) {
    FinishMessages(body);
  } else if (absl::Status s = FinishPrompt(body); status.ok()) {
    status = s;
  }
  FinishRequest(body);
  return status;
}

}  // namespace dunlin::server::ollama
