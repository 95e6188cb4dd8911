"""What pyproject.toml cannot say: the modules to compile, by build_ext.py, and what is packed, by build_dist.py."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup

# A build front end runs this file without its folder among those that modules are imported from.
sys.path.insert(0, str(Path(__file__).parent))

from build_dist import ReproducibleSdist, WheelWithSbom
from build_ext import BuildHotModules, extensions, is_set

setup(
    ext_modules=[] if is_set("AIOPROD_NO_EXT") else extensions(),
    cmdclass={"build_ext": BuildHotModules, "sdist": ReproducibleSdist, "bdist_wheel": WheelWithSbom},
)
