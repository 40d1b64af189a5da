"""An authority, and certificates that it signed, for servers and clients of tests."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

HERE = "IP:127.0.0.1,IP:::1,DNS:localhost"
NO_OPENSSL = "no openssl command"


class Authority:
    """Signs certificates, each in a file with its key beside it."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("openssl")
        if found is None:
            pytest.skip(NO_OPENSSL)
        self._openssl, self._folder = found, folder
        self.certificate, self._key = folder / "ca.crt", folder / "ca.key"
        subject = ["-subj", "/CN=authority of a test", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        self._run("req", "-x509", *self._new_key(self._key), *subject, "-days", "2", "-out", str(self.certificate))

    def sign(self, name: str, hosts: str = HERE) -> tuple[Path, Path]:
        """A certificate that is good for both ends, with the authority's behind it, and its key."""
        certificate, key, request = (self._folder / f"{name}.{kind}" for kind in ("crt", "key", "csr"))
        self._run("req", *self._new_key(key), "-subj", f"/CN={name}", "-out", str(request))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\nextendedKeyUsage=serverAuth,clientAuth\n")
        signer = ["-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", "-days", "2"]
        self._run("x509", "-req", "-in", str(request), *signer, "-extfile", str(extensions), "-out", str(certificate))
        # A test's own client takes the file for its list of authorities as well.
        certificate.write_bytes(certificate.read_bytes() + self.certificate.read_bytes())
        return certificate, key

    def context(self, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """What a user makes to trust this authority, and to show a certificate of his own."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if client is not None:
            context.load_cert_chain(*map(str, client))
        return context

    @staticmethod
    def _new_key(key: Path) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key)]

    def _run(self, *arguments: str) -> None:
        made = subprocess.run([self._openssl, *arguments], capture_output=True, timeout=60, check=False)
        assert made.returncode == 0, made.stderr.decode(errors="replace")
