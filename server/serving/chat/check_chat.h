// SPDX-License-Identifier: Apache-2.0
// Validates a chat before its template runs. Pure, any thread; takes time linear in the chat.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/request/request_field.h"
#include "text/chat_template.h"

namespace dunlin::server {

inline constexpr size_t kMaxChatMessages = 4096;
inline constexpr size_t kMaxChatRoleBytes = 64;
inline constexpr size_t kMaxChatParts = 1024;  // of one message
inline constexpr size_t kMaxToolCalls = 256;   // of one message
inline constexpr size_t kMaxChatTools = 1024;
inline constexpr int kMaxChatJsonDepth = 64;

// The first violation, or none: sizes and counts; roles of letters, digits, '_', '-' and '.'; parts of type "text"
// or "image"; JSON fields that are JSON of their kind, within the bounds of bodies (server/json/json_value.h); text
// that is UTF-8; options that exclude each other.
std::optional<engine::Violation> CheckChat(const text::ChatInput& chat);

// The first bytes of a client's word in quotes, escaped, for messages.
std::string QuotedWord(std::string_view text);

// Of all its strings.
size_t BytesOf(const text::ChatInput& chat);

}  // namespace dunlin::server
