// SPDX-License-Identifier: Apache-2.0
// Files of the config in PEM format, and what is in them. Pure functions of the files. Errors of all of them:
// INVALID_ARGUMENT naming the config key, the file and what is wrong.
// Source: RFC 7468.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::server {

template <class T, void (*kFree)(T*)>
struct FreeOpenSsl {
  void operator()(T* object) const { kFree(object); }
};
using Certificate = std::unique_ptr<X509, FreeOpenSsl<X509, X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeOpenSsl<EVP_PKEY, EVP_PKEY_free>>;

// A file of the config: its key, its path and what is in it.
struct PemFile {
  const char* config_key;
  std::string path;
  std::string text;
};

absl::Status Fault(const PemFile& file, const std::string& what);
// The reason of OpenSSL's last error, which is taken off its queue with all before it.
std::string TakeReason();

// The text of a regular file of at most 1 MiB.
absl::StatusOr<PemFile> ReadPemFile(const char* config_key, const std::string& path);
// All of them, at least one.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const PemFile& file);
// The first; without a passphrase.
absl::StatusOr<PrivateKey> ParseKey(const PemFile& file);

}  // namespace dunlin::server
