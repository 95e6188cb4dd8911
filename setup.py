"""What pyproject.toml cannot say: the modules to compile, and what is packed; tools/ has both."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup

# A build front end runs this file without its folder among those that modules are imported from.
sys.path.insert(0, str(Path(__file__).parent))

from tools.build_dist import ReproducibleSdist, WheelWithSbom
from tools.build_ext import BuildHotModules, extensions, is_set

setup(
    ext_modules=[] if is_set("AIOPROD_NO_EXT") else extensions(),
    cmdclass={"build_ext": BuildHotModules, "sdist": ReproducibleSdist, "bdist_wheel": WheelWithSbom},
)
