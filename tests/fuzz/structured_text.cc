// SPDX-License-Identifier: Apache-2.0
// Grammars of clients, chat templates of models, chats of clients, and what models write in a chat. Here grammars and
// templates are compiled in the fuzzer's own process; the server has a child for that, with limits on memory and time.
#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/sampling.h"
#include "tests/fuzz/golden_tokenizer.h"
#include "tests/fuzz/input_bytes.h"
#include "tests/text/chat_output/parsed_output.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/utf8.h"

namespace dunlin::fuzz {
namespace {

using text::ChatTemplate;
using text::GrammarCompiler;
using text::GrammarKind;

constexpr size_t kMaxSteps = 12;  // tokens of an output that a grammar constrains

const GrammarCompiler& Compiler() {
  static const std::unique_ptr<GrammarCompiler> compiler = [] {
    const std::vector<engine::TokenId> eos = {0};
    auto created =
        GrammarCompiler::Create(GoldenTokenizer(), eos, static_cast<int32_t>(GoldenTokenizer().vocab_size()));
    DUNLIN_FUZZ_CHECK(created.ok(), created.status().ToString());
    return *std::move(created);
  }();
  return *compiler;
}

// A token of the mask, the one that `choice` counts to; -1: there is none but the end.
engine::TokenId Pick(const std::vector<uint32_t>& mask, uint32_t choice) {
  std::vector<engine::TokenId> allowed;
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      const auto id = static_cast<engine::TokenId>(word * 32) + std::countr_zero(bits);
      DUNLIN_FUZZ_CHECK(id < GoldenTokenizer().vocab_size(), "a mask beyond the vocabulary");
      if (id != 0) allowed.push_back(id);
    }
  }
  return allowed.empty() ? -1 : allowed[choice % allowed.size()];
}

// Compiles, and lets an output grow by tokens that the mask allows: each of them is accepted.
void Constrain(const text::GrammarSource& source, uint32_t seed) {
  const auto constraint = Compiler().Compile(source);
  if (!constraint.ok()) return;
  const auto state = (*constraint)->Start();
  std::vector<uint32_t> mask(
      static_cast<size_t>(kernels::MaskWords(static_cast<int32_t>(GoldenTokenizer().vocab_size()))));
  for (size_t step = 0; step < kMaxSteps; ++step) {
    if (!state->FillMask(mask).ok()) return;
    const engine::TokenId token = Pick(mask, seed);
    if (token < 0) {
      DUNLIN_FUZZ_CHECK(state->is_accepting(), "an output that may neither go on nor end");
      return;
    }
    const absl::Status status = state->Accept(token);
    if (absl::IsResourceExhausted(status)) return;
    DUNLIN_FUZZ_CHECK(status.ok(), "a token of the mask is refused");
    seed = seed * 1103515245 + 12345;
  }
}

int Compile(GrammarKind kind, const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint8_t seed = input.Byte();
  Constrain({.kind = kind, .text = std::string(input.rest()), .choices = {}}, seed);
  return 0;
}

constexpr text::LocalTime kNow = {.unix_seconds = 1'700'000'000, .utc_offset_seconds = 3600};

text::ChatMessage Message(std::string role, std::string content) {
  text::ChatMessage message;
  message.role = std::move(role);
  message.content = std::move(content);
  return message;
}

text::ChatInput SampleChat() {
  text::ChatInput chat;
  chat.messages = {Message("system", "Be brief. <s>"), Message("user", "What is a dunlin?"),
                   Message("assistant", "A bird.")};
  chat.messages.back().tool_calls = {{"call_1", "look_up", R"({"name": "dunlin", "n": [1, null]})"}};
  chat.messages.push_back(Message("tool", "Calidris alpina"));
  chat.messages.back().tool_call_id = "call_1";
  chat.tools_json = R"([{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}])";
  return chat;
}

void Render(const ChatTemplate& chat_template, const auto& chat) {
  const auto rendered = chat_template.Render(GoldenTokenizer(), chat, kNow);
  if (!rendered.ok()) return;
  DUNLIN_FUZZ_CHECK(text::IsValidUtf8(rendered->text), "a prompt is no text");
  DUNLIN_FUZZ_CHECK(std::is_sorted(rendered->breaks.begin(), rendered->breaks.end()), "breaks are not ascending");
  const auto ids = ChatTemplate::Encode(GoldenTokenizer(), *rendered);
  DUNLIN_FUZZ_CHECK(ids.ok(), "a prompt cannot be encoded");
}

}  // namespace

// Input of these three: a seed of the output (1 byte), the text.
int FuzzJsonSchema(const uint8_t* data, size_t size) {
  return Compile(GrammarKind::kJsonSchema, data, size);
}
int FuzzRegex(const uint8_t* data, size_t size) {
  return Compile(GrammarKind::kRegex, data, size);
}
int FuzzGrammar(const uint8_t* data, size_t size) {
  return Compile(GrammarKind::kGrammar, data, size);
}

// Input: the template of a model.
int FuzzChatTemplate(const uint8_t* data, size_t size) {
  const std::string source(TextOf(data, size));
  const engine::MemoryFiles files({});
  if (source.empty()) return 0;
  const auto chat_template = ChatTemplate::Load(files, source);
  if (chat_template.ok()) Render(**chat_template, SampleChat());
  return 0;
}

// Input: flags (1 byte), and the messages, the tools and the options of a client's chat as JSON; 0xFF between them.
int FuzzChatMessages(const uint8_t* data, size_t size) {
  static const std::unique_ptr<ChatTemplate> chat_template = [] {
    auto loaded =
        ChatTemplate::Load(engine::MemoryFiles({}), ReadTreeFile("tests/golden/chat/templates/thinking_tools.jinja"));
    DUNLIN_FUZZ_CHECK(loaded.ok(), loaded.status().ToString());
    return *std::move(loaded);
  }();
  InputBytes input(data, size);
  const uint8_t flags = input.Byte();
  text::ChatJson chat;
  chat.messages = input.Part();
  chat.tools = input.Part();
  chat.options = input.rest();
  chat.add_generation_prompt = (flags & 1) != 0;
  chat.continue_final_message = (flags & 2) != 0;
  chat.parse_special_tokens = (flags & 4) != 0;
  Render(*chat_template, chat);
  return 0;
}

// Input: the forms (2 bytes), flags (1 byte), what the model writes. However it is divided, the same comes out, and
// nothing of it is lost.
int FuzzChatOutput(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const auto tools = text::ToolFormats();
  const auto reasoning = text::ReasoningFormats();
  text::ParseOptions options;
  if (const uint8_t choice = input.Byte(); choice != 0) options.forms.calls = &tools[choice % tools.size()];
  if (const uint8_t choice = input.Byte(); choice != 0) options.forms.reasoning = &reasoning[choice % reasoning.size()];
  options.parallel = input.Byte() % 2 == 0;
  const std::string_view output = input.rest();
  if (!text::Fit(options.forms) || !text::IsValidUtf8(output)) return 0;
  const text::ParsedOutput whole = text::Parse(options, output);
  DUNLIN_FUZZ_CHECK(!options.parallel || whole.raw == output, "a part of the output is lost");
  DUNLIN_FUZZ_CHECK(text::ParseBytewise(options, output) == whole, "the division changes what comes out");
  return 0;
}

}  // namespace dunlin::fuzz
