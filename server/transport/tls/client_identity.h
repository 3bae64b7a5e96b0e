// SPDX-License-Identifier: Apache-2.0
// What a TLS client trusts and presents, read from PEM files and checked as a whole. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dunlin::server {

// A file of the config; an empty path: none.
struct NamedFile {
  const char* config_key;
  std::string path;
};

struct ClientIdentity {
  std::string ca_pem;           // authorities of the server's certificate; empty: those of the system
  std::string certificate_pem;  // the client's, then those of intermediate authorities; empty: it shows none
  std::string key_pem;
};

// Errors: INVALID_ARGUMENT naming the config key, the file and what is wrong: not readable, over 1 MiB, not PEM, a key
// with a passphrase or of another certificate. REQUIRES: certificate and key both have a path, or none.
absl::StatusOr<ClientIdentity> ReadClientIdentity(const NamedFile& ca, const NamedFile& certificate,
                                                  const NamedFile& key);

}  // namespace dunlin::server
