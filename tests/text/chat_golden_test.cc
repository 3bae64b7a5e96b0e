// SPDX-License-Identifier: Apache-2.0
// Every template and conversation of tests/golden/chat: byte-equal and token-equal with Hugging Face transformers, and
// refused where it refuses. Templates and conversations are data: a new template needs no line here.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/string_view.h"
#include "text/chat_template.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

const std::string kDir = DUNLIN_SOURCE_DIR "/tests/golden/chat/";
constexpr LocalTime kNow = {.unix_seconds = 1785056703, .utc_offset_seconds = 0};  // 2026-07-26 09:05:03

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json ReadJson(const std::string& path) {
  return Json::parse(ReadText(path));
}

std::string Fnv1a(const std::vector<engine::TokenId>& ids) {
  uint64_t value = 0xCBF29CE484222325U;
  for (const engine::TokenId id : ids) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      value = (value ^ ((static_cast<uint32_t>(id) >> shift) & 0xFFU)) * 0x100000001B3U;
    }
  }
  char text[17];
  (void)std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

struct Chat {
  explicit Chat(const Json& conversation)
      : messages(conversation["messages"].dump()),
        tools(conversation.contains("tools") ? conversation["tools"].dump() : ""),
        options(conversation.contains("options") ? conversation["options"].dump() : ""),
        continued(conversation.value("continue_final_message", false)),
        add_generation_prompt(conversation.value("add_generation_prompt", !continued)) {}

  ChatJson Parsing(bool special) const { return {messages, tools, options, add_generation_prompt, continued, special}; }

  std::string messages, tools, options;
  bool continued, add_generation_prompt;
};

class ChatGolden : public testing::TestWithParam<std::string> {};

void ExpectIds(const Tokenizer& tokenizer, const RenderedChat& chat, size_t count, const std::string& fnv,
               const std::string& what) {
  const auto ids = ChatTemplate::Encode(tokenizer, chat);
  ASSERT_TRUE(ids.ok()) << what << ": " << ids.status();
  if (count != 0) {
    EXPECT_EQ(ids->size(), count) << what;
  }
  EXPECT_EQ(Fnv1a(*ids), fnv) << what;
}

TEST_P(ChatGolden, IsAsTransformersRendersAndEncodesIt) {
  const Json golden = ReadJson(kDir + "expected.json")[GetParam()];
  const std::string dir = kDir + golden["tokenizer"].get<std::string>();
  const auto tokenizer = Tokenizer::Load(dir, 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto chat_template = ChatTemplate::Load(dir, ReadText(kDir + "templates/" + GetParam() + ".jinja"));
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  const Json conversations = ReadJson(kDir + "conversations.json");
  for (const Json& conversation : conversations) {
    const std::string name = conversation["name"].get<std::string>();
    const Json& expected = golden["results"][name];
    const Chat chat(conversation);
    const auto rendered = (*chat_template)->Render(**tokenizer, chat.Parsing(false), kNow);
    if (!expected.contains("text")) {
      ASSERT_FALSE(rendered.ok()) << name << " gave " << rendered->text;
      EXPECT_EQ(absl::IsFailedPrecondition(rendered.status()), expected.contains("raises")) << rendered.status();
      if (expected.contains("raises")) {
        const std::string message(engine::StdView(rendered.status().message()));
        EXPECT_EQ(message, "is refused by the model's chat template: " + expected["raises"].get<std::string>());
      }
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << name << ": " << rendered.status();
    EXPECT_EQ(rendered->text, expected["text"].get<std::string>()) << name;
    ExpectIds(**tokenizer, *rendered, expected["ids"].get<size_t>(), expected["fnv"].get<std::string>(), name);
    if (!expected.contains("parsed_fnv")) continue;
    const auto parsed = (*chat_template)->Render(**tokenizer, chat.Parsing(true), kNow);
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status();
    ExpectIds(**tokenizer, *parsed, 0, expected["parsed_fnv"].get<std::string>(), name + ", parsed");
  }
}

std::vector<std::string> Templates() {
  const Json golden = ReadJson(kDir + "expected.json");
  std::vector<std::string> names;
  for (const auto& [name, results] : golden.items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatGolden, testing::ValuesIn(Templates()),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace dunlin::text
