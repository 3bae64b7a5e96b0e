// SPDX-License-Identifier: Apache-2.0
#include "server/transport/tls/client_identity.h"

#include <openssl/err.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/transport/tls/pem_file.h"

namespace dunlin::server {

absl::StatusOr<ClientIdentity> ReadClientIdentity(const NamedFile& ca, const NamedFile& certificate,
                                                  const NamedFile& key) {
  ERR_clear_error();
  ClientIdentity identity;
  if (!ca.path.empty()) {
    absl::StatusOr<PemFile> file = ReadPemFile(ca.config_key, ca.path);
    if (!file.ok()) return file.status();
    if (const auto authorities = ParseCertificates(*file); !authorities.ok()) return authorities.status();
    identity.ca_pem = std::move(file->text);
  }
  if (certificate.path.empty()) return identity;
  absl::StatusOr<PemFile> certificate_file = ReadPemFile(certificate.config_key, certificate.path);
  if (!certificate_file.ok()) return certificate_file.status();
  absl::StatusOr<PemFile> key_file = ReadPemFile(key.config_key, key.path);
  if (!key_file.ok()) return key_file.status();
  const absl::StatusOr<std::vector<Certificate>> certificates = ParseCertificates(*certificate_file);
  if (!certificates.ok()) return certificates.status();
  const absl::StatusOr<PrivateKey> private_key = ParseKey(*key_file);
  if (!private_key.ok()) return private_key.status();
  if (X509_check_private_key(certificates->front().get(), private_key->get()) != 1) {
    ERR_clear_error();
    return Fault(*key_file, absl::StrCat("not the key of the certificate in ", certificate.path, " (",
                                         certificate.config_key, ")"));
  }
  identity.certificate_pem = std::move(certificate_file->text);
  identity.key_pem = std::move(key_file->text);
  return identity;
}

}  // namespace dunlin::server
