// SPDX-License-Identifier: Apache-2.0
// API keys and their digests. A key holds 256 random bits, so that one SHA-256 of it cannot be reversed by trying keys:
// no salt and no slow hash are needed, as they are for passwords. Thread rule: any thread. Source: FIPS 180-4
// (SHA-256); RFC 4648, section 5 (base64url).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dunlin::server {

inline constexpr size_t kKeyBits = 256;
inline constexpr char kKeyPrefix[] = "dunlin_";  // of every key, for programs that look for secrets in texts
inline constexpr size_t kMaxKeyBytes = 256;      // a longer credential is no key

using KeyDigest = std::array<uint8_t, 32>;

// kKeyPrefix and 43 letters, digits, '-' and '_' from the system's random source.
std::string DrawKey();

KeyDigest DigestOf(std::string_view key);

// "sha256:" and 64 hexadecimal digits, and back; nothing for another text.
std::string DigestText(const KeyDigest& digest);
std::optional<KeyDigest> ParseDigest(std::string_view text);

// 32 bytes that depend on both texts, and on nothing else of their concatenation. name has no byte 0.
std::string SaltOf(std::string_view name, std::string_view salt);

// Takes the same time whether they are equal or not, and wherever they differ.
bool EqualInConstantTime(const KeyDigest& a, const KeyDigest& b);

// Overwrites the text's bytes and empties it. Not optimised away.
void Wipe(std::string* text);

}  // namespace dunlin::server
