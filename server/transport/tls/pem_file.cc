// SPDX-License-Identifier: Apache-2.0
#include "server/transport/tls/pem_file.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/bounded_read.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

using Bio = std::unique_ptr<BIO, FreeOpenSsl<BIO, BIO_free_all>>;

Bio OpenText(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A terminal would be asked otherwise.
int NoPassphrase(char*, int, int, void*) {
  return -1;
}

}  // namespace

absl::Status Fault(const PemFile& file, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file.config_key, " ", file.path, ": ", what));
}

std::string TakeReason() {
  const auto code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "not valid" : reason;
}

absl::StatusOr<PemFile> ReadPemFile(const char* config_key, const std::string& path) {
  PemFile file{config_key, path, ""};
  absl::StatusOr<std::string> text = engine::ReadRegularFile(path, kMaxFileBytes);
  if (!text.ok()) return Fault(file, std::string(text.status().message()));
  file.text = *std::move(text);
  // gRPC takes PEM texts as C strings.
  if (file.text.find('\0') != std::string::npos) return Fault(file, "not a PEM file");
  return file;
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const PemFile& file) {
  const Bio bio = OpenText(file.text);
  std::vector<Certificate> certificates;
  while (Certificate certificate{PEM_read_bio_X509(bio.get(), nullptr, &NoPassphrase, nullptr)}) {
    certificates.push_back(std::move(certificate));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeReason();
  if (!at_end) return Fault(file, reason);
  if (certificates.empty()) return Fault(file, "has no certificate in PEM format");
  return certificates;
}

absl::StatusOr<PrivateKey> ParseKey(const PemFile& file) {
  const Bio bio = OpenText(file.text);
  PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, nullptr));
  if (key != nullptr) return key;
  return Fault(file, absl::StrCat("has no private key in PEM format without a passphrase (", TakeReason(), ")"));
}

}  // namespace dunlin::server
