# SPDX-License-Identifier: Apache-2.0
"""The emulated host: a disk with what Atoll needs at run time, the distribution's kernel, and QEMU that runs them.

The disk is made of programs of this machine, with the libraries that they name, so that nothing is fetched. The kernel is the
distribution's, not the one for clouds: that has no KVM.
"""
import fnmatch
import glob
import lzma
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))

# Without these the first program cannot reach the disk.
FIRST_MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic"]
# What the kernel of a host that runs Atoll can load. It loads most of them itself, by the names that it asks for.
MODULES = FIRST_MODULES + ["kvm-amd", "loop", "overlay", "erofs", "veth", "tun", "dummy", "virtio-rng", "nft_*", "nf_*",
                           "nfnetlink*"]
PROGRAMS = ["mkfs.erofs", "mkfs.ext4", "mke2fs", "e2fsck", "useradd", "ip", "nft", "losetup"]
# Of the standard library; the rest of it is large.
UNWANTED = ["test", "tests", "idlelib", "tkinter", "lib2to3", "ensurepip", "dist-packages", "config-*"]


ETC = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/shadow": "root:*:19000:0:99999:7:::\n",
    "/etc/login.defs": "SYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/protocols": "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\n",
}


class Missing(Exception):
    """The machine lacks something that the emulated host is made of."""


class Kernel:
    """The distribution's kernel as tools/setup unpacks it."""

    def __init__(self, folder):
        images = sorted(path for path in glob.glob(folder + "/boot/vmlinuz-*-amd64") if "-cloud-" not in path)
        if not images:
            raise Missing(f"there is no kernel in {folder} (tools/setup)")
        self.image = images[-1]
        self.version = os.path.basename(self.image).removeprefix("vmlinuz-")
        self.folder = next((path for path in (f"{folder}/lib/modules/{self.version}", f"{folder}/usr/lib/modules/{self.version}")
                            if os.path.isdir(path)), None)
        if self.folder is None:
            raise Missing(f"the modules of kernel {self.version} are not in {folder}")
        files = glob.glob(self.folder + "/kernel/**/*.ko*", recursive=True)
        self.files = {os.path.basename(path).split(".ko")[0].replace("-", "_"): path for path in files}
        self.needs = {}

    def content(self, name):
        path = self.files[name]
        if path.endswith(".xz"):
            return lzma.open(path).read()
        with open(path, "rb") as file:
            return file.read()

    def with_needs(self, patterns):
        """Names of these modules and of all that they need, what is needed first. What is built in has no file."""
        order = []

        def add(name):
            if name in order or name not in self.files:
                return
            said = re.search(rb"\0depends=([^\0]*)\0", self.content(name))
            for other in said.group(1).decode().split(",") if said else []:
                add(other.replace("-", "_"))
            order.append(name)

        for pattern in patterns:
            for name in fnmatch.filter(sorted(self.files), pattern.replace("-", "_")):
                add(name)
        return order


