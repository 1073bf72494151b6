# SPDX-License-Identifier: BSD-3-Clause
"""A recipe for Spack: copy this folder to var/spack/repos/builtin/packages/fencepost, or to a repository of your own.

    spack install fencepost ~tools ^ucx+cma
"""
from spack.package import *


class Fencepost(CMakePackage):
    """What a parallel runtime needs between fork() and its first message, as five small C libraries: a hash table in
    shared memory, the PMI-1 and PMI-2 protocols, rank maps, windows over memory and storage, and a registry of remote
    memory. With +pmirun: a launcher, and drop-in PMI clients; with +tools: the reference programs."""

    homepage = "https://fencepost.invalid"
    git = "https://fencepost.invalid/fencepost.git"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("pmirun", default=True, description="Install pmirun, libpmi and libpmi2")
    variant("tools", default=True, description="Install the other programs")
    variant("ucx", default=True, description="Build libasymreg-ucx")
    variant("verbs", default=False, description="Build libasymreg-ibv")
    variant("sodium", default=True, when="+pmirun", description="pmirun on several nodes")
    variant("pmix", default=True, when="+pmirun", description="pmirun --mpi pmix")
    variant("hwloc", default=True, when="+pmirun", description="pmirun finds the topology once a node")

    depends_on("c", type="build")
    depends_on("cmake@3.16:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("doxygen", type="build")
    depends_on("perl", type="build")
    depends_on("ucx", when="+ucx")
    depends_on("rdma-core", when="+verbs")
    depends_on("libsodium", when="+sodium")
    depends_on("pmix@4.2:", when="+pmix")
    depends_on("hwloc@2.3:", when="+hwloc")

    conflicts("platform=darwin", msg="Fencepost uses memfd, futex and userfaultfd: Linux only")

    # A feature is off when one of the variables by which CMake finds it is off.
    found_by = {
        "ucx": "FENCEPOST_UCX_H",
        "verbs": "FENCEPOST_VERBS_H",
        "sodium": "FENCEPOST_SODIUM_FOUND",
        "pmix": "FENCEPOST_PMIX_FOUND",
        "hwloc": "FENCEPOST_HWLOC_H",
    }

    def components(self):
        return ["fencepost-" + variant for variant in ("pmirun", "tools") if self.spec.satisfies("+" + variant)]

    def cmake_args(self):
        args = [
            self.define("FENCEPOST_TESTS", False),
            self.define("FENCEPOST_EXAMPLES", bool(self.components())),
            # MPI programs are built by the tests and by their users, not here.
            self.define("FENCEPOST_MPICC_MPICH", False),
            self.define("FENCEPOST_MPICC_OPENMPI", False),
            self.define("FENCEPOST_SPANK_H", False),
            self.define("FENCEPOST_OSHCC", False),
        ]
        for variant, variable in self.found_by.items():
            if not self.spec.satisfies("+" + variant):
                args.append(self.define(variable, False))
        return args

    def install(self, spec, prefix):
        libraries = ["shmht", "pmiwire", "rankmap", "storwin", "asymreg"]
        libraries += ["asymreg-ucx"] if spec.satisfies("+ucx") else []
        libraries += ["asymreg-ibv"] if spec.satisfies("+verbs") else []
        parts = [f"lib{library}-{part}" for library in libraries for part in ("runtime", "dev")]
        for component in parts + self.components():
            cmake("--install", self.build_directory, "--component", component)
