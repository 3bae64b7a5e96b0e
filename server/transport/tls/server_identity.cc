// SPDX-License-Identifier: Apache-2.0
#include "server/transport/tls/server_identity.h"

#include <openssl/err.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/transport/tls/pem_file.h"

namespace dunlin::server {
namespace {

constexpr char kCertificateKey[] = "tls.cert_file";
constexpr char kKeyKey[] = "tls.key_file";
constexpr char kClientCaKey[] = "tls.client_ca_file";
// Of TLS 1.2; all suites of TLS 1.3 are of this kind.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr unsigned char kSessionContext[] = "dunlin";

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm utc{};
  ASN1_TIME_to_tm(time, &utc);
  return absl::FromTimeT(timegm(&utc));
}

void TakeTimes(const std::vector<Certificate>& certificates, ServerIdentity* identity) {
  identity->valid_from = absl::InfinitePast();
  identity->expires = absl::InfiniteFuture();
  for (const Certificate& certificate : certificates) {
    identity->valid_from = std::max(identity->valid_from, TimeOf(X509_get0_notBefore(certificate.get())));
    identity->expires = std::min(identity->expires, TimeOf(X509_get0_notAfter(certificate.get())));
  }
}

absl::Status UseCertificates(const PemFile& file, const std::vector<Certificate>& certificates, SSL_CTX* context) {
  if (SSL_CTX_use_certificate(context, certificates.front().get()) != 1) return Fault(file, TakeReason());
  for (size_t i = 1; i < certificates.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, certificates[i].get()) != 1) return Fault(file, TakeReason());
  }
  return absl::OkStatus();
}

absl::Status UseKey(const PemFile& file, const std::string& certificate_path, EVP_PKEY* key, SSL_CTX* context) {
  if (SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1) return absl::OkStatus();
  ERR_clear_error();
  return Fault(file, absl::StrCat("not the key of the certificate in ", certificate_path, " (", kCertificateKey, ")"));
}

absl::Status AcceptClients(const PemFile& file, bool require, SSL_CTX* context) {
  const absl::StatusOr<std::vector<Certificate>> authorities = ParseCertificates(file);
  if (!authorities.ok()) return authorities.status();
  for (const Certificate& authority : *authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return Fault(file, TakeReason());
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (require ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  return absl::OkStatus();
}

// ALPN for servers. A client that offers nothing gets no answer and goes on.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                   unsigned int in_size, void* protocol) {
  const std::string_view wanted = static_cast<const char*>(protocol);
  for (unsigned int at = 0; at < in_size && at + 1 + in[at] <= in_size; at += 1U + in[at]) {
    if (wanted != std::string_view(reinterpret_cast<const char*>(in + at + 1), in[at])) continue;
    *out = in + at + 1;
    *out_size = in[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

std::shared_ptr<SSL_CTX> NewContext(const char* application_protocol) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return nullptr;
  std::shared_ptr<SSL_CTX> owner(context, &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kCiphers);
  // The last: a client that closes its connection without a notice has ended it like any other.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Writes take what the socket takes; an idle connection holds no record buffers.
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // sessions are resumed by tickets, which take no memory
  SSL_CTX_set_session_id_context(context, kSessionContext, sizeof(kSessionContext) - 1);
  SSL_CTX_set_alpn_select_cb(context, &SelectProtocol, const_cast<char*>(application_protocol));
  return owner;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ServerIdentity>> ReadServerIdentity(const TlsFiles& files,
                                                                         const char* application_protocol) {
  ERR_clear_error();
  absl::StatusOr<PemFile> certificate_file = ReadPemFile(kCertificateKey, files.certificate);
  if (!certificate_file.ok()) return certificate_file.status();
  absl::StatusOr<PemFile> key_file = ReadPemFile(kKeyKey, files.key);
  if (!key_file.ok()) return key_file.status();
  const absl::StatusOr<std::vector<Certificate>> certificates = ParseCertificates(*certificate_file);
  if (!certificates.ok()) return certificates.status();
  const absl::StatusOr<PrivateKey> key = ParseKey(*key_file);
  if (!key.ok()) return key.status();

  auto identity = std::make_shared<ServerIdentity>();
  identity->context = NewContext(application_protocol);
  SSL_CTX* const context = identity->context.get();
  if (context == nullptr) return absl::InternalError(absl::StrCat("TLS: ", TakeReason()));
  if (absl::Status status = UseCertificates(*certificate_file, *certificates, context); !status.ok()) return status;
  if (absl::Status status = UseKey(*key_file, files.certificate, key->get(), context); !status.ok()) return status;
  if (!files.client_ca.empty()) {
    absl::StatusOr<PemFile> client_ca = ReadPemFile(kClientCaKey, files.client_ca);
    if (!client_ca.ok()) return client_ca.status();
    absl::Status status = AcceptClients(*client_ca, files.require_client_certificate, context);
    if (!status.ok()) return status;
    identity->client_ca_pem = std::move(client_ca->text);
  }
  TakeTimes(*certificates, identity.get());
  identity->certificate_pem = std::move(certificate_file->text);
  identity->key_pem = std::move(key_file->text);
  return identity;
}

}  // namespace dunlin::server
