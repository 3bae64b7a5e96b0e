// SPDX-License-Identifier: Apache-2.0
// When changed files are read, and what happens to those that cannot be used.
#include "server/transport/tls/certificate_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/server/transport/tls/test_authority.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;
using When = CertificateStore::When;

class CertificateStoreTest : public ::testing::Test {
 protected:
  void Write(const TestCertificate& own) {
    folder_.Write("server.pem", own.certificate);
    folder_.Write("server.key", own.key);
  }
  void Open() {
    auto store = CertificateStore::Open({folder_.path("server.pem"), folder_.path("server.key"), ""}, "http/1.1");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  bool Serves(const TestCertificate& own) const { return store_->current()->certificate_pem == own.certificate; }
  // The second look finds that nothing has changed since the first.
  absl::StatusOr<bool> LookTwice() {
    EXPECT_EQ(store_->Refresh(When::kIfChanged).value_or(true), false) << "the files may still be written";
    return store_->Refresh(When::kIfChanged);
  }

  const TestFolder folder_;
  TestAuthority authority_{"authority"};
  std::unique_ptr<CertificateStore> store_;
};

TEST_F(CertificateStoreTest, TakesChangedFilesOnceTheyStandStill) {
  const TestCertificate first = authority_.Issue("first");
  const TestCertificate second = authority_.Issue("second");
  Write(first);
  Open();
  EXPECT_FALSE(*store_->Refresh(When::kIfChanged));
  EXPECT_FALSE(*store_->Refresh(When::kIfChanged)) << "nothing has changed";
  folder_.Write("server.pem", second.certificate);
  EXPECT_FALSE(*store_->Refresh(When::kIfChanged));
  folder_.Write("server.key", second.key);
  EXPECT_TRUE(*LookTwice()) << "the key came between two looks";
  EXPECT_TRUE(Serves(second));
  EXPECT_EQ(store_->stats().reloads, 1U);
  EXPECT_EQ(store_->stats().failures, 0U) << "the half-changed pair was never read";
}

TEST_F(CertificateStoreTest, BrokenFilesKeepTheFormerCertificateAndAreReportedOnce) {
  const TestCertificate first = authority_.Issue("first");
  Write(first);
  Open();
  folder_.Write("server.pem", "not a certificate");
  EXPECT_THAT(std::string(LookTwice().status().message()), HasSubstr("tls.cert_file"));
  EXPECT_FALSE(*store_->Refresh(When::kIfChanged)) << "once for each state of the files";
  EXPECT_TRUE(Serves(first));
  EXPECT_EQ(store_->stats().failures, 1U);
  std::filesystem::remove(folder_.path("server.key"));
  EXPECT_FALSE(LookTwice().ok());
  EXPECT_EQ(store_->stats().failures, 2U);
  EXPECT_TRUE(Serves(first));
  const TestCertificate second = authority_.Issue("second");
  Write(second);
  EXPECT_TRUE(*LookTwice());
  EXPECT_TRUE(Serves(second));
  EXPECT_EQ(store_->stats().reloads, 1U);
}

TEST_F(CertificateStoreTest, AKeyOfAnotherCertificateChangesNothing) {
  const TestCertificate first = authority_.Issue("first");
  Write(first);
  Open();
  folder_.Write("server.key", authority_.Issue("second").key);
  EXPECT_THAT(std::string(LookTwice().status().message()), HasSubstr("not the key of the certificate"));
  EXPECT_TRUE(Serves(first));
}

// A secret of Kubernetes: the files are links into "..data", itself a link that is renamed as a whole.
TEST_F(CertificateStoreTest, SeesALinkThatLeadsElsewhere) {
  namespace fs = std::filesystem;
  const TestCertificate versions[] = {authority_.Issue("first"), authority_.Issue("second")};
  for (int i = 0; i < 2; ++i) {
    const std::string version = "version" + std::to_string(i);
    fs::create_directory(folder_.path(version));
    folder_.Write(version + "/server.pem", versions[i].certificate);
    folder_.Write(version + "/server.key", versions[i].key);
    // Alike in size and times, so that the inode alone tells.
    for (const char* name : {"/server.pem", "/server.key"}) {
      fs::last_write_time(folder_.path(version + name), fs::file_time_type());
    }
  }
  fs::create_directory_symlink("version0", folder_.path("..data"));
  fs::create_symlink("..data/server.pem", folder_.path("server.pem"));
  fs::create_symlink("..data/server.key", folder_.path("server.key"));
  Open();
  EXPECT_TRUE(Serves(versions[0]));
  fs::create_directory_symlink("version1", folder_.path("..new"));
  fs::rename(folder_.path("..new"), folder_.path("..data"));
  EXPECT_TRUE(*LookTwice());
  EXPECT_TRUE(Serves(versions[1]));
}

TEST_F(CertificateStoreTest, ReadsAtOnceWhenTold) {
  Write(authority_.Issue("first"));
  Open();
  EXPECT_FALSE(*store_->Refresh(When::kNow)) << "the same certificate";
  const TestCertificate second = authority_.Issue("second");
  Write(second);
  EXPECT_TRUE(*store_->Refresh(When::kNow));
  EXPECT_TRUE(Serves(second));
  EXPECT_FALSE(*store_->Refresh(When::kIfChanged)) << "already read";
}

TEST_F(CertificateStoreTest, WarnsOnceOfEachStateOfItsTime) {
  constexpr long kDay = 3600L * 24;
  const absl::Time now = absl::Now();
  Write(authority_.Issue("server", -kDay, 30 * kDay));
  Open();
  EXPECT_EQ(store_->TakeWarning(now), std::nullopt);
  EXPECT_THAT(store_->TakeWarning(now + absl::Hours(24 * 17)).value_or(""), HasSubstr("expires at"));
  EXPECT_EQ(store_->TakeWarning(now + absl::Hours(24 * 18)), std::nullopt);
  EXPECT_THAT(store_->TakeWarning(now + absl::Hours(24 * 31)).value_or(""), HasSubstr("expired at"));
  EXPECT_EQ(store_->TakeWarning(now + absl::Hours(24 * 32)), std::nullopt);
  // An expired certificate is taken: better one that clients may accept than none.
  Write(authority_.Issue("server", -2 * kDay, -kDay));
  EXPECT_TRUE(*store_->Refresh(When::kNow));
  EXPECT_THAT(store_->TakeWarning(now).value_or(""), HasSubstr("expired at"));
  Write(authority_.Issue("server", kDay, 2 * kDay));
  EXPECT_TRUE(*store_->Refresh(When::kNow));
  EXPECT_THAT(store_->TakeWarning(now).value_or(""), HasSubstr("is not valid before"));
  EXPECT_LT(absl::AbsDuration(store_->stats().expires - now - absl::Hours(48)), absl::Seconds(30));
}

}  // namespace
}  // namespace dunlin::server
