"""Builds rqfast._core. Everything that is not about the extension stands in pyproject.toml."""

import gzip
import os
import sys
import tarfile
from glob import glob
from io import BytesIO
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.sdist import sdist

# RQFAST_TRACE=1 makes a slow build whose lines coverage can see. A build does not notice that the switch
# has changed: remove src/_core.c and build/ first, or run `make clean`.
TRACE = os.environ.get("RQFAST_TRACE", "") not in ("", "0")
# RQFAST_SANITIZE=1 makes one that watches over each use of memory (`make sanitize`; gcc or clang).
SANITIZE = os.environ.get("RQFAST_SANITIZE", "") not in ("", "0")

directives = {
    "language_level": 3,
    "embedsignature": True,
    "auto_pickle": False,
}
macros: list[tuple[str, str | None]] = []
compile_args: list[str] = []
link_args: list[str] = []

if TRACE:
    directives["linetrace"] = True
    # Without the last one, Python 3.13 and newer report no lines of the .pyx.
    macros = [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]
if sys.platform != "win32":
    compile_args = ["-O0"] if TRACE else ["-g0"]

if SANITIZE:
    link_args = ["-fsanitize=address,undefined"]
    compile_args = [*link_args, "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]

core = Extension(
    "rqfast._core",
    ["src/_core.pyx"],
    depends=sorted(glob("src/core/*.pxi")),
    define_macros=macros,
    extra_compile_args=compile_args,
    extra_link_args=link_args,
)
# Cython's build_ext, to which setuptools hands over, reads this attribute.
core.cython_directives = directives


class ReproducibleSdist(sdist):
    """With SOURCE_DATE_EPOCH, two builds of one commit are the same file, as wheels are; setuptools leaves in the
    archive when and by whom the files were checked out."""

    def make_archive(self, *args, **options):
        name = super().make_archive(*args, **options)
        if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
            normalise(Path(name), int(epoch))
        return name


def normalise(archive: Path, epoch: int) -> None:
    tar = BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with archive.open("wb") as file, gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed:
        packed.write(tar.getvalue())


setup(ext_modules=[core], cmdclass={"sdist": ReproducibleSdist})
