// SPDX-License-Identifier: Apache-2.0
// One TLS connection of a test, on OpenSSL alone. Every wait ends after 20 s.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace dunlin::server {

struct TlsClientOptions {
  std::string authority;    // PEM; the server's certificate must be of it; empty: any certificate will do
  std::string certificate;  // PEM; empty: none
  std::string key;
  int version = 0;                    // TLS1_1_VERSION, ...: this one alone; 0: 1.2 or 1.3
  std::string protocol = "http/1.1";  // offered by ALPN; empty: none
  std::string ciphers;                // of TLS 1.2; empty: OpenSSL's own
};

class TlsClient {
 public:
  // Connects to "127.0.0.1:PORT" and shakes hands.
  TlsClient(const std::string& address, const TlsClientOptions& options);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Whether the handshake came to its end here. Over TLS 1.3 a server that refuses the client's certificate says so
  // afterwards: the first read fails then.
  bool connected() const { return connected_; }
  // "TLSv1.3".
  std::string version() const { return SSL_get_version(ssl_.get()); }
  // What ALPN has selected.
  std::string protocol() const;
  // The name in the server's certificate.
  std::string server_name() const;
  SSL* ssl() const { return ssl_.get(); }

  bool Send(const std::string& bytes);
  // What comes until there are `size` bytes, or the server ends the connection.
  std::string Read(size_t size);
  // What comes until the server ends the connection.
  std::string ReadAll() { return Read(std::string::npos); }
  // What comes up to and with `end`; all that came if it does not.
  std::string ReadUntil(const std::string& end);
  // Whether the server closed with a notice, so that nothing was cut off. REQUIRES: ReadAll came before.
  bool got_close_notice() const;

 private:
  bool ReadSome();

  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  int socket_ = -1;
  bool connected_ = false;
  std::string input_;
};

}  // namespace dunlin::server
