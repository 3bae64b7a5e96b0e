# SPDX-License-Identifier: Apache-2.0
"""Builds the demo model's corpus from prose that ships in Debian packages.

Downloads each package of SOURCES with apt-get (Debian 12), unpacks it, extracts running English
prose, drops markup, code, tables and duplicates, and writes train.jsonl, heldout.jsonl and
packages.json (name, version, licence, characters). Whole documents are held out, by hash.

Usage: prepare_corpus.py --work DIR     (about 700 MB of downloads and unpacked files)
"""

import argparse
import collections
import gzip
import hashlib
import html.parser
import json
import pathlib
import re
import struct
import subprocess
import zlib

HELDOUT_PERCENT = 2
MIN_DOCUMENT_CHARS = 200
MIN_PARAGRAPH_CHARS = 40

SKIPPED_TAGS = {"pre", "code-block", "script", "style", "table", "nav", "head", "screen", "info", "svg",
                "listing", "synopsis", "title"}
PARAGRAPH_TAGS = {"p", "li", "dd", "dt", "blockquote", "h1", "h2", "h3", "h4", "div", "td", "item", "section"}
VOID_TAGS = {"link", "meta", "br", "hr", "img", "input", "include", "revision", "col"}


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


class ProseParser(html.parser.HTMLParser):
    """Collects the text of paragraphs of an HTML or Mallard page, outside SKIPPED_TAGS."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.paragraphs, self.current, self.skip_depth = [], [], 0

    def flush(self):
        self.paragraphs.append(join_lines("".join(self.current)))
        self.current = []

    def handle_starttag(self, tag, attrs):
        if tag in SKIPPED_TAGS and tag not in VOID_TAGS:
            self.skip_depth += 1
        if tag in PARAGRAPH_TAGS:
            self.flush()

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag in SKIPPED_TAGS:
            self.skip_depth = max(0, self.skip_depth - 1)
        if tag in PARAGRAPH_TAGS:
            self.flush()

    def handle_data(self, data):
        if self.skip_depth == 0:
            self.current.append(data)


def read_markup(root, pattern):
    for path in sorted(root.glob(pattern)):
        parser = ProseParser()
        parser.feed(path.read_text("utf-8", "replace"))
        parser.flush()
        yield path.name, parser.paragraphs


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


def read_text(root, pattern):
    for path in sorted(root.glob(pattern)):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
        for i in range(0, len(text), 30000):
            yield f"{path.name} {i}", paragraphs_of(text[i:i + 30000].replace("_", ""))


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


def read_endless_sky(root, pattern):
    """Back-quoted strings of the mission files; a conversation is one document."""
    for path in sorted(root.glob(pattern)):
        for i, block in enumerate(re.split(r"\n(?=\S)", path.read_text("utf-8", "replace"))):
            strings = re.findall(r"`([^`\n]*)`|^\s*(?:description|spaceport)\s+\"([^\"\n]*)\"", block, flags=re.M)
            yield f"{path.name} {i}", [join_lines(a or b) for a, b in strings if "<" not in (a or b)]


def read_wesnoth(root, pattern):
    """Translatable strings of the campaign scenarios, in order."""
    for path in sorted(root.glob(pattern)):
        strings = re.findall(r"_\s*\"((?:[^\"]|\"\")*)\"", path.read_text("utf-8", "replace"))
        strings = [re.sub(r"<[^>]*>", "", s.replace('""', '"')) for s in strings]
        yield str(path.relative_to(root)), [p for s in strings for p in paragraphs_of(s)]


WESNOTH_CAMPAIGNS = "did dm dw ei httt l low nr sof sota sotbe thot trow tsg ttb utbs".split()

# Package, version, licence of the text, reader, files inside the package.
SOURCES = [
    ("r-cran-janeaustenr", "1.0.0-1", "public domain texts, package MIT",
     read_austen, "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"),
    ("sword-text-kjv", "14.3-1", "public domain",
     read_sword, "usr/share/sword/modules/texts/ztext/*/[on]t.bzs"),
    ("endless-sky-data", "0.9.8-1.2", "GPL-3+",
     read_endless_sky, "usr/share/games/endless-sky/data/*.txt"),
    *(("wesnoth-1.16-" + c, "1:1.16.9-1", "GPL-2+", read_wesnoth, "usr/share/games/wesnoth/*/data/campaigns/**/*.cfg")
      for c in WESNOTH_CAMPAIGNS),
    ("dict-foldoc", "20230119-1", "GFDL-1.1+",
     read_dictionary, "usr/share/dictd/foldoc.dict.dz"),
    ("dict-jargon", "4.4.7-3.1", "public domain",
     read_dictionary, "usr/share/dictd/jargon.dict.dz"),
    ("debian-handbook", "11.20220922", "GPL-2+ or CC-BY-SA-3.0",
     read_markup, "usr/share/doc/debian-handbook/html/en-US/*.html"),
    ("debian-reference-en", "2.100", "GPL-2+",
     read_markup, "usr/share/**/*.en.html"),
    ("debian-faq", "11.1", "Debian FAQ licence (copyleft notice)",
     read_markup, "usr/share/doc/**/*.en.html"),
    ("developers-reference", "12.18", "GPL-2+",
     read_markup, "usr/share/**/*.html"),
    ("maint-guide", "1.2.53", "GPL-2+",
     read_markup, "usr/share/**/*.en.html"),
    ("installation-guide-amd64", "20230508+deb12u1", "GPL-2",
     read_markup, "usr/share/doc/installation-guide-amd64/en/*.html"),
    ("gnome-user-docs", "43.0-2", "CC-BY-SA-3.0",
     read_markup, "usr/share/help/C/**/*.page"),
    ("png-definitive-guide", "20060430-4", "GFDL-1.1+",
     read_markup, "usr/share/doc/**/*.html"),
    ("mh-book", "200605-2.2", "GPL-2+",
     read_markup, "usr/share/doc/**/*.html"),
    ("postgresql-doc-15", "15.20-0+deb12u1", "PostgreSQL",
     read_markup, "usr/share/doc/**/*.html"),
    ("golang-1.19-src", "1.19.8-2", "public domain text (Newton), package BSD-3-Clause",
     read_text, "usr/share/go-1.19/src/testdata/Isaac.Newton-Opticks.txt"),
    ("miscfiles", "1.5+dfsg-4", "public domain texts (US founding documents)",
     read_text, "usr/share/state/us-*.gz"),
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
