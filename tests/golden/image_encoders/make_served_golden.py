# SPDX-License-Identifier: Apache-2.0
"""Makes mistral3_vision, a checkpoint of make_image_goldens.py, a model that can be served: a tokenizer of words, a chat
template and the files of its image processor; and served.json, what transformers answers to chats with images.

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

FOLDER = pathlib.Path(__file__).resolve().parent / "mistral3_vision"
MIN_MARGIN = 0.02
OUTPUT_TOKENS = 12
SPECIAL = {0: "<unk>", 1: "<s>", 2: "</s>", 10: "[IMG]", 12: "[IMG_BREAK]", 13: "[IMG_END]"}
TEMPLATE = """{{ bos_token }}
{%- for message in messages %} w20
    {%- if message['content'] is string %} {{ message['content'] }}
    {%- else %}
        {%- for block in message['content'] %}
            {%- if block['type'] == 'text' %} {{ block['text'] }}
            {%- elif block['type'] in ['image', 'image_url'] %} [IMG]
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %} w21{% endif %}"""


def write_text_files(vocab_size):
    words = {SPECIAL.get(i, f"w{i}"): i for i in range(vocab_size)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True) for text in SPECIAL.values()])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                                unk_token="<unk>", clean_up_tokenization_spaces=False)
    fast.save_pretrained(FOLDER)
    (FOLDER / "chat_template.jinja").write_text(TEMPLATE)
    return fast


def processor_of(tokenizer, config):
    images = transformers.PixtralImageProcessor(patch_size=config.vision_config.patch_size,
                                                size={"longest_edge": config.vision_config.image_size})
    processor = transformers.PixtralProcessor(images, tokenizer, patch_size=config.vision_config.patch_size,
                                              spatial_merge_size=config.spatial_merge_size, chat_template=TEMPLATE)
    processor.save_pretrained(FOLDER)
    return processor


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


def as_templates_read(messages):
    """Parts without their files, and the files."""
    files = []
    for message in messages:
        if isinstance(message["content"], str):
            continue
        for block in message["content"]:
            if block["type"] == "image_url":
                files.append(base64.b64decode(block["image_url"]["url"].split(",")[1]))
    return files


def answer(model, processor, messages):
    files = as_templates_read(messages)
    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    prompt = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=prompt, images=images, return_tensors="pt", add_special_tokens=False)
    tokens = inputs["input_ids"][0].tolist()
    given = {"pixel_values": inputs["pixel_values"], "image_sizes": inputs["image_sizes"]}
    output = []
    for _ in range(OUTPUT_TOKENS):
        logits = model(torch.tensor([tokens + output]), **given, use_cache=False).logits[0, -1]
        best = logits.topk(2).values
        if best[0] - best[1] < MIN_MARGIN:
            raise SystemExit(f"a margin of {best[0] - best[1]:.4f} after {len(output)} tokens: choose other pictures")
        output.append(int(logits.argmax()))
        if output[-1] == 2:
            break
    return {"messages": messages, "prompt_tokens": tokens, "output_tokens": output}


def main():
    config = transformers.AutoConfig.from_pretrained(FOLDER)
    tokenizer = write_text_files(config.text_config.vocab_size)
    processor = processor_of(tokenizer, config)
    model = transformers.AutoModelForImageTextToText.from_pretrained(FOLDER, dtype=torch.float32,
                                                                     attn_implementation="eager").eval()
    with torch.no_grad():
        answers = [answer(model, processor, messages) for messages in chats()]
    (FOLDER / "served.json").write_text(json.dumps({"source": f"transformers {transformers.__version__}", "chats": answers}) + "\n")
    for row in answers:
        print(len(row["prompt_tokens"]), row["prompt_tokens"][:30], row["output_tokens"])


if __name__ == "__main__":
    main()
