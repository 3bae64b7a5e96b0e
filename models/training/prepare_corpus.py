# SPDX-License-Identifier: Apache-2.0
"""Builds the demo model's corpus from public-domain prose that ships in Debian packages.

Downloads each package of SOURCES with apt-get (Debian 12), unpacks it, extracts running English
prose, drops markup, code, tables and duplicates, and writes train.jsonl, heldout.jsonl and
packages.json (name, version, licence, characters). Whole documents are held out, by hash.

Usage: prepare_corpus.py --work DIR     (about 20 MB of downloads and unpacked files)
"""

import argparse
import collections
import gzip
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import zlib

HELDOUT_PERCENT = 2
MIN_DOCUMENT_CHARS = 200
MIN_PARAGRAPH_CHARS = 40


def join_lines(text):
    return re.sub(r"\s+", " ", text).strip()


def paragraphs_of(text):
    """Paragraphs separated by blank lines, each on one line."""
    return [join_lines(p) for p in re.split(r"\n\s*\n", text)]


def is_prose(paragraph):
    """Mostly letters, mostly ASCII, ends like a sentence: keeps code, tables and headings out."""
    if len(paragraph) < MIN_PARAGRAPH_CHARS or paragraph[-1] not in ".!?\"':;)":
        return False
    letters = sum(c.isalpha() or c == " " for c in paragraph)
    odd = sum(c in "{}[]<>|\\=_$#@/*~^%&+" for c in paragraph)
    return letters / len(paragraph) > 0.9 and odd / len(paragraph) < 0.012


def normalise(text):
    for old, new in (("\u2018", "'"), ("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"'), ("\u2014", "--"),
                     ("\u2013", "-"), ("\u2026", "..."), ("\u00a0", " "), ("\u200b", ""), ("\u2212", "-"),
                     ("\u2192", "->"), ("``", '"'), ("''", '"')):
        text = text.replace(old, new)
    return text


def read_austen(root, pattern):
    """R's lazy-load database: per object a length and a zlib stream of R's XDR serialisation."""
    data = next(root.glob(pattern)).read_bytes()
    while len(data) > 4:
        stream = zlib.decompressobj()
        book = stream.decompress(data[4:])
        data = stream.unused_data
        at = book.find(b"\x00\x00\x00\x10", 14)
        count, at, lines = int.from_bytes(book[at + 4:at + 8], "big"), at + 8, []
        for _ in range(count):
            length = int.from_bytes(book[at + 4:at + 8], "big")
            lines.append(book[at + 8:at + 8 + length].decode("utf-8", "replace"))
            at += 8 + length
        chapters = re.split(r"\n(?:CHAPTER|Chapter) [\w.]+[^\n]*\n", "\n".join(lines).replace("_", ""))
        for i, chapter in enumerate(chapters[1:]):
            yield f"{lines[0]} {i}", paragraphs_of(chapter)


def read_sword(root, pattern):
    """SWORD zText: .bzs holds (offset, size, length) of each zlib block of .bzz; one block per book."""
    for index in sorted(root.glob(pattern)):
        blocks = index.with_suffix(".bzz").read_bytes()
        for offset, size, _ in struct.iter_unpack("<III", index.read_bytes()):
            book = zlib.decompress(blocks[offset:offset + size]).decode("utf-8", "replace")
            book = re.sub(r"<title.*?</title>|<note.*?</note>", "", book, flags=re.S)
            for chapter in re.split(r"<chapter [^>]*sID=[^>]*>", book)[1:]:
                chapter = re.sub(r"<div [^>]*type=\"x-p\"/>", "\n\n", chapter)
                chapter = re.sub(r"<[^>]*>", "", chapter).replace("\u00b6", "")
                text = join_lines(chapter)
                yield hashlib.sha1(text.encode()).hexdigest()[:8], paragraphs_of(chapter)


def read_dictionary(root, pattern):
    """dictd text: headwords at column 0, definitions indented; cross references in braces."""
    text = gzip.decompress(next(root.glob(pattern)).read_bytes()).decode("utf-8", "replace")
    for entry in re.split(r"\n(?=\S)", text):
        head, _, body = entry.partition("\n")
        body = re.sub(r"\{?\(?https?:[^\s)}]*\)?\}?|\(\d{4}-\d\d-\d\d\)|\[\"?[A-Z][^\]]*\]", "", body)
        body = re.sub(r"^\s*\d+\.\s+", "", re.sub(r"<[^>\n]*>|[{}]", "", body), flags=re.M)
        body = re.sub(r"\[[^\]]*\]", "", body)
        kept = [join_lines(p) for p in re.split(r"\n\s*\n", body)]
        if any(kept):
            yield head, [f"{join_lines(head)}: {kept[0]}"] + kept[1:] if kept[0] else kept


# Package, version, licence of the text, reader, files inside the package.
SOURCES = [
    ("r-cran-janeaustenr", "1.0.0-1", "public domain texts, package MIT",
     read_austen, "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"),
    ("sword-text-kjv", "14.3-1", "public domain",
     read_sword, "usr/share/sword/modules/texts/ztext/*/[on]t.bzs"),
    ("dict-jargon", "4.4.7-3.1", "public domain",
     read_dictionary, "usr/share/dictd/jargon.dict.dz"),
]


def unpack(package, version, work):
    root = work / "unpacked" / package
    debs = work / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    if not list(debs.glob(package + "_*.deb")):
        subprocess.run(["apt-get", "download", f"{package}={version}"], cwd=debs, check=True)
    deb = next(debs.glob(package + "_*.deb"))
    if not root.exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    return root


def is_heldout(name):
    return int(hashlib.sha1(name.encode()).hexdigest(), 16) % 100 < HELDOUT_PERCENT


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    work = arguments.parse_args().work
    seen, packages = set(), {}
    documents = {"train": [], "heldout": []}
    for package, version, licence, read, pattern in SOURCES:
        root = unpack(package, version, work)
        chars = collections.Counter()
        for name, paragraphs in read(root, pattern):
            kept = []
            for paragraph in map(normalise, paragraphs):
                if is_prose(paragraph) and paragraph not in seen:
                    seen.add(paragraph)
                    kept.append(paragraph)
            text = "\n\n".join(kept)
            if len(text) >= MIN_DOCUMENT_CHARS:
                split = "heldout" if is_heldout(package + name) else "train"
                documents[split].append({"package": package, "name": name, "text": text})
                chars[split] += len(text)
        packages[package] = {"version": version, "licence": licence, "train_chars": chars["train"],
                             "heldout_chars": chars["heldout"]}
        print(package, version, dict(chars), flush=True)
    for split, rows in documents.items():
        with open(work / (split + ".jsonl"), "w", encoding="utf-8") as out:
            for row in rows:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
    (work / "packages.json").write_text(json.dumps(packages, indent=1))


if __name__ == "__main__":
    main()
