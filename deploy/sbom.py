#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The software bill of materials of a dist or an image: CycloneDX 1.5 JSON on stdout.

  sbom.py BINARY BUILD_DIR          what went into BINARY: Debian packages of the shared libraries that it loads, of the
                                    archives and headers that went into it (ninja's record), and the Rust crates linked in
  sbom.py --extend SBOM PACKAGE...  SBOM with further Debian packages, as they are installed here
  sbom.py --wheels SBOM LOCK...     SBOM with the Python packages that pip's lock files name; LOCK:NAME,NAME: these of it

SOURCE_DATE_EPOCH is the timestamp. EMULATOR, SYSROOT and DPKG_ADMINDIR are those of deploy/target.sh. The same inputs give the
same bytes.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATE = ROOT / "text/rust"
EMULATOR = os.environ.get("EMULATOR", "").split()
SYSROOT = os.environ.get("SYSROOT", "")


def output_of(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def packages_of(files):
    """Names of the Debian packages that own the files. A file that none owns stops: it would be missing from the list."""
    owner = {}
    # /usr is merged: a library that the loader finds in /lib may be owned as /usr/lib, or the other way round.
    spellings = {f for file in files for f in (file, file.removeprefix("/usr"), "/usr" + file.removeprefix("/usr"))}
    found = subprocess.run(["dpkg-query", "-S", *sorted(spellings)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True).stdout
    for line in found.splitlines():
        packages, _, path = line.rpartition(": ")
        owner[path.removeprefix("/usr")] = packages.split(", ")[0].split(":")[0]
    missing = [file for file in files if file.removeprefix("/usr") not in owner]
    if missing:
        sys.exit(f"sbom: no package owns {missing[0]}")
    return {owner[file.removeprefix("/usr")] for file in files}


def shared_libraries(binary):
    loader = [*EMULATOR, "-E", "LD_TRACE_LOADED_OBJECTS=1"] if EMULATOR else ["ldd"]
    return sorted(set(re.findall(r"(/\S+) \(0x", output_of(*loader, binary))))


def linked_archives(binary, build_dir):
    target = os.path.relpath(binary, build_dir)
    link = output_of("ninja", "-C", build_dir, "-t", "commands", "-s", target)
    return sorted(set(re.findall(r"(/usr/lib/\S+\.a)(?= |$)", link)))


def included_headers(build_dir):
    build_dir = os.path.abspath(build_dir)
    headers, ours = set(), False
    for line in output_of("ninja", "-C", build_dir, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            ours = not line.startswith("tests/")
        elif ours:
            header = os.path.normpath(os.path.join(build_dir, line.strip()))  # a compiler cache may make it relative
            headers.add(header.removeprefix(SYSROOT))
    system = sorted(header for header in headers if header.startswith("/usr/include/"))
    if not system:
        sys.exit(f"sbom: ninja has no record of the headers of {build_dir}")
    return system


def debian_component(package):
    fields = "${Version}\t${Architecture}\t${source:Package}\t${source:Version}"
    version, architecture, source, source_version = output_of("dpkg-query", "-W", "-f", fields, package).split("\t")
    release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    distribution = release["ID"].strip('"')
    # A purl wants + and ~ of a version escaped.
    escaped = version.replace("+", "%2B").replace("~", "%7E").replace(":", "%3A")
    purl = f"pkg:deb/{distribution}/{package}@{escaped}?arch={architecture}&distro={distribution}-" + \
        release["VERSION_ID"].strip('"')
    return {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl,
            "properties": [{"name": "debian:source", "value": f"{source} {source_version}"}]}


def crate_components():
    """The crates that the static library is linked from: normal dependencies, no build scripts', no macros'."""
    checksums = {}
    for block in (CRATE / "Cargo.lock").read_text().split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(name|version|checksum) = "(.*)"$', block, re.M))
        checksums[fields["name"], fields["version"]] = fields.get("checksum")
    tree = output_of("cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format",
                     "{p}\t{l}", cwd=CRATE)
    components = {}
    for line in tree.splitlines():
        crate, licence = line.removesuffix(" (*)").split("\t")
        name, version = crate.split(" ")[:2]
        version = version.removeprefix("v")
        checksum = checksums[name, version]
        if checksum is None:
            continue  # our own
        purl = f"pkg:cargo/{name}@{version}"
        components[purl] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
                            "licenses": [{"expression": licence.replace("/", " OR ")}],
                            "hashes": [{"alg": "SHA-256", "content": checksum}]}
    return list(components.values())


def wheel_components(lock):
    path, _, names = lock.partition(":")
    pinned = re.findall(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:(\w+)$", pathlib.Path(path).read_text(), re.M)
    wanted = names.split(",") if names else [name for name, _, _ in pinned]
    missing = set(wanted) - {name for name, _, _ in pinned}
    if missing or not wanted:
        sys.exit(f"sbom: {path} does not pin {', '.join(sorted(missing)) or 'anything'}")
    return [{"type": "library", "bom-ref": f"pkg:pypi/{name}@{version}", "name": name, "version": version,
             "purl": f"pkg:pypi/{name}@{version}", "hashes": [{"alg": "SHA-256", "content": checksum}]}
            for name, version, checksum in pinned if name in wanted]


def with_components(document, components):
    by_ref = {component["bom-ref"]: component for component in document["components"] + components}
    document["components"] = [by_ref[ref] for ref in sorted(by_ref)]
    document["dependencies"] = [{"ref": document["metadata"]["component"]["bom-ref"], "dependsOn": sorted(by_ref)}]
    document.pop("serialNumber", None)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    return {**document, "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}"}


def new_document(binary):
    version = output_of(*EMULATOR, binary, "--version").strip()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    component = {"type": "application", "bom-ref": f"dunlin@{version}", "name": "dunlin", "version": version,
                 "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest()}]}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": time, "component": component}, "components": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extend", metavar="SBOM")
    parser.add_argument("--wheels", metavar="SBOM")
    parser.add_argument("arguments", nargs="+")
    options = parser.parse_args()
    if options.extend:
        document = json.loads(pathlib.Path(options.extend).read_text())
        components = [debian_component(package) for package in options.arguments]
    elif options.wheels:
        document = json.loads(pathlib.Path(options.wheels).read_text())
        components = [component for lock in options.arguments for component in wheel_components(lock)]
    else:
        binary, build_dir = options.arguments
        document = new_document(binary)
        packages = packages_of(shared_libraries(binary) + linked_archives(binary, build_dir) +
                               included_headers(build_dir))
        components = [debian_component(package) for package in packages] + crate_components()
    json.dump(with_components(document, components), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
