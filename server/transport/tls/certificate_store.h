// SPDX-License-Identifier: Apache-2.0
// The certificate that a server presents at the moment, replaced when its files change. Files that cannot be used
// change nothing but a counter: connections go on with the former certificate. Files are compared by inode, size and
// times of what their paths lead to, so that a renamed file is seen, and a symbolic link that leads elsewhere, as
// Kubernetes swaps those of a secret. What has changed is read once it has stood still from one look to the next: a
// certificate and its key are written one after the other. Thread rule: Refresh and TakeWarning on one thread; the rest
// from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/transport/tls/server_identity.h"

namespace dunlin::server {

struct CertificateStats {
  uint64_t reloads = 0;   // since start
  uint64_t failures = 0;  // of reloads
  absl::Time expires;     // ServerIdentity::expires of the certificate in use
};

class CertificateStore {
 public:
  // Errors: as ReadServerIdentity.
  static absl::StatusOr<std::unique_ptr<CertificateStore>> Open(const TlsFiles& files,
                                                                const char* application_protocol);
  CertificateStore(const CertificateStore&) = delete;
  CertificateStore& operator=(const CertificateStore&) = delete;

  const TlsFiles& files() const { return files_; }
  // Never null.
  std::shared_ptr<const ServerIdentity> current() const;
  CertificateStats stats() const;

  enum class When : uint8_t { kIfChanged, kNow };
  // Looks at the files, and reads them if they have changed and stood still since the last look, or at once. True: the
  // certificate is another one. An error of ReadServerIdentity comes once for each state of the files.
  absl::StatusOr<bool> Refresh(When when);

  // What is to be said about the certificate's time, once each: it ends within 14 days, it has ended, it has not begun.
  std::optional<std::string> TakeWarning(absl::Time now);

 private:
  // What stat says of each file.
  using Fingerprint = std::vector<int64_t>;
  enum class Warned : uint8_t { kNothing, kEndsSoon, kOutside };

  CertificateStore(const TlsFiles& files, const char* application_protocol)
      : files_(files), application_protocol_(application_protocol) {}
  Fingerprint Look() const;
  absl::Status Read();

  const TlsFiles files_;
  const char* const application_protocol_;
  Fingerprint read_;  // when they were last read, with or without success
  Fingerprint last_look_;
  Warned warned_ = Warned::kNothing;
  mutable absl::Mutex mutex_;  // guards what follows, between the thread that reads and those that serve
  std::shared_ptr<const ServerIdentity> current_ ABSL_GUARDED_BY(mutex_);
  CertificateStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
