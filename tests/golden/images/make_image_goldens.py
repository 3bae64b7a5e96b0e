# SPDX-License-Identifier: Apache-2.0
"""Writes the goldens of text/images: small image files with their pixels by Pillow, pixels resized by Pillow, and what
transformers' PixtralImageProcessor and Qwen2VLImageProcessor make of them.

    python tests/golden/images/make_image_goldens.py

Made with Pillow 13.0.0 (libjpeg-turbo, libwebp), transformers 5.24.0, torchvision 0.29.2, torch on the CPU, numpy 2.4.6.
Writes decode.json, resize.json and processor.json next to itself; bytes are base64. Deterministic.
"""
import base64
import io
import json
import pathlib
import struct
import zlib

import numpy as np
import torch
from PIL import Image, ImageOps
from transformers.image_transforms import convert_to_rgb
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.pixtral.image_processing_pixtral import PixtralImageProcessor, get_resize_output_image_size
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor, smart_resize

HERE = pathlib.Path(__file__).resolve().parent
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


def text_of(data):
    return base64.b64encode(data).decode()


def scene(width, height):
    """RGB: gradients, a disc and a checkerboard, which no turn or flip maps to itself."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    red = 255 * x / max(width - 1, 1)
    green = 255 * y / max(height - 1, 1)
    blue = 127 + 127 * np.sin(x / 3.0 + y / 5.0)
    pixels = np.stack([red, green, blue], -1)
    pixels[(x - width * 0.3) ** 2 + (y - height * 0.35) ** 2 < (height * 0.22) ** 2] = [250, 240, 20]
    corner = (x > width * 0.7) & (y > height * 0.6) & ((x + y) % 4 < 2)
    pixels[corner] = [10, 10, 40]
    return np.rint(pixels).clip(0, 255).astype(np.uint8)


def saved(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def oriented(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # Adam7


def png(samples, depth, colour_type, extra=b"", interlaced=False):
    """Kinds of PNG that Pillow does not write. samples: [height, width, channels]."""
    height, width, _ = samples.shape

    def rows(part):
        data = b""
        for line in part.reshape(part.shape[0], -1):
            if depth == 16:
                packed = line.astype(">u2").tobytes()
            elif depth == 8:
                packed = line.astype(np.uint8).tobytes()
            else:
                bits = "".join(format(int(value), f"0{depth}b") for value in line)
                packed = bytes(int(bits[i:i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))
            data += b"\0" + packed
        return data

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    if interlaced:
        parts = [samples[y::dy, x::dx] for x, y, dx, dy in PASSES]
        raw = b"".join(rows(part) for part in parts if part.size)
    else:
        raw = rows(samples)
    head = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def transparency(data):
    return struct.pack(">I", len(data)) + b"tRNS" + data + struct.pack(">I", zlib.crc32(b"tRNS" + data))


def lossless_files():
    rgb = scene(24, 18)
    image = Image.fromarray(rgb)
    grey = np.array(image.convert("L"))
    alpha = np.linspace(0, 255, 24 * 18).astype(np.uint8).reshape(18, 24)
    rgba = Image.fromarray(np.dstack([rgb, alpha]))
    wide = rgb.astype(np.uint16) * 256 + 131
    wide_alpha = np.dstack([wide, alpha.astype(np.uint16) * 257])
    palette = image.quantize(16)
    yield "png_rgb", saved(image, "PNG")
    yield "png_rgba", saved(rgba, "PNG")
    yield "png_palette", saved(palette, "PNG")
    yield "png_palette_2_bits", saved(image.quantize(4), "PNG", bits=2)
    yield "png_palette_transparent", saved(palette, "PNG", transparency=bytes(range(0, 256, 16)))
    yield "png_palette_one_transparent", saved(palette, "PNG", transparency=3)
    yield "png_grey", saved(Image.fromarray(grey), "PNG")
    yield "png_1_bit", saved(Image.fromarray(grey).convert("1"), "PNG")
    yield "png_grey_2_bits", png((grey >> 6)[..., None], 2, 0)
    yield "png_grey_4_bits", png((grey >> 4)[..., None], 4, 0)
    yield "png_grey_alpha", saved(Image.fromarray(np.dstack([grey, alpha])), "PNG")
    yield "png_grey_key", png(grey[..., None], 8, 0, transparency(struct.pack(">H", int(grey[0, 0]))))
    yield "png_rgb_key", png(rgb, 8, 2, transparency(struct.pack(">HHH", *map(int, rgb[0, 0]))))
    yield "png_grey_16_bits", png(wide[..., :1], 16, 0)
    yield "png_grey_alpha_16_bits", png(wide_alpha[..., 2:], 16, 4)
    yield "png_rgb_16_bits", png(wide, 16, 2)
    yield "png_rgba_16_bits", png(wide_alpha, 16, 6)
    yield "png_interlaced", png(rgb, 8, 2, interlaced=True)
    yield "png_orientation_6", saved(image, "PNG", exif=oriented(6))
    yield "png_1_pixel", saved(Image.fromarray(rgb[:1, :1]), "PNG")
    yield "gif", saved(palette, "GIF")
    yield "gif_transparent", saved(palette, "GIF", transparency=5)
    other = Image.fromarray(rgb[::-1].copy()).quantize(16)
    yield "gif_animated", saved(palette, "GIF", save_all=True, append_images=[other], duration=100)
    yield "webp_lossless", saved(image, "WEBP", lossless=True)
    yield "webp_lossless_alpha", saved(rgba, "WEBP", lossless=True, exact=True)
    yield "webp_lossless_orientation_8", saved(image, "WEBP", lossless=True, exif=oriented(8))
    yield "webp_animated", saved(image, "WEBP", lossless=True, save_all=True, append_images=[rgba.convert("RGB")])


def lossy_files():
    """With the levels that another decoder may differ by: measured 2 without subsampling, 3 with half and 5 with a quarter
    of the colours, 1 in grey and CMYK; and 1 more, for inverse transforms of other instruction sets. WebP's is exact."""
    rgb = scene(48, 36)
    image = Image.fromarray(rgb)
    yield "jpeg_444", saved(image, "JPEG", quality=90, subsampling=0), 3
    yield "jpeg_420", saved(image, "JPEG", quality=90, subsampling=2), 6
    yield "jpeg_422", saved(image, "JPEG", quality=90, subsampling=1), 4
    yield "jpeg_progressive", saved(image, "JPEG", quality=90, subsampling=2, progressive=True), 6
    yield "jpeg_restarts", saved(image, "JPEG", quality=90, restart_marker_blocks=2), 6
    yield "jpeg_grey", saved(image.convert("L"), "JPEG", quality=90), 2
    yield "jpeg_cmyk", saved(image.convert("CMYK"), "JPEG", quality=90), 2
    yield "webp_lossy", saved(image, "WEBP", quality=80), 0
    rgba = Image.fromarray(np.dstack([rgb, np.tile(np.linspace(0, 255, 48).astype(np.uint8), (36, 1))]))
    yield "webp_lossy_alpha", saved(rgba, "WEBP", quality=80), 0
    small = Image.fromarray(scene(20, 12))
    for orientation in range(1, 9):
        file = saved(small, "JPEG", quality=95, subsampling=0, exif=oriented(orientation))
        yield f"jpeg_orientation_{orientation}", file, 3


