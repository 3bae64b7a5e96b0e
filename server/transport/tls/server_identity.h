// SPDX-License-Identifier: Apache-2.0
// What a TLS server presents and whom it accepts, read from PEM files and checked as a whole. Pure functions of the
// files; a ServerIdentity never changes.
// Source: RFC 5246, RFC 8446 (TLS 1.2 and 1.3), RFC 7301 (ALPN), RFC 7468 (PEM).
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dunlin::server {

struct TlsFiles {
  std::string certificate;                 // the server's, then those of intermediate authorities
  std::string key;                         // of the first certificate, without a passphrase
  std::string client_ca;                   // authorities of client certificates; empty: clients show none
  bool require_client_certificate = true;  // with client_ca; false: a client may come without one
};

struct ServerIdentity {
  std::string certificate_pem;
  std::string key_pem;
  std::string client_ca_pem;         // empty: clients show no certificate
  absl::Time valid_from;             // the latest beginning of the certificates in the file, in whole seconds
  absl::Time expires;                // the earliest end
  std::shared_ptr<SSL_CTX> context;  // any thread; a connection that uses it keeps it alive
};

// Reads the files and builds a context for servers: TLS 1.2 and 1.3, ciphers with forward secrecy and authenticated
// encryption, no renegotiation, no compression. application_protocol: a string literal, what ALPN selects; a client
// that offers others alone is refused. A certificate outside its time is accepted; see valid_from and expires. Errors:
// INVALID_ARGUMENT naming the config key, the file and what is wrong: not readable, over 1 MiB, not PEM, a key with a
// passphrase or of another certificate.
absl::StatusOr<std::shared_ptr<const ServerIdentity>> ReadServerIdentity(const TlsFiles& files,
                                                                         const char* application_protocol);

}  // namespace dunlin::server
