// SPDX-License-Identifier: Apache-2.0
// The certificate of `dunlin serve`: opens it, looks at its files once a second and logs what becomes of it.
// Thread rule: the main thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config/config.h"
#include "server/transport/tls/certificate_store.h"

namespace dunlin::server {

// Null without TLS. Errors: as CertificateStore::Open.
absl::StatusOr<std::unique_ptr<CertificateStore>> OpenCertificates(const TlsSettings& settings);

class CertificateWatch {
 public:
  // store may be null, and outlives this object.
  explicit CertificateWatch(CertificateStore* store) : store_(store) {}

  // Looks at the files unless it has done so within the last second. Call it often.
  void Poll(absl::Time now);
  // Reads them at once, changed or not.
  void ReadNow(absl::Time now);

 private:
  void Refresh(CertificateStore::When when, absl::Time now);

  CertificateStore* const store_;
  absl::Time last_look_ = absl::InfinitePast();
};

}  // namespace dunlin::server
