"""Builds ``crawler._native``, the part of the program that is written in C; all else is in pyproject.toml.

The module is optional: where there is no C compiler, the installation has the same program without it, and the parts in
Python do the work. It uses Python's limited API, so one build serves every Python from 3.11 on; argument formats with
``#`` would fail in 3.11 and 3.12 if 3.13 built them. In a checkout, ``python setup.py build_ext --inplace`` builds it,
and so does ``pip install -e .``.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

FLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"]
LIMITED_API = "0x030B0000"


def native() -> Extension:
    """Every C file in ``native/`` is a part of the module. ``NATIVE_FLAGS`` has further flags, such as those of CI."""
    more = os.environ.get("NATIVE_FLAGS", "").split()
    return Extension(
        "crawler._native",
        sources=sorted(path.as_posix() for path in Path("native").glob("*.c")),
        depends=sorted(path.as_posix() for path in Path("native").glob("*.h")),
        define_macros=[("Py_LIMITED_API", LIMITED_API)],
        extra_compile_args=FLAGS + more,
        extra_link_args=more,
        py_limited_api=True,
        optional=True,
    )


setup(ext_modules=[native()], options={"bdist_wheel": {"py_limited_api": "cp311"}})
