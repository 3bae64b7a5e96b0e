// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/tokenizer_archive.h"

#include <openssl/sha.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "engine/base/file.h"
#include "server/serving/record/errors.h"
#include "text/tokenizer.h"

namespace dunlin::server {
namespace {

// What routers look for. Of one model they are as large as what the server itself has read, or small.
constexpr const char* kNames[] = {
    "tokenizer.json",    "tokenizer_config.json",   "config.json",         "generation_config.json",
    "vocab.json",        "special_tokens_map.json", "merges.txt",          "tokenizer.model",
    "added_tokens.json", "chat_template.json",      "chat_template.jinja", "tiktoken.model"};

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr uint32_t kVersion = 20;                // 2.0: needed to extract
constexpr uint32_t kDate = 0x21;                 // 1980-01-01, the earliest
constexpr uint32_t kCrcPolynomial = 0xedb88320;  // CRC-32, reflected

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ kCrcPolynomial : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

void Put(uint32_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// From "version needed" to "extra field length": alike in both headers. Method 0: stored.
void PutEntry(const std::string& name, const std::string& content, std::string* out) {
  Put(kVersion, 2, out);
  Put(0, 2, out);  // flags
  Put(0, 2, out);  // method
  Put(0, 2, out);  // time
  Put(kDate, 2, out);
  Put(Crc32(content), 4, out);
  Put(static_cast<uint32_t>(content.size()), 4, out);
  Put(static_cast<uint32_t>(content.size()), 4, out);
  Put(static_cast<uint32_t>(name.size()), 2, out);
  Put(0, 2, out);  // extra field
}

std::string Sha256Of(const std::string& bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

absl::StatusOr<TokenizerArchive> Read(const ServedModel& model) {
  const absl::StatusOr<engine::Directory> directory = engine::Directory::Open(model.directory);
  if (model.tokenizer == nullptr || !directory.ok() || !directory->Has(kNames[0])) {
    return MakeError(Reason::kNoTokenizer, "the model has no directory with a tokenizer.json");
  }
  std::vector<std::pair<std::string, std::string>> files;
  for (const char* name : kNames) {
    if (!directory->Has(name)) continue;
    absl::StatusOr<std::string> content = directory->ReadFile(name, text::kMaxTokenizerJsonBytes);
    if (!content.ok()) return content.status();
    files.emplace_back(name, *std::move(content));
  }
  TokenizerArchive archive;
  archive.bytes = ZipOf(files);
  archive.sha256 = Sha256Of(archive.bytes);
  return archive;
}

}  // namespace

std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  std::string directory;
  for (const auto& [name, content] : files) {
    const auto offset = static_cast<uint32_t>(archive.size());
    Put(kLocalHeader, 4, &archive);
    PutEntry(name, content, &archive);
    archive += name;
    archive += content;
    Put(kCentralHeader, 4, &directory);
    Put(kVersion, 2, &directory);  // made by
    PutEntry(name, content, &directory);
    Put(0, 2, &directory);  // comment
    Put(0, 2, &directory);  // disk
    Put(0, 2, &directory);  // internal attributes
    Put(0, 4, &directory);  // external attributes
    Put(offset, 4, &directory);
    directory += name;
  }
  const auto begin = static_cast<uint32_t>(archive.size());
  archive += directory;
  Put(kEndOfDirectory, 4, &archive);
  Put(0, 4, &archive);  // disks
  Put(static_cast<uint32_t>(files.size()), 2, &archive);
  Put(static_cast<uint32_t>(files.size()), 2, &archive);
  Put(static_cast<uint32_t>(directory.size()), 4, &archive);
  Put(begin, 4, &archive);
  Put(0, 2, &archive);  // comment
  return archive;
}

absl::StatusOr<std::shared_ptr<const TokenizerArchive>> TokenizerArchives::Get(const ModelLease& model) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<const TokenizerArchive> shared = archive_.lock();
  if (shared != nullptr && model_.lock() == model) return shared;
  absl::StatusOr<TokenizerArchive> read = Read(*model);
  if (!read.ok()) return read.status();
  shared = std::make_shared<const TokenizerArchive>(*std::move(read));
  model_ = model;
  archive_ = shared;
  return shared;
}

}  // namespace dunlin::server
