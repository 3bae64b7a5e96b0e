// SPDX-License-Identifier: Apache-2.0
#include "tests/server/transport/tls/test_authority.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <utility>

namespace dunlin::server {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

constexpr int kVersion3 = 2;

Key NewKey() {
  return {EVP_EC_gen("P-256"), &EVP_PKEY_free};
}

// What `write` writes to a BIO.
template <class Write>
std::string Pem(const Write& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new(BIO_s_mem()), &BIO_free_all);
  EXPECT_EQ(write(bio.get()), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<size_t>(size)};
}

std::string PemOf(X509* certificate) {
  return Pem([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string PemOf(EVP_PKEY* key) {
  return Pem([key](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

void AddExtension(int id, const char* value, X509* issuer, X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value);
  ASSERT_NE(extension, nullptr);
  EXPECT_EQ(X509_add_ext(certificate, extension, -1), 1);
  X509_EXTENSION_free(extension);
}

// Without extensions and signature.
Certificate NewCertificate(const std::string& name, EVP_PKEY* key, long from_s, long to_s) {
  static std::atomic<long> serial{1};
  Certificate certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), kVersion3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), to_s);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

}  // namespace

struct TestAuthority::Parts {
  Key key = NewKey();
  Certificate certificate{nullptr, &X509_free};
};

TestAuthority::TestAuthority(const std::string& name) : parts_(std::make_unique<Parts>()) {
  constexpr long kYear = 3600L * 24 * 365;
  parts_->certificate = NewCertificate(name, parts_->key.get(), -kYear, kYear);
  X509* const certificate = parts_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(NID_basic_constraints, "critical,CA:TRUE", certificate, certificate);
  AddExtension(NID_key_usage, "critical,keyCertSign", certificate, certificate);
  EXPECT_GT(X509_sign(certificate, parts_->key.get(), EVP_sha256()), 0);
  pem_ = PemOf(certificate);
}

TestAuthority::~TestAuthority() = default;

TestCertificate TestAuthority::Issue(const std::string& name, long from_s, long to_s) {
  const Key key = NewKey();
  const Certificate certificate = NewCertificate(name, key.get(), from_s, to_s);
  X509* const issuer = parts_->certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  const std::string names = "DNS:" + name + ",DNS:localhost,IP:127.0.0.1";
  AddExtension(NID_subject_alt_name, names.c_str(), issuer, certificate.get());
  AddExtension(NID_ext_key_usage, "serverAuth,clientAuth", issuer, certificate.get());
  EXPECT_GT(X509_sign(certificate.get(), parts_->key.get(), EVP_sha256()), 0);
  return {PemOf(certificate.get()), PemOf(key.get())};
}

std::string Encrypted(const std::string& key, const std::string& passphrase) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())),
                                                          &BIO_free_all);
  const Key parsed(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  return Pem([&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, parsed.get(), EVP_aes_128_cbc(),
                                    reinterpret_cast<const unsigned char*>(passphrase.data()),
                                    static_cast<int>(passphrase.size()), nullptr, nullptr);
  });
}

TestFolder::TestFolder() : path_(testing::TempDir() + "dunlin_tls_XXXXXX") {
  EXPECT_NE(mkdtemp(path_.data()), nullptr);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TestFolder::Write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name) + ".new", std::ios::binary) << text;
  std::filesystem::rename(path(name) + ".new", path(name));
  return path(name);
}

}  // namespace dunlin::server
