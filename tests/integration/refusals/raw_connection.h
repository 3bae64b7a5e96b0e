// SPDX-License-Identifier: Apache-2.0
// Bytes on a TCP connection, and HTTP/2 frames to make them of. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dunlin::integration {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Frame types and flags of HTTP/2. Source: RFC 9113, section 6.
inline constexpr uint8_t kData = 0, kHeaders = 1, kRstStream = 3, kSettings = 4, kContinuation = 9;
inline constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;

// The client's preface and an empty SETTINGS frame.
std::string Http2Preface();
// Source: RFC 9113, section 4.1.
std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);
// Literal fields without indexing. Source: RFC 7541, section 6.2.2.
std::string HeaderBlock(const Headers& headers);
// The headers of a call of Generate, without these and with those.
Headers CallHeaders(const Headers& more = {}, std::string_view without = "");
// Preface, HEADERS on stream 1, and one DATA frame with END_STREAM that holds `body`.
std::string Http2Call(const Headers& headers, std::string_view body);
// A message with gRPC's prefix: the flag, and the length in four bytes.
std::string Prefixed(uint8_t flag, uint32_t length, std::string_view message);

// Connects to "host:port", sends, and says what the server does; see ConnectionRow. A connection that is neither
// answered nor closed for so long behind the last byte is "open".
std::string OutcomeOf(const std::string& address, std::string_view bytes, std::chrono::milliseconds silence);

}  // namespace dunlin::integration
