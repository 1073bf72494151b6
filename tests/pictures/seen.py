# SPDX-License-Identifier: BSD-3-Clause
"""seen.py CHROMIUM FOLDER: renders each picture of the documents in a headless browser, in its light and in its dark form.

Each has the size that it names and several colours, and its background is light in the one and dark in the other. FOLDER keeps the
renderings: light.png and dark.png.
"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

chromium, folder = sys.argv[1:]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
pictures = sorted(glob.glob(glob.escape(root) + "/*/pictures/*.svg") + glob.glob(glob.escape(root) + "/examples/*/pictures/*.svg"))
WIDTH = 840


def browse(profile, *arguments):
    command = [chromium, "--headless", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
               "--disable-background-networking", "--disable-component-update", "--proxy-server=127.0.0.1:9", "--hide-scrollbars",
               "--force-color-profile=srgb", f"--user-data-dir={profile}", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)


def rows(path):
    """The pixels of a PNG of 8-bit RGB or RGBA, as rows of triples."""
    with open(path, "rb") as file:
        png = file.read()
    width, height, kind = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big"), png[25]
    size, at, data = 3 if kind == 2 else 4, 8, b""
    while at < len(png):
        length = int.from_bytes(png[at:at + 4], "big")
        if png[at + 4:at + 8] == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += length + 12
    data, before, out = zlib.decompress(data), bytes(width * size), []
    for y in range(height):
        start = y * (width * size + 1)
        how, line = data[start], bytearray(data[start + 1:start + 1 + width * size])
        for i in range(len(line)):
            left = line[i - size] if i >= size else 0
            up, corner = before[i], before[i - size] if i >= size else 0
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = (line[i] + (0, left, up, (left + up) // 2, near)[how]) & 255
        before = bytes(line)
        out.append([before[i:i + 3] for i in range(0, len(before), size)])
    return out


def main():
    places, y = [], 10
    body = ""
    for path in pictures:
        with open(path, encoding="utf-8") as file:
            w, h = map(int, re.search(r'width="(\d+)" height="(\d+)"', file.read()).groups())
        body += f'<img src="{pathlib.Path(path).as_uri()}" style="position:absolute;left:10px;top:{y}px">'
        places.append((path, y, w, h))
        y += h + 10
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        page = os.path.join(scratch, "page.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><meta name="color-scheme" content="light dark"><body>{body}</body>')
        for form, setting in (("light", 1), ("dark", 0)):
            shot = os.path.join(folder, form + ".png")
            done = browse(scratch + "/profile", f"--blink-settings=preferredColorScheme={setting}", f"--window-size={WIDTH},{y}",
                          f"--screenshot={shot}", pathlib.Path(page).as_uri())
            if not os.path.exists(shot):
                print("skip: the browser does not run here:", done.stderr.strip().splitlines()[-1:])
                return 77
            seen = rows(shot)
            for path, top, w, h in places:
                name = os.path.relpath(path, root)
                paper = seen[top + h - 6][10 + w // 2 + 100]
                if (sum(paper) > 3 * 128) != (form == "light"):
                    wrong.append(f"{name}: its paper is {paper.hex()} in the {form} form")
                if len({pixel for line in seen[top:top + h] for pixel in line[10:10 + w]}) < 20:
                    wrong.append(f"{name}: blank in the {form} form")
    for line in wrong:
        print("FAILED:", line)
    print(f"{len(pictures)} pictures seen, in light and in dark: {folder}")
    return bool(wrong)


sys.exit(main())
