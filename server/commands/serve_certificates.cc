// SPDX-License-Identifier: Apache-2.0
#include "server/commands/serve_certificates.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <string>

#include "server/transport/http/http_server.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kLookPeriod = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<CertificateStore>> OpenCertificates(const TlsSettings& settings) {
  if (settings.cert_file.empty()) return nullptr;
  return CertificateStore::Open(
      {settings.cert_file, settings.key_file, settings.client_ca_file, settings.require_client_certificate},
      kHttpApplicationProtocol);
}

void CertificateWatch::Poll(absl::Time now) {
  // The clock may have been set back.
  if (store_ == nullptr || (now >= last_look_ && now - last_look_ < kLookPeriod)) return;
  last_look_ = now;
  Refresh(CertificateStore::When::kIfChanged, now);
}

void CertificateWatch::ReadNow(absl::Time now) {
  if (store_ != nullptr) Refresh(CertificateStore::When::kNow, now);
}

void CertificateWatch::Refresh(CertificateStore::When when, absl::Time now) {
  const absl::StatusOr<bool> reloaded = store_->Refresh(when);
  if (!reloaded.ok()) {
    spdlog::error("tls: reload failed, the former certificate stays: {}", std::string(reloaded.status().message()));
  } else if (*reloaded) {
    spdlog::info("tls: reloaded; new connections get the certificate that expires at {}",
                 absl::FormatTime(store_->stats().expires, absl::UTCTimeZone()));
  }
  if (const std::optional<std::string> warning = store_->TakeWarning(now)) spdlog::warn("tls: {}", *warning);
}

}  // namespace dunlin::server
