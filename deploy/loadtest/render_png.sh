#!/usr/bin/env bash
# Charts of `dunlin load --charts DIR` as PNG beside the SVG, by librsvg (Debian: librsvg2-bin): the server's binary needs
# no drawing library for it. Usage: render_png.sh DIR
set -euo pipefail
command -v rsvg-convert >/dev/null || { echo "needs rsvg-convert (Debian package librsvg2-bin)" >&2; exit 1; }
for svg in "$1"/*.svg; do rsvg-convert --zoom 2 --format png --output "${svg%.svg}.png" "$svg"; done
