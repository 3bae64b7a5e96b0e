# SPDX-License-Identifier: Apache-2.0
"""An authority that issues certificates for 127.0.0.1 that last for seconds. Needs openssl."""
import datetime
import subprocess

CONFIG = """
[ca]
default_ca = here
[here]
dir = {folder}
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
unique_subject = no
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
[req]
distinguished_name = name
[name]
"""


class Authority:
    def __init__(self, folder):
        self.folder = folder
        self.root, self.root_key = folder / "root.pem", folder / "root.key"
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.config = folder / "config"
        self.config.write_text(CONFIG.format(folder=folder))
        (folder / "index").touch()
        (folder / "serial").write_text("01\n")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=chaos", "-config", self.config,
                     "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", self.root_key, "-out", self.root)
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-config", self.config,
                     "-keyout", self.key, "-out", folder / "server.csr")

    def issue(self, lasts_s):
        """Writes `certificate`, which lasts from now on."""
        now = datetime.datetime.now(datetime.timezone.utc)
        begin, end = (f"{time:%y%m%d%H%M%S}Z" for time in (now - datetime.timedelta(hours=1),
                                                          now + datetime.timedelta(seconds=lasts_s)))
        issued = self.folder / "issued.pem"
        self.openssl("ca", "-batch", "-notext", "-config", self.config, "-cert", self.root, "-keyfile", self.root_key,
                     "-startdate", begin, "-enddate", end, "-in", self.folder / "server.csr", "-out", issued)
        issued.replace(self.certificate)

    @staticmethod
    def openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {done.stderr}")
