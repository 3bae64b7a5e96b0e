# SPDX-License-Identifier: Apache-2.0
"""Makes checkpoints of make_image_goldens.py models that can be served: a tokenizer of words, a chat template and the files
of an image processor; and served.json, what transformers answers to chats with images.

served.json: chats[]: messages, as OpenAI's API takes them, with images in data URLs; prompt_tokens, with the tokens of
images; output_tokens, greedy, by the whole model in float32 over what the processor makes of the files. In each draw the
best logit is at least MIN_MARGIN above the next one.

Usage: make_served_golden.py     (package versions: models/training/requirements.txt, and Pillow)
"""

import base64
import io
import json
import pathlib

import numpy
import tokenizers
import torch
import transformers
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
MIN_MARGIN = 0.02
OUTPUT_TOKENS = 12
IMAGE = 10
SPECIAL = {0: "<unk>", 1: "<s>", 2: "</s>"}
TEMPLATE = """{{ bos_token }}
{%- for message in messages %} w20
    {%- if message['content'] is string %} {{ message['content'] }}
    {%- else %}
        {%- for block in message['content'] %}
            {%- if block['type'] == 'text' %} {{ block['text'] }}
            {%- elif block['type'] in ['image', 'image_url'] %} PLACE
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %} w21{% endif %}"""


class Mistral:
    folder = HERE / "mistral3_vision"
    special = {10: "[IMG]", 12: "[IMG_BREAK]", 13: "[IMG_END]"}
    place = "[IMG]"

    def __init__(self, config, tokenizer):
        images = transformers.PixtralImageProcessor(patch_size=config.vision_config.patch_size,
                                                    size={"longest_edge": config.vision_config.image_size})
        self.processor = transformers.PixtralProcessor(images, tokenizer, patch_size=config.vision_config.patch_size,
                                                       spatial_merge_size=config.spatial_merge_size)
        self.processor.save_pretrained(self.folder)

    def inputs(self, prompt, images):
        inputs = self.processor(text=prompt, images=images, return_tensors="pt", add_special_tokens=False)
        return inputs["input_ids"][0].tolist(), {name: inputs[name] for name in ("pixel_values", "image_sizes")}

    def types(self, tokens):
        return {}


class Qwen:
    folder = HERE / "qwen35_vision"
    special = {10: "<|image_pad|>", 12: "<|vision_start|>", 13: "<|vision_end|>"}
    place = "<|vision_start|> <|image_pad|> <|vision_end|>"

    def __init__(self, config, tokenizer):
        vision = config.vision_config
        self.tokenizer = tokenizer
        self.images = transformers.Qwen2VLImageProcessor(
            patch_size=vision.patch_size, merge_size=vision.spatial_merge_size,
            temporal_patch_size=vision.temporal_patch_size, size={"shortest_edge": 72, "longest_edge": 1600})
        self.images.save_pretrained(self.folder)

    def inputs(self, prompt, images):
        inputs = self.images(images=images, return_tensors="pt")
        counts = iter((inputs["image_grid_thw"].prod(-1) // self.images.merge_size ** 2).tolist())
        tokens = []
        for token in self.tokenizer(prompt, add_special_tokens=False)["input_ids"]:
            tokens += [token] * (next(counts) if token == IMAGE else 1)
        return tokens, {name: inputs[name] for name in ("pixel_values", "image_grid_thw")}

    def types(self, tokens):
        return {"mm_token_type_ids": (tokens == IMAGE).int()}


def write_text_files(model, vocab_size):
    special = SPECIAL | model.special
    words = {special.get(i, f"w{i}"): i for i in range(vocab_size)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True) for text in special.values()])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                                unk_token="<unk>", clean_up_tokenization_spaces=False)
    fast.chat_template = TEMPLATE.replace("PLACE", model.place)
    fast.save_pretrained(model.folder)
    return fast


def picture(width, height, mode, seed):
    """Smooth, so that scaling it tells filters apart but nothing is noise."""
    random = numpy.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (5, 5, 3), dtype=numpy.uint8), "RGB")
    image = small.resize((width, height), Image.Resampling.BICUBIC)
    if mode == "RGBA":
        image.putalpha(255)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def part(data):
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(data).decode()}}


def text(words):
    return {"type": "text", "text": words}


def chats():
    wide, high, small = picture(70, 31, "RGB", 1), picture(30, 44, "RGBA", 2), picture(9, 5, "RGB", 3)
    return [
        [{"role": "user", "content": [part(wide), text("w30 w31 w32")]}],
        [{"role": "user", "content": [text("w40 w41"), part(high), text("w42"), part(small)]},
         {"role": "assistant", "content": "w50 w51"}, {"role": "user", "content": "w52 w53"}],
        [{"role": "user", "content": [part(small), text("w30 w31 w32")]}],
    ]


def files_of(messages):
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [base64.b64decode(block["image_url"]["url"].split(",")[1]) for block in blocks if block["type"] == "image_url"]


def answer(loaded, model, tokenizer, messages):
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files_of(messages)]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    tokens, given = model.inputs(prompt, images)
    output = []
    for _ in range(OUTPUT_TOKENS):
        ids = torch.tensor([tokens + output])
        logits = loaded(ids, **model.types(ids), **given, use_cache=False).logits[0, -1]
        best = logits.topk(2).values
        if best[0] - best[1] < MIN_MARGIN:
            raise SystemExit(f"a margin of {best[0] - best[1]:.4f} after {len(output)} tokens: choose other pictures")
        if logits.argmax() == IMAGE:  # transformers would take it for a place of an image
            break
        output.append(int(logits.argmax()))
        if output[-1] == 2:
            break
    return {"messages": messages, "prompt_tokens": tokens, "output_tokens": output}


def main():
    for kind in (Mistral, Qwen):
        config = transformers.AutoConfig.from_pretrained(kind.folder)
        tokenizer = write_text_files(kind, config.text_config.vocab_size)
        model = kind(config, tokenizer)
        loaded = transformers.AutoModelForImageTextToText.from_pretrained(kind.folder, dtype=torch.float32,
                                                                          attn_implementation="eager").eval()
        with torch.no_grad():
            answers = [answer(loaded, model, tokenizer, messages) for messages in chats()]
        (kind.folder / "served.json").write_text(
            json.dumps({"source": f"transformers {transformers.__version__}", "chats": answers}) + "\n")
        for row in answers:
            print(len(row["prompt_tokens"]), row["prompt_tokens"][:30], row["output_tokens"])


if __name__ == "__main__":
    main()
