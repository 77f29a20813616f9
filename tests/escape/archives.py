# SPDX-License-Identifier: Apache-2.0
"""Hostile archives as templates (F08, F10): each must be refused by name, and nothing outside may change."""
import io
import os
import subprocess
import tarfile


def member(name, kind=tarfile.REGTYPE, link="", data=b"", mode=0o644, pax=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    info.pax_headers = pax or {}
    return info, data


def write_archive(path, members):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for folder in ("bin", "etc", "usr", "usr/bin", "tmp", "proc", "sys", "dev", "home"):
            if not any(info.name.rstrip("/") == folder for info, _ in members):
                archive.addfile(member(folder, tarfile.DIRTYPE, mode=0o755)[0])
        archive.addfile(*[(i, io.BytesIO(d)) for i, d in [member("bin/sh", data=b"#!\n", mode=0o755)]][0])
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))


def cases(target):
    """{name: members}; `target` is an absolute path of the host that every one of them tries to reach."""
    up = "../" * 12
    plain = target.lstrip("/")
    folder = os.path.dirname(target)
    return {
        "absolute": [member(target, data=b"owned")],
        "dots": [member(up + plain, data=b"owned")],
        "dots_inside": [member("etc/" + up + plain, data=b"owned")],
        "link_then_file": [
            member("etc/out", tarfile.SYMTYPE, folder),
            member("etc/out/" + os.path.basename(target), data=b"owned"),
        ],
        "dots_link_then_file": [
            member("etc/out", tarfile.SYMTYPE, up + folder.lstrip("/")),
            member("etc/out/" + os.path.basename(target), data=b"owned"),
        ],
        "link_chain": [
            member("a", tarfile.DIRTYPE, mode=0o755),
            member("a/b", tarfile.DIRTYPE, mode=0o755),
            member("a/b/c", tarfile.DIRTYPE, mode=0o755),
            member("a/b/c/up", tarfile.SYMTYPE, "../.."),
            member("a/b/c/up2", tarfile.SYMTYPE, "up/../.."),
            member("a/b/c/up2/" + up + plain, data=b"owned"),
        ],
        "hard_link_outside": [member("etc/hard", tarfile.LNKTYPE, target), member("etc/hard", data=b"owned")],
        "hard_link_dots": [
            member("etc/hard", tarfile.LNKTYPE, up + plain),
            member("etc/hard", data=b"owned"),
        ],
        "hard_link_through_link": [
            member("etc/out", tarfile.SYMTYPE, folder),
            member("etc/hard", tarfile.LNKTYPE, "etc/out/" + os.path.basename(target)),
        ],
        "block_device": [block_device()],
        "character_device": [character_device()],
        "pax_path": [member("etc/innocent", data=b"owned", pax={"path": up + plain})],
        "pax_link": [
            member("etc/innocent", tarfile.SYMTYPE, "x", pax={"linkpath": folder}),
            member("etc/innocent/" + os.path.basename(target), data=b"owned"),
        ],
        "dev_is_a_link": [member("dev", tarfile.SYMTYPE, folder)],
        "proc_is_a_link": [member("proc", tarfile.SYMTYPE, folder)],
        "sys_is_a_link": [member("sys", tarfile.SYMTYPE, "../../.." + folder)],
        "whiteout_of_root": [character_device("etc/passwd", 0, 0)],
        "nul_in_pax": [member("etc/x", data=b"owned", pax={"path": "etc/a\0../../b"})],
        "long_name": [member("etc/" + "a" * 300, data=b"x")],
    }


def block_device():
    info, data = member("dev/disk", tarfile.BLKTYPE, mode=0o666)
    info.devmajor, info.devminor = 7, 0
    return info, data


def character_device(name="dev/mem", major=1, minor=1):
    info, data = member(name, tarfile.CHRTYPE, mode=0o666)
    info.devmajor, info.devminor = major, minor
    return info, data


# Some of these are no attack when they are made harmless: a link named "proc" may be replaced by a folder of ours, and a
# long name or a device may be left out; a name may end at its NUL. What counts then is only that nothing outside changed.
MAY_BUILD = (
    "dev_is_a_link",
    "proc_is_a_link",
    "sys_is_a_link",
    "long_name",
    "hard_link_through_link",
    "link_then_file",
    "pax_link",
    "nul_in_pax",
)


class Archives:
    def __init__(self, programs, world, report):
        self.tool, self.world, self.report = os.path.join(programs, "atoll-template"), world, report
        self.folder = world.folder + "-archives"

    def build(self, archive):
        data = self.folder + "/data"
        os.makedirs(data + "/templates", exist_ok=True)
        return subprocess.run(
            [self.tool, "build", "--from", archive, "--name", "hostile", "--data-dir", data],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def control(self):
        """The oracle: an extractor that trusts the archive, as root, does reach the target."""
        target = self.folder + "/outside/control"
        with open(target, "w") as file:
            file.write("untouched")
        archive = self.folder + "/control.tar"
        write_archive(archive, cases(target)["link_then_file"])
        os.makedirs(self.folder + "/careless", exist_ok=True)
        with tarfile.open(archive) as opened:
            for info in opened:  # one by one, without a filter
                opened.extract(
                    info,
                    self.folder + "/careless",
                    **({"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}),
                )
        self.report.check(
            "F08.control", open(target).read() == "owned", "a careless extractor is caught by the oracle"
        )

    def run(self):
        os.makedirs(self.folder + "/outside", exist_ok=True)
        if not os.path.exists(self.tool):
            self.report.skip("F08", f"{self.tool} is not built")
            return
        self.control()
        good = self.folder + "/good.tar"
        write_archive(good, [member("etc/hello", data=b"hello")])
        done = self.build(good)
        self.report.check(
            "F08.good_archive", done.returncode == 0, f"a harmless archive is refused: {done.stderr[-200:]}"
        )
        target = self.folder + "/outside/target"
        for name, members in cases(target).items():
            with open(target, "w") as file:
                file.write("untouched")
            archive = f"{self.folder}/{name}.tar"
            try:
                write_archive(archive, members)
            except ValueError as error:
                self.report.skip(f"F08.{name}", f"cannot be written: {error}")
                continue
            before, facts = sorted(os.listdir(self.folder + "/outside")), self.world.facts()
            done = self.build(archive)
            changed = [key for key, value in self.world.facts().items() if value != facts[key]]
            same = (
                open(target).read() == "untouched"
                and sorted(os.listdir(self.folder + "/outside")) == before
                and not changed
            )
            refused = done.returncode != 0 and done.stderr.strip() != ""
            self.report.check(
                f"F08.{name}",
                same and (refused or name in MAY_BUILD) and done.returncode >= 0,
                f"exit {done.returncode}, outside unchanged: {same}, {done.stderr[-200:]!r}",
            )
        left = [
            x
            for x in os.listdir(self.folder + "/data/templates")
            if x != ".lock" and not os.path.exists(f"{self.folder}/data/templates/{x}/root.erofs")
        ]
        self.report.check("F08.nothing_left", not left, f"left behind: {left}")
