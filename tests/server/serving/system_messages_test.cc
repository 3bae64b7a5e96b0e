// SPDX-License-Identifier: Apache-2.0
// Where a template takes system messages, by what it renders; and where they go that it does not take.
#include "server/serving/chat/system_messages.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dunlin::server {
namespace {

using text::ChatMessage;

const std::unique_ptr<text::Tokenizer> kTokenizer =
    text::Tokenizer::Load(DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2", 0).value();

SystemPlaces PlacesOf(const char* text) {
  const auto loaded = text::ChatTemplate::Load(DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2", text);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return SystemPlacesOf(**loaded, *kTokenizer);
}

TEST(SystemPlaces, AreWhatTheTemplateRenders) {
  EXPECT_EQ(PlacesOf("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"), SystemPlaces::kAnywhere);
  EXPECT_EQ(PlacesOf("{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                     "{{ raise_exception('the system comes first') }}{% endif %}{{ m.content }}{% endfor %}"),
            SystemPlaces::kFirst);
  EXPECT_EQ(PlacesOf("{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
                     "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}"),
            SystemPlaces::kFirst)
      << "the others vanish";
  EXPECT_EQ(PlacesOf("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
                     "{{ m.content }}{% endfor %}"),
            SystemPlaces::kNowhere);
}

std::string Moved(std::initializer_list<std::pair<const char*, const char*>> chat, SystemPlaces places) {
  std::vector<ChatMessage> messages;
  for (const auto& [role, content] : chat) {
    ChatMessage& message = messages.emplace_back();
    message.role = role;
    message.content = content;
  }
  std::string shown;
  for (const ChatMessage& message : WithSystemMoved(messages, places)) {
    shown += message.role.substr(0, 1) + ":" + message.content.value_or("?") + " ";
  }
  return shown;
}

TEST(SystemMessages, StayWhereTheTemplateTakesThem) {
  EXPECT_EQ(Moved({{"system", "A"}, {"user", "U"}, {"system", "B"}}, SystemPlaces::kAnywhere), "s:A u:U s:B ");
  EXPECT_EQ(Moved({{"system", "A"}, {"user", "U"}}, SystemPlaces::kFirst), "s:A u:U ");
}

TEST(SystemMessages, AtTheBeginningBecomeOne) {
  EXPECT_EQ(Moved({{"system", "A"}, {"system", "B"}, {"user", "U"}}, SystemPlaces::kFirst), "s:A\n\nB u:U ");
}

TEST(SystemMessages, WithinAChatBecomeTheUsers) {
  EXPECT_EQ(Moved({{"system", "A"}, {"user", "U"}, {"system", "B"}, {"assistant", "V"}}, SystemPlaces::kFirst),
            "s:A u:U\n\nB a:V ");
  EXPECT_EQ(Moved({{"user", "U"}, {"assistant", "V"}, {"system", "B"}, {"user", "W"}}, SystemPlaces::kFirst),
            "u:U a:V u:B\n\nW ");
  EXPECT_EQ(Moved({{"user", "U"}, {"system", "B"}, {"system", "C"}, {"user", "W"}}, SystemPlaces::kFirst),
            "u:U\n\nB\n\nC\n\nW ")
      << "roles take turns";
  EXPECT_EQ(Moved({{"user", "U"}, {"user", "W"}}, SystemPlaces::kFirst), "u:U u:W ") << "as the client sent them";
  EXPECT_EQ(Moved({{"tool", "T"}, {"system", "B"}, {"assistant", "V"}}, SystemPlaces::kFirst), "t:T u:B a:V ");
}

TEST(SystemMessages, OfTemplatesWithoutThemBecomeTheUsers) {
  EXPECT_EQ(Moved({{"system", "A"}, {"system", "B"}, {"user", "U"}, {"assistant", "V"}}, SystemPlaces::kNowhere),
            "u:A\n\nB\n\nU a:V ");
}

TEST(SystemMessages, KeepTheirParts) {
  std::vector<ChatMessage> messages(2);
  messages[0].role = "user";
  messages[0].parts = {{"text", "a"}, {"text", "b"}};
  messages[1].role = "system";
  messages[1].content = "c";
  const std::vector<ChatMessage> moved = WithSystemMoved(messages, SystemPlaces::kFirst);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_FALSE(moved[0].content.has_value());
  ASSERT_EQ(moved[0].parts.size(), 3U);
  EXPECT_EQ(moved[0].parts[1].text + moved[0].parts[2].text, "b\n\nc");
}

}  // namespace
}  // namespace dunlin::server
