// SPDX-License-Identifier: Apache-2.0
#include "server/access/key_digest.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string DrawKey() {
  std::array<char, kKeyBits / 8> bits{};
  DUNLIN_CHECK(getrandom(bits.data(), bits.size(), 0) == static_cast<ssize_t>(bits.size()), "getrandom failed");
  std::string letters;
  absl::WebSafeBase64Escape(absl::string_view(bits.data(), bits.size()), &letters);  // without padding
  OPENSSL_cleanse(bits.data(), bits.size());
  std::string key = absl::StrCat(kKeyPrefix, letters);
  Wipe(&letters);
  return key;
}

KeyDigest DigestOf(std::string_view key) {
  KeyDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

std::string DigestText(const KeyDigest& digest) {
  const absl::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return absl::StrCat(engine::AbslView(kDigestPrefix), absl::BytesToHexString(bytes));
}

std::optional<KeyDigest> ParseDigest(std::string_view text) {
  KeyDigest digest;
  if (text.substr(0, kDigestPrefix.size()) != kDigestPrefix) return std::nullopt;
  const std::string_view digits = text.substr(kDigestPrefix.size());
  if (digits.size() != 2 * digest.size() || digits.find_first_not_of(kHexDigits) != digits.npos) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes(engine::AbslView(digits));
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::string SaltOf(std::string_view name, std::string_view salt) {
  std::string text(name);
  text.push_back('\0');
  text.append(salt);
  const KeyDigest digest = DigestOf(text);
  return {digest.begin(), digest.end()};
}

bool EqualInConstantTime(const KeyDigest& a, const KeyDigest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void Wipe(std::string* text) {
  OPENSSL_cleanse(text->data(), text->size());
  text->clear();
}

}  // namespace dunlin::server