def libraries(program):
    """Files that the dynamic linker would load for `program`."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(?:=> )?(/\S+) \(0x", said)


class Tree:
    """The folder that becomes the emulated host's disk."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "run/lock", "tmp", "root", "home", "var/lib"):
            os.makedirs(f"{folder}/{name}")
        os.chmod(folder + "/tmp", 0o1777)
        links = (("usr/sbin", "bin"), ("bin", "usr/bin"), ("sbin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"),
                 ("var/run", "../run"), ("var/lock", "../run/lock"))
        for name, target in links:
            os.symlink(target, f"{folder}/{name}")

    def copy(self, source, target=None):
        """A file with its libraries, at the same place or at `target`."""
        place = self.folder + (target or source)
        if os.path.lexists(place):
            return
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copy2(source, place)
        if os.access(source, os.X_OK):
            for library in libraries(source):
                self.copy(library)

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(self.folder + path), exist_ok=True)
        with open(self.folder + path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(self.folder + path, mode)

    def add_busybox(self):
        busybox = shutil.which("busybox") or "/bin/busybox"
        self.copy(busybox, "/usr/bin/busybox")
        for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if not os.path.lexists(f"{self.folder}/usr/bin/{name}"):
                os.symlink("busybox", f"{self.folder}/usr/bin/{name}")

    def add_python(self):
        ask = "import sys, sysconfig; print(sys.executable, sysconfig.get_path('stdlib'))"
        done = subprocess.run(["/usr/bin/python3", "-c", ask], capture_output=True, text=True, check=True)
        program, library = done.stdout.split()
        self.copy(os.path.realpath(program), "/usr/bin/python3")
        shutil.copytree(library, self.folder + library, ignore=shutil.ignore_patterns(*UNWANTED))
        for part in glob.glob(library + "/lib-dynload/*.so"):
            for needed in libraries(part):
                self.copy(needed)

    def add_modules(self, kernel):
        for name in kernel.with_needs(MODULES):
            self.write(f"/lib/modules/{kernel.version}/kernel/{name}.ko", kernel.content(name))
        for name in ("modules.builtin", "modules.order"):
            if os.path.exists(f"{kernel.folder}/{name}"):
                self.copy(f"{kernel.folder}/{name}", f"/lib/modules/{kernel.version}/{name}")
        subprocess.run(["busybox", "depmod", "-b", self.folder, kernel.version], check=True)

    def add_system(self):
        for path, text in ETC.items():
            self.write(path, text)
        for name in PROGRAMS:
            path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
            if path is None:
                raise Missing(f"there is no program {name} (tools/setup)")
            self.copy(os.path.realpath(path), "/usr/bin/" + name)
        self.add_busybox()
        self.add_python()

    def image(self, path, size):
        """A disk with all this."""
        with open(path, "wb") as file:
            file.truncate(size)
        options = ["-O", "^has_journal", "-E", "lazy_itable_init=1,root_owner=0:0"]
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *options, "-d", self.folder, path], check=True)


def make_first(folder, kernel, path):
    """The archive that the kernel starts from."""
    os.makedirs(folder + "/modules")
    for name in ("bin", "dev", "proc", "root"):
        os.makedirs(f"{folder}/{name}")
    names = kernel.with_needs(FIRST_MODULES)
    for name in names:
        with open(f"{folder}/modules/{name}.ko", "wb") as file:
            file.write(kernel.content(name))
    with open(folder + "/order", "w") as file:
        file.write("".join(name + "\n" for name in names))
    shutil.copy2(shutil.which("busybox"), folder + "/bin/busybox")
    for name in ("sh", "mount", "umount", "insmod", "switch_root", "poweroff"):
        os.symlink("busybox", f"{folder}/bin/{name}")
    shutil.copy2(HERE + "/first", folder + "/init")
    with open(path, "wb") as out:
        subprocess.run("find . | cpio --quiet -o -H newc -R 0:0", shell=True, cwd=folder, stdout=out, check=True)


class Qemu:
    """QEMU of tools/setup, or the system's."""

    def __init__(self, folder):
        self.folder = folder if os.path.isdir(folder) else ""
        self.program = self.folder + "/usr/bin/qemu-system-x86_64"
        if not os.access(self.program, os.X_OK):
            raise Missing("there is no QEMU (tools/setup)")
        self.environment = dict(os.environ)
        if self.folder:
            places = [f"{self.folder}/usr/lib/x86_64-linux-gnu", f"{self.folder}/lib/x86_64-linux-gnu"]
            self.environment["LD_LIBRARY_PATH"] = ":".join(places)

    def command(self, kernel, first, disk, line):
        shares = [word for name in ("seabios", "qemu") for word in ("-L", f"{self.folder}/usr/share/{name}")]
        return [self.program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", *shares,
                # An ordinary PC, which has a timer to measure its clock by; with the extensions that KVM needs. Without nested
                # paging guests crash.
                "-M", "q35", "-accel", "tcg,tb-size=512", "-cpu", "max,+svm,+npt", "-smp", "1", "-m", "3072",
                "-kernel", kernel, "-initrd", first, "-append", line,
                "-drive", f"file={disk},if=none,id=disk,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=disk",
                "-object", "rng-builtin,id=random", "-device", "virtio-rng-pci,rng=random",
                "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
