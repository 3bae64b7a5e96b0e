// SPDX-License-Identifier: Apache-2.0
#include "server/transport/tls/certificate_store.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kEndsSoon = absl::Hours(14 * 24);

}  // namespace

absl::StatusOr<std::unique_ptr<CertificateStore>> CertificateStore::Open(const TlsFiles& files,
                                                                         const char* application_protocol) {
  std::unique_ptr<CertificateStore> store(new CertificateStore(files, application_protocol));
  if (absl::Status status = store->Read(); !status.ok()) return status;
  return store;
}

std::shared_ptr<const ServerIdentity> CertificateStore::current() const {
  absl::ReaderMutexLock lock(&mutex_);
  return current_;
}

CertificateStats CertificateStore::stats() const {
  absl::ReaderMutexLock lock(&mutex_);
  return stats_;
}

CertificateStore::Fingerprint CertificateStore::Look() const {
  Fingerprint fingerprint;
  for (const std::string* path : {&files_.certificate, &files_.key, &files_.client_ca}) {
    struct stat info {};
    if (path->empty()) continue;
    if (stat(path->c_str(), &info) != 0) {
      fingerprint.push_back(-errno);
      continue;
    }
    // The time of the last change of mode or owner, too: a file that could not be read may be readable now.
    for (const timespec& time : {info.st_mtim, info.st_ctim}) {
      fingerprint.push_back(time.tv_sec);
      fingerprint.push_back(time.tv_nsec);
    }
    fingerprint.push_back(static_cast<int64_t>(info.st_dev));
    fingerprint.push_back(static_cast<int64_t>(info.st_ino));
    fingerprint.push_back(info.st_size);
  }
  return fingerprint;
}

// Looks before it reads: a change in between is seen at the next look.
absl::Status CertificateStore::Read() {
  read_ = last_look_ = Look();
  absl::StatusOr<std::shared_ptr<const ServerIdentity>> identity = ReadServerIdentity(files_, application_protocol_);
  if (!identity.ok()) return identity.status();
  warned_ = Warned::kNothing;
  absl::MutexLock lock(&mutex_);
  current_ = *std::move(identity);
  stats_.expires = current_->expires;
  return absl::OkStatus();
}

absl::StatusOr<bool> CertificateStore::Refresh(When when) {
  if (when == When::kIfChanged) {
    Fingerprint now = Look();
    const bool stands_still = now == last_look_;
    last_look_ = std::move(now);
    if (!stands_still || last_look_ == read_) return false;
  }
  const std::shared_ptr<const ServerIdentity> before = current();
  const absl::Status status = Read();
  absl::MutexLock lock(&mutex_);
  ++(status.ok() ? stats_.reloads : stats_.failures);
  if (!status.ok()) return status;
  return current_->certificate_pem != before->certificate_pem || current_->client_ca_pem != before->client_ca_pem ||
         current_->key_pem != before->key_pem;
}

std::optional<std::string> CertificateStore::TakeWarning(absl::Time now) {
  const std::shared_ptr<const ServerIdentity> identity = current();
  Warned state = Warned::kNothing;
  std::string text;
  if (now < identity->valid_from) {
    state = Warned::kOutside;
    text = absl::StrCat("is not valid before ", absl::FormatTime(identity->valid_from, absl::UTCTimeZone()));
  } else if (now >= identity->expires) {
    state = Warned::kOutside;
    text = absl::StrCat("expired at ", absl::FormatTime(identity->expires, absl::UTCTimeZone()));
  } else if (identity->expires - now < kEndsSoon) {
    state = Warned::kEndsSoon;
    text = absl::StrCat("expires at ", absl::FormatTime(identity->expires, absl::UTCTimeZone()));
  }
  if (state == std::exchange(warned_, state) || state == Warned::kNothing) return std::nullopt;
  return absl::StrCat("tls.cert_file ", files_.certificate, " ", text);
}

}  // namespace dunlin::server
