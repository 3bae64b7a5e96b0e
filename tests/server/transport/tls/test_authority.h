// SPDX-License-Identifier: Apache-2.0
// A certificate authority for tests, and a folder for what it issues. Keys are ECDSA P-256, made anew each time.
// Source: RFC 5280.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace dunlin::server {

struct TestCertificate {
  std::string certificate;  // PEM, as is the next
  std::string key;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  const std::string& certificate() const { return pem_; }
  // For server and client, of this name, and of localhost and 127.0.0.1; valid from `from_s` to `to_s` seconds from
  // now.
  TestCertificate Issue(const std::string& name, long from_s = -3600, long to_s = 3600 * 24 * 365);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string pem_;
};

// The same key under a passphrase, in PEM.
std::string Encrypted(const std::string& key, const std::string& passphrase);

// A folder of its own, removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Replaces the file as a whole, by renaming; returns its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace dunlin::server