def decoded(file):
    """The pixels as Pillow has them; of 16-bit grey, which Pillow clips to 255, the upper 8 bits."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    if image.mode == "I;16":
        return (np.array(image) >> 8).astype(np.uint8)[..., None].repeat(3, -1)
    return convert_to_rgb(image, return_numpy=True)


def decode_cases():
    files = [(name, file, 0) for name, file in lossless_files()] + list(lossy_files())
    for name, file, levels in files:
        pixels = decoded(file)
        yield {"name": name, "file": text_of(file), "width": pixels.shape[1], "height": pixels.shape[0],
               "rgb": text_of(pixels.tobytes()), "levels": levels}


RESAMPLE = {"lanczos": Image.Resampling.LANCZOS, "bilinear": Image.Resampling.BILINEAR,
            "bicubic": Image.Resampling.BICUBIC}


def resize_cases():
    image = Image.fromarray(scene(40, 30))
    sizes = [(40, 30), (20, 15), (7, 5), (1, 1), (40, 12), (13, 30), (56, 42), (80, 9), (3, 61), (41, 31), (42, 28), (28, 42)]
    cases = [{"filter": name, "width": width, "height": height,
              "rgb": text_of(np.array(image.resize((width, height), resample)).tobytes())}
             for name, resample in RESAMPLE.items() for width, height in sizes]
    return {"width": image.width, "height": image.height, "rgb": text_of(np.array(image).tobytes()), "cases": cases}


def processor_case(name, width, height, longest_edge, patch_size, merge_size, **fields):
    pixels = scene(width, height)
    config = {"size": {"longest_edge": longest_edge}, "patch_size": patch_size, "image_mean": MEAN, "image_std": STD,
              "resample": 3, "rescale_factor": 1 / 255, "do_resize": True, "do_rescale": True, "do_normalize": True,
              "do_convert_rgb": True, **fields}
    square = {"height": patch_size * merge_size, "width": patch_size * merge_size}
    arguments = {**config, "patch_size": square}
    values, fast = (kind(**arguments)(images=Image.fromarray(pixels), patch_size=square, return_tensors=form)["pixel_values"][0]
                    for kind, form in ((PixtralImageProcessorPil, "np"), (PixtralImageProcessor, "pt")))
    case = {"name": name, "width": width, "height": height, "rgb": text_of(pixels.tobytes()),
            "preprocessor_config": {"image_processor_type": "PixtralImageProcessorFast", **config},
            "processor_config": {"patch_size": patch_size, "spatial_merge_size": merge_size},
            "rows": values.shape[1] // patch_size, "columns": values.shape[2] // patch_size,
            "values": text_of(values.astype("<f4").tobytes())}
    if config["do_rescale"] and config["do_normalize"]:
        case["torchvision_levels"] = levels_of(fast, MEAN, STD)
    return case


def levels_of(values, mean, std):
    """What torchvision resized, in levels."""
    levels = (values * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]) * 255
    return text_of(levels.round().to(torch.uint8).numpy().tobytes())


def whole_image(output, config):
    """[3, height, width] of patches [channel, frame, y, x], whose frames are equal, in blocks of merge_size."""
    _, rows, columns = (int(side) for side in output["image_grid_thw"][0])
    patch, merge = config["patch_size"], config["merge_size"]
    frames = np.asarray(output["pixel_values"]).reshape(rows // merge, columns // merge, merge, merge, 3,
                                                        config["temporal_patch_size"], patch, patch)
    assert all(np.array_equal(frames[:, :, :, :, :, 0], frames[:, :, :, :, :, i]) for i in range(frames.shape[5]))
    image = frames[:, :, :, :, :, 0].transpose(4, 0, 2, 5, 1, 3, 6)
    return image.reshape(3, rows * patch, columns * patch)


def qwen_case(name, width, height, least, most, patch_size, merge_size, **fields):
    pixels, mean, std = scene(width, height), [0.5] * 3, [0.5] * 3
    config = {"size": {"shortest_edge": least, "longest_edge": most}, "patch_size": patch_size,
              "merge_size": merge_size, "temporal_patch_size": 2, "image_mean": mean, "image_std": std, **fields}
    image, fast = (whole_image(kind(**config)(images=Image.fromarray(pixels), return_tensors=form), config)
                   for kind, form in ((Qwen2VLImageProcessorPil, "np"), (Qwen2VLImageProcessor, "pt")))
    return {"name": name, "width": width, "height": height, "rgb": text_of(pixels.tobytes()),
            "preprocessor_config": {"image_processor_type": "Qwen2VLImageProcessorFast", **config}, "processor_config": {},
            "rows": image.shape[1] // patch_size, "columns": image.shape[2] // patch_size,
            "values": text_of(image.astype("<f4").tobytes()),
            "torchvision_levels": levels_of(torch.tensor(fast), mean, std)}


def qwen_size_cases():
    """An image with a side more than 200 times the other is refused, and has 0 columns and rows here."""
    random = np.random.default_rng(6)
    for _ in range(400):
        width, height = (int(side) for side in np.exp(random.uniform(0, np.log(5000), 2)))
        patch, merge = int(random.choice([14, 16])), int(random.choice([1, 2]))
        least, most = [(3136, 1003520), (65536, 16777216), (65536, 66000), (256, 1024)][random.integers(4)]
        try:
            rows, columns = (side // patch for side in smart_resize(height, width, patch * merge, least, most))
        except ValueError:
            rows = columns = 0
        yield [width, height, least, most, patch, merge, columns, rows]


def size_cases():
    random = np.random.default_rng(5)
    for _ in range(300):
        width, height = (int(side) for side in np.exp(random.uniform(0, np.log(5000), 2)))
        edge, patch, merge = int(random.choice([56, 1000, 1024, 1540])), int(random.choice([14, 16])), int(random.choice([1, 2]))
        square = patch * merge
        out = get_resize_output_image_size(np.zeros((height, width, 3), np.bool_), (edge, edge), (square, square), "channels_last")
        yield [width, height, edge, patch, merge, out[1] // patch, out[0] // patch]


def processor_cases():
    cases = [
        processor_case("down", 45, 33, 32, 4, 2),
        processor_case("up", 21, 30, 64, 4, 2),
        processor_case("no merge", 37, 18, 24, 6, 1, resample=2),
        processor_case("bytes", 30, 22, 20, 5, 2, do_rescale=False, do_normalize=False),
        processor_case("no normalize", 16, 24, 64, 4, 2, do_normalize=False),
        qwen_case("qwen down", 45, 33, 64, 600, 4, 2),
        qwen_case("qwen up", 13, 10, 400, 4096, 4, 2),
        qwen_case("qwen near", 30, 21, 64, 4096, 3, 2),
        qwen_case("qwen pixels", 37, 18, 1, 4096, 6, 1, min_pixels=900, max_pixels=1200),
    ]
    return {"cases": cases, "sizes": list(size_cases()), "qwen_sizes": list(qwen_size_cases())}


def write(name, content):
    (HERE / name).write_text(json.dumps(content, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    write("decode.json", list(decode_cases()))
    write("resize.json", resize_cases())
    write("processor.json", processor_cases())
