// SPDX-License-Identifier: Apache-2.0
#include "tests/server/transport/tls/tls_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

namespace dunlin::server {
namespace {

constexpr timeval kPatience = {20, 0};

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

Bio OpenText(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free_all};
}

int Connected(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

void UseAuthority(const std::string& pem, SSL_CTX* context) {
  const Bio bio = OpenText(pem);
  X509* const certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr);
  EXPECT_EQ(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate), 1);
  X509_free(certificate);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
}

void UseCertificate(const TlsClientOptions& options, SSL_CTX* context) {
  const Bio certificate_bio = OpenText(options.certificate);
  const Bio key_bio = OpenText(options.key);
  X509* const certificate = PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr);
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr);
  EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

}  // namespace

TlsClient::TlsClient(const std::string& address, const TlsClientOptions& options)
    : context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free), socket_(Connected(address)) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets that may be closed
  SSL_CTX* const context = context_.get();
  if (!options.authority.empty()) UseAuthority(options.authority, context);
  if (!options.certificate.empty()) UseCertificate(options, context);
  SSL_CTX_set_min_proto_version(context, options.version == 0 ? TLS1_2_VERSION : options.version);
  SSL_CTX_set_max_proto_version(context, options.version);
  if (options.version != 0 && options.version < TLS1_2_VERSION) SSL_CTX_set_security_level(context, 0);
  if (!options.ciphers.empty()) {
    EXPECT_EQ(SSL_CTX_set_cipher_list(context, options.ciphers.c_str()), 1);
  }
  ssl_.reset(SSL_new(context));
  if (!options.protocol.empty()) {
    const std::string offered = static_cast<char>(options.protocol.size()) + options.protocol;
    SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(offered.data()),
                        static_cast<unsigned int>(offered.size()));
  }
  SSL_set1_host(ssl_.get(), "localhost");
  SSL_set_fd(ssl_.get(), socket_);
  connected_ = SSL_connect(ssl_.get()) == 1;
}

TlsClient::~TlsClient() {
  close(socket_);
}

std::string TlsClient::protocol() const {
  const unsigned char* text = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &text, &size);
  return {reinterpret_cast<const char*>(text), size};
}

std::string TlsClient::server_name() const {
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate == nullptr) return "";
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
  return name.data();
}

bool TlsClient::Send(const std::string& bytes) {
  return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
}

bool TlsClient::ReadSome() {
  std::array<char, 16384> bytes;
  const int count = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  if (count <= 0) return false;
  input_.append(bytes.data(), static_cast<size_t>(count));
  return true;
}

std::string TlsClient::Read(size_t size) {
  while (input_.size() < size && ReadSome()) {
  }
  std::string taken = input_.substr(0, size);
  input_.erase(0, taken.size());
  return taken;
}

std::string TlsClient::ReadUntil(const std::string& end) {
  size_t found = std::string::npos;
  while ((found = input_.find(end)) == std::string::npos && ReadSome()) {
  }
  return Read(found == std::string::npos ? input_.size() : found + end.size());
}

bool TlsClient::got_close_notice() const {
  return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
}

}  // namespace dunlin::server
